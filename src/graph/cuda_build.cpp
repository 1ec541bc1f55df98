#include "exp/graph/cuda_build.h"

#include <sstream>

// Set for this file by CMakeLists.txt; the architectures as CMake writes them, separated by commas.
#ifndef EXP_CUDA_RUNTIME
#define EXP_CUDA_RUNTIME ""
#define EXP_CUDA_COMPILER ""
#define EXP_CUDA_TARGETS ""
#endif

namespace xp::graph {

CudaBuild DescribeCudaBuild() {
  CudaBuild build;
  build.host_compiler = EXP_HOST_COMPILER;
  std::istringstream targets(EXP_CUDA_TARGETS);
  // "90" is machine code and PTX, "90-real" the first and "90-virtual" the second.
  for (std::string word; std::getline(targets, word, ',');) {
    std::string architecture = word.substr(0, word.find('-'));
    if (!word.ends_with("-virtual")) build.machine_code.push_back(architecture);
    if (!word.ends_with("-real")) build.ptx.push_back(architecture);
  }
  build.compiled_in = !build.machine_code.empty() || !build.ptx.empty();
  build.runtime = EXP_CUDA_RUNTIME;
  build.compiler = EXP_CUDA_COMPILER;
  return build;
}

}  // namespace xp::graph
