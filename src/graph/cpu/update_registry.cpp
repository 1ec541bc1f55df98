#include "src/graph/cpu/registry.h"

namespace xp::graph::cpu {

std::unique_ptr<Kernel> MakeUpdateKernel(const Context& context, const Graph& g, const Op& op) {
  (void)context;
  (void)g;
  switch (op.type) {
    default:
      return nullptr;
  }
}

}  // namespace xp::graph::cpu
