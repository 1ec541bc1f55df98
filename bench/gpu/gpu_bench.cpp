// exp_gpu_bench ops|step MODEL BATCH fp32|tf32|bf16|fp16 [cpu|cuda] [--any] [--plans FOLDER]
// Measures a model's training step operation by operation, or as a whole.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/gpu/measures.h"
#include "exp/base/error.h"

namespace {

using xp::graph::DType;

DType ComputeType(const std::string& precision) {
  if (precision == "bf16") return DType::kBF16;
  if (precision == "fp16") return DType::kF16;
  return DType::kF32;
}

int Run(const std::vector<std::string>& words) {
  if (words.size() < 4) {
    fmt::print(stderr,
               "usage: exp_gpu_bench ops|step MODEL BATCH PRECISION [cpu|cuda] [--any] "
               "[--plans FOLDER]\n");
    return 2;
  }
  xp::graph::CudaOptions options;
  options.tf32 = words[3] == "tf32";
  bool cpu = false;
  for (size_t i = 4; i < words.size(); ++i) {
    if (words[i] == "cpu") cpu = true;
    if (words[i] == "--any") options.deterministic = false;
    if (words[i] == "--plans" && i + 1 < words.size()) options.plan_cache = words[i + 1];
  }
  auto backend = cpu ? xp::graph::CreateCpuBackend(0) : xp::graph::CreateCudaBackend(options);
  xp::bench::BenchModel model = xp::bench::MakeBenchModel(words[1], std::atoi(words[2].c_str()));
  fmt::print("== {} {} batch {} {}, {}{}\n", words[0], words[1], words[2], words[3],
             backend->description(), options.deterministic ? "" : ", any plan");
  if (words[0] == "ops") {
    xp::bench::OpTable(*backend, model, ComputeType(words[3]));
  } else {
    xp::bench::StepTable(*backend, model, ComputeType(words[3]), cpu ? 1 : 20);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
