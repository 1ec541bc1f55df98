// Runs small graphs on every backend of this machine, for tests of operations.
//
//   for (xp::graph::Backend* backend : TestBackends()) {
//     OpRunner run(*backend);
//     TensorId x = run.Input("x", {1, 2, 2, 3}, values);      // compute type; rounds for bf16, f16
//     TensorId y = run.Output("y", {1, 2, 2, 3});
//     run.graph().AddOp(OpType::kRelu, {x}, {y}, NoAttrs{}, "relu");
//     run.Run();
//     std::vector<float> got = run.Floats(y);
//   }
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exp/graph/backend.h"
#include "exp/graph/program.h"

namespace xp::graph {

// The CPU with two threads, and the first CUDA device when there is one.
std::vector<Backend*> TestBackends();
// Compute types that a backend is tested with.
std::vector<DType> TestTypes(const Backend& backend);

// The bytes of values in a float type, rounded to nearest even.
std::vector<uint8_t> EncodeFloats(const std::vector<float>& values, DType dtype);

class OpRunner {
 public:
  explicit OpRunner(Backend& backend, DType compute = DType::kF32);

  Graph& graph() { return graph_; }
  // In the compute type, given in fp32.
  TensorId Input(const std::string& name, Shape shape, const std::vector<float>& values);
  TensorId InputF32(const std::string& name, Shape shape, const std::vector<float>& values);
  TensorId InputI32(const std::string& name, Shape shape, const std::vector<int32_t>& values);
  TensorId InputU32(const std::string& name, Shape shape, const std::vector<uint32_t>& values);
  TensorId InputU8(const std::string& name, Shape shape, const std::vector<uint8_t>& values);
  TensorId Output(const std::string& name, Shape shape);
  TensorId Output(const std::string& name, Shape shape, DType dtype);

  // Builds the program on first use; outputs are filled with 0xff bytes before each run, so that an
  // element nobody wrote shows (NaN in every float type). Kernels are also held to their memory
  // then (kernel_bounds.h), on a GPU when EXP_LONG_TESTS is set.
  void Run();
  std::vector<float> Floats(TensorId id);  // any float type, widened
  std::vector<int32_t> Ints(TensorId id);
  std::vector<uint8_t> Bytes(TensorId id);
  Program& program() { return *program_; }

 private:
  TensorId Add(const std::string& name, Shape shape, DType dtype, std::vector<uint8_t> bytes);

  Backend& backend_;
  Graph graph_;
  std::unique_ptr<ParamBuffers> params_;
  std::unique_ptr<Program> program_;
  std::vector<std::pair<TensorId, std::vector<uint8_t>>> inputs_;
  std::vector<TensorId> outputs_;
};

}  // namespace xp::graph
