#include "src/graph/cuda/own_conv.h"

#include "src/graph/cuda/conv_variants.h"

namespace xp::graph::cuda {
namespace {

bool FindTarget(OwnConvTarget* target) {
  int device = 0;
  bool found = cudaGetDevice(&device) == cudaSuccess &&
               cudaDeviceGetAttribute(&target->major, cudaDevAttrComputeCapabilityMajor, device) ==
                   cudaSuccess &&
               cudaDeviceGetAttribute(&target->multiprocessors, cudaDevAttrMultiProcessorCount,
                                      device) == cudaSuccess;
  if (!found) cudaGetLastError();
  return found;
}

}  // namespace

std::vector<OwnConv> OwnConvs(const ConvProblem& problem, cudaStream_t stream) {
  std::vector<OwnConv> made;
  OwnConvTarget target;
  if (!FindTarget(&target)) return made;
  target.stream = stream;
  if (auto stem = MakeStemConv(problem, target)) made.push_back({"own:stem", std::move(stem)});
  ConvVariant plain{"own", problem, problem.bias || problem.relu, InputForm::kAsIs};
  plain.problem.bias = plain.problem.relu = false;
  auto add = [&](const char* name, std::unique_ptr<ConvPlan> plan) {
    if (!plan) return;
    made.push_back({plain.name + ":" + name, Complete(plain, problem, std::move(plan), stream)});
  };
  add("grouped", MakeGroupedConv(plain.problem, target));
  add("3x3", MakeConv3x3Wgrad(plain.problem, target));
  return made;
}

}  // namespace xp::graph::cuda
