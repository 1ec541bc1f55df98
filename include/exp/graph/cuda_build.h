// What the CUDA backend of this program was built with, whether or not the machine has a GPU.
#pragma once

#include <string>
#include <vector>

namespace xp::graph {

struct CudaBuild {
  bool compiled_in = false;
  std::string runtime;                    // "13.0": the CUDA runtime, linked statically
  std::string compiler;                   // of nvcc: "13.0.88"
  std::string host_compiler;              // "GNU 12.2.0"
  std::vector<std::string> machine_code;  // architectures: "75", "90", "90a"
  std::vector<std::string> ptx;           // that drivers compile for later cards
};

CudaBuild DescribeCudaBuild();

}  // namespace xp::graph
