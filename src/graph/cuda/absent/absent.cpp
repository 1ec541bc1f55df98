// What stands in for the CUDA backend in a build without it.
#include "exp/base/error.h"
#include "exp/graph/backend.h"

namespace xp::graph {

std::unique_ptr<Backend> CreateCudaBackend(const CudaOptions&) {
  throw UsageError(
      {.what = "this program was built without its CUDA backend",
       .where = "",
       .expected = "a build with -DEXP_CUDA=ON",
       .next = "rebuild where the CUDA toolkit and cuDNN are installed, or pass --device cpu"});
}

bool CudaCompiledIn() { return false; }

int CudaDeviceCount(std::string* reason) {
  if (reason) *reason = "this program was built without its CUDA backend";
  return 0;
}

}  // namespace xp::graph
