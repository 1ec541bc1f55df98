// What stands for the CUDA backend in a build without it.
#ifndef EXP_WITH_CUDA
#include "exp/base/error.h"
#include "exp/graph/backend.h"

namespace xp::graph {

bool CudaCompiledIn() { return false; }

int CudaDeviceCount(std::string* reason) {
  if (reason != nullptr) *reason = "this exp was built without the CUDA backend";
  return 0;
}

std::string CudaPciBusId(int) { return ""; }

std::unique_ptr<Backend> CreateCudaBackend(const CudaOptions&) {
  throw UsageError({.what = "this exp was built without the CUDA backend",
                    .where = "--device cuda",
                    .next = "install the CUDA Toolkit and build again, or use --device cpu"});
}

}  // namespace xp::graph
#endif
