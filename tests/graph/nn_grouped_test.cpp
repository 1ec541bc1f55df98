// Grouped convolutions by kernels of our own (kernels/grouped_conv.h), against the CPU.

#include <cstdio>
#include <string>
#include <vector>

#include "catch.h"
#include "graph/nn_check.h"
#include "graph/run_graph.h"

namespace xp::graph {
namespace {

struct Case {
  const char* name;
  int64_t n, h, w, c;
  int groups, stride;
  bool bias, relu;
};

const Case kCases[] = {
    {"groups of 4", 2, 9, 31, 128, 32, 1, false, false},
    {"groups of 4, stride 2", 1, 10, 33, 64, 16, 2, false, false},
    {"groups of 8, bias", 3, 13, 28, 64, 8, 1, true, false},
    {"groups of 8, stride 2, odd", 2, 9, 15, 128, 16, 2, false, false},
    {"groups of 16, bias and ReLU", 5, 14, 14, 64, 4, 1, true, true},
    {"groups of 16, stride 2", 3, 14, 14, 128, 8, 2, false, true},
    {"groups of 32", 3, 7, 7, 128, 4, 1, false, false},
    {"groups of 32, stride 2", 1, 14, 13, 64, 2, 2, true, false},
    {"one pixel", 1, 1, 1, 64, 8, 1, false, false},
    {"one pixel, stride 2", 1, 1, 1, 64, 4, 2, false, false},
    {"one row wider than strips", 1, 1, 100, 64, 16, 1, false, false},
    {"two columns", 9, 5, 2, 64, 8, 2, false, false},
};

struct Results {
  std::vector<std::vector<float>> values;  // y, dx, dw
  bool repeated = true;                    // a second run gave the same bits
};

Results RunCase(Backend& backend, DType compute, DType values, const Case& c) {
  const int64_t p = (c.h - 1) / c.stride + 1, q = (c.w - 1) / c.stride + 1, group = c.c / c.groups;
  OpRunner run(backend, compute);
  const TensorId x = run.Input("x", {c.n, c.h, c.w, c.c}, Values(c.n * c.h * c.w * c.c, 1, values));
  const TensorId w = run.Input("w", {c.c, 3, 3, group}, Values(c.c * 9 * group, 2, values));
  const TensorId dy = run.Input("dy", {c.n, p, q, c.c}, Values(c.n * p * q * c.c, 3, values));
  const TensorId y = run.Output("y", {c.n, p, q, c.c});
  const TensorId dx = run.Output("dx", {c.n, c.h, c.w, c.c});
  const TensorId dw = run.Output("dw", {c.c, 3, 3, group});
  std::vector<TensorId> inputs{x, w};
  if (c.bias) inputs.push_back(run.InputF32("b", {c.c}, Values(c.c, 4, DType::kF32)));
  ConvAttrs attrs{{c.stride, c.stride}, {1, 1}, {1, 1}, c.groups};
  run.graph().AddOp(OpType::kConv2dDgrad, {dy, w}, {dx}, attrs, "dgrad");
  run.graph().AddOp(OpType::kConv2dWgrad, {x, dy}, {dw}, attrs, "wgrad");
  attrs.relu = c.relu;
  run.graph().AddOp(OpType::kConv2d, inputs, {y}, attrs, "conv");
  Results results;
  std::vector<std::vector<uint8_t>> first;
  run.Run();
  for (TensorId id : {y, dx, dw}) {
    results.values.push_back(run.Floats(id));
    first.push_back(run.Bytes(id));
  }
  run.Run();
  size_t i = 0;
  for (TensorId id : {y, dx, dw})
    results.repeated = results.repeated && run.Bytes(id) == first[i++];
  return results;
}

// A backend that uses our own kernels for all cases, as an earlier run's record would have it.
std::unique_ptr<Backend> BackendOfOwnKernels(DType type) {
  auto any = CreateCudaBackend({.engines_tried = 1});
  for (const Case& c : kCases) RunCase(*any, type, type, c);
  CudaOptions options{.engines_tried = 1};
  for (std::string note : any->PlanNotes()) {
    const size_t at = note.find(" = ");
    if (note.find("-w") < at && note.find("-g") < at) note = note.substr(0, at) + " = own:grouped";
    options.plans.push_back(note);
  }
  return CreateCudaBackend(options);
}

}  // namespace

TEST_CASE("grouped convolutions by own kernels equal the CPU's", "[nn]") {
  std::string reason;
  if (!CudaCompiledIn() || CudaDeviceCount(&reason) == 0) {
    std::printf("skipped: grouped convolutions' own kernels need a GPU %s\n", reason.c_str());
    return;
  }
  for (DType type : {DType::kBF16, DType::kF16}) {
    auto cuda = BackendOfOwnKernels(type);
    auto cpu = CreateCpuBackend(2);
    for (const Case& c : kCases) {
      INFO(DTypeName(type) << ": " << c.name);
      const Results got = RunCase(*cuda, type, type, c);
      const Results want = RunCase(*cpu, DType::kF32, type, c);
      const char* const names[] = {"y", "dx", "dw"};
      for (size_t i = 0; i < 3; ++i) {
        const std::vector<double> wanted(want.values[i].begin(), want.values[i].end());
        CheckClose(names[i], got.values[i], wanted, Tolerance(type));
      }
      CHECK(got.repeated);
    }
    size_t own = 0;
    for (const std::string& note : cuda->PlanNotes()) {
      own += note.find(" = own:grouped") != std::string::npos ? 1 : 0;
    }
    CHECK(own == 3 * std::size(kCases));
  }
}

}  // namespace xp::graph
