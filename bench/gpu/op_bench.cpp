#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "bench/gpu/measures.h"
#include "exp/base/error.h"
#include "exp/graph/program.h"

namespace xp::bench {
namespace {

using graph::Backend;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::OpType;

bool DependsOnValues(OpType type) {
  switch (type) {
    case OpType::kRpnTargets:
    case OpType::kRpnLoss:
    case OpType::kRpnProposals:
    case OpType::kRoiTargets:
    case OpType::kRoiAlign:
    case OpType::kRoiAlignGrad:
    case OpType::kRoiLoss:
    case OpType::kDetections:
    case OpType::kSsdTargets:
    case OpType::kSsdLoss:
    case OpType::kSsdDetections:
      return true;
    default:
      return false;
  }
}

std::string Signature(const Graph& g, const Op& op) {
  std::string text = graph::OpName(op.type);
  for (graph::TensorId id : op.inputs) {
    if (id != graph::kNoTensor) text += " " + graph::ShapeText(g.tensor(id).shape);
  }
  text += " ->";
  for (graph::TensorId id : op.outputs) {
    if (id != graph::kNoTensor) text += " " + graph::ShapeText(g.tensor(id).shape);
  }
  if (const auto* conv = std::get_if<graph::ConvAttrs>(&op.attrs)) {
    text += fmt::format(" s{} p{} d{} g{}", conv->stride[0], conv->pad[0], conv->dilation[0],
                        conv->groups);
  }
  return text;
}

// Values that every type takes: bytes of small positive bf16, f16 or f32 numbers of both signs.
void FillSmall(Backend& backend, graph::Buffer& buffer, const graph::Tensor& t) {
  if (t.dtype == DType::kI32 || t.dtype == DType::kU32 || t.dtype == DType::kU8) return;
  constexpr size_t kPattern = size_t{1} << 20;
  std::vector<uint16_t> pattern(kPattern);
  uint32_t state = 12345;
  for (uint16_t& v : pattern) {
    state = state * 1664525 + 1013904223;
    v = static_cast<uint16_t>(0x3800 | ((state >> 16) & 0x83ff));  // |value| in [2^-15, 1)
  }
  for (size_t at = 0; at < buffer.bytes(); at += kPattern * 2) {
    backend.Upload(static_cast<char*>(buffer.data()) + at, pattern.data(),
                   std::min(kPattern * 2, buffer.bytes() - at));
  }
}

struct Timed {
  double milliseconds = 0, gigabytes = 0;
};

Timed TimeOp(Backend& backend, const Graph& g, const Op& op) {
  std::unique_ptr<graph::Kernel> kernel = backend.CreateKernel(g, op);
  std::map<graph::TensorId, std::unique_ptr<graph::Buffer>> buffers;
  Timed result;
  auto address = [&](graph::TensorId id) -> void* {
    if (id == graph::kNoTensor) return nullptr;
    auto& buffer = buffers[id];
    if (!buffer) {
      buffer = backend.Allocate(g.tensor(id).bytes());
      FillSmall(backend, *buffer, g.tensor(id));
      result.gigabytes += static_cast<double>(g.tensor(id).bytes()) * 1e-9;
    }
    return buffer->data();
  };
  std::vector<const void*> in;
  std::vector<void*> out;
  for (graph::TensorId id : op.inputs) in.push_back(address(id));
  for (graph::TensorId id : op.outputs) out.push_back(address(id));
  auto workspace = backend.Allocate(kernel->WorkspaceBytes());
  constexpr int kRepeats = 10;
  auto recording = backend.Record([&] {
    for (int i = 0; i < kRepeats; ++i) kernel->Run({in, out, workspace->data()});
  });
  recording->Launch();
  backend.Synchronize();
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    auto start = std::chrono::steady_clock::now();
    recording->Launch();
    backend.Synchronize();
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kRepeats);
  }
  result.milliseconds = best;
  return result;
}

}  // namespace

double CopySpeed(Backend& backend) {
  constexpr size_t kBytes = size_t{1} << 30;
  graph::Graph g(std::make_shared<graph::ParamLayout>());
  // The cast of a type to itself is a copy; through the graph, so that any backend can be asked.
  auto a = backend.Allocate(kBytes);
  auto b = backend.Allocate(kBytes);
  auto id_a = g.AddTemp("a", {static_cast<int64_t>(kBytes / 4)}, DType::kF32);
  auto id_b = g.AddTemp("b", {static_cast<int64_t>(kBytes / 4)}, DType::kF32);
  auto kernel =
      backend.CreateKernel(g, g.AddOp(OpType::kRelu, {id_a}, {id_b}, graph::NoAttrs{}, "copy"));
  const void* in[] = {a->data()};
  void* out[] = {b->data()};
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    backend.Synchronize();
    auto start = std::chrono::steady_clock::now();
    kernel->Run({in, out, nullptr});
    backend.Synchronize();
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2e-9 * static_cast<double>(kBytes) / took.count());
  }
  return best;
}

void OpTable(Backend& backend, const BenchModel& m, DType compute) {
  Graph g = TrainingGraph(m, compute);
  graph::RunStepPasses(g, backend.step_passes());
  struct Row {
    Timed timed;
    int count = 0;
    std::string error;
  };
  std::map<std::string, Row> rows;
  for (const Op& op : g.ops()) {
    if (DependsOnValues(op.type)) continue;
    Row& row = rows[Signature(g, op)];
    if (row.count++ > 0) continue;
    try {
      row.timed = TimeOp(backend, g, op);
    } catch (const Error& e) {
      row.error = e.text().what;
    }
  }
  double copy = CopySpeed(backend);
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.timed.milliseconds * a.second.count >
           b.second.timed.milliseconds * b.second.count;
  });
  fmt::print("{:>9} {:>5} {:>9} {:>7} {:>6}  operation\n", "ms each", "times", "ms total", "GB/s",
             "of max");
  std::map<std::string, double> by_type;
  double total = 0;
  for (const auto& [name, row] : sorted) {
    if (!row.error.empty()) {
      fmt::print("failed: {}: {}\n", name, row.error);
      continue;
    }
    double speed = row.timed.gigabytes / (row.timed.milliseconds * 1e-3);
    double sum = row.timed.milliseconds * row.count;
    fmt::print("{:9.4f} {:5} {:9.3f} {:7.0f} {:5.0f}%  {}\n", row.timed.milliseconds, row.count,
               sum, speed, 100 * speed / copy, name);
    by_type[name.substr(0, name.find(' '))] += sum;
    total += sum;
  }
  fmt::print("copy {:.0f} GB/s; sum {:.2f} ms, {:.0f} img/s; by type:", copy, total,
             m.shape.n / (total * 1e-3));
  std::vector<std::pair<double, std::string>> types;
  for (const auto& [type, ms] : by_type) types.emplace_back(-ms, type);
  std::sort(types.begin(), types.end());
  for (const auto& [ms, type] : types) fmt::print(" {} {:.2f}", type, -ms);
  fmt::print("\n");
}

}  // namespace xp::bench
