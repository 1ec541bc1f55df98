#include "src/graph/cpu/registry.h"

#include "exp/base/error.h"

namespace xp::graph::cpu {

std::unique_ptr<Kernel> MakeKernel(const Context& context, const Graph& g, const Op& op) {
  if (auto kernel = MakeNnKernel(context, g, op)) return kernel;
  if (auto kernel = MakeDetectionKernel(context, g, op)) return kernel;
  if (auto kernel = MakeUpdateKernel(context, g, op)) return kernel;
  throw UsageError({.what = std::string("the CPU backend has no ") + OpName(op.type) + " for " +
                            DTypeName(g.compute()),
                    .where = op.name,
                    .next = "use precision: fp32 on the CPU"});
}

}  // namespace xp::graph::cpu
