// Where the CPU backend's time goes in one training step (forward and backward), by kind of
// operation, next to what this machine can do: fp32 multiply-adds and bytes a second on the same
// number of threads.
//
//   exp_cpu_bench [resnet18|resnet50|resnext50|frcnn18] [batch] [height] [width] [threads] [runs]
//                 [f32|bf16|f16]
//
// Each operation's time is its best of `runs`, so that a busy machine disturbs less.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>

#include "exp/base/error.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/graph/program.h"
#include "exp/models/classifier.h"
#include "exp/models/faster_rcnn.h"

namespace {

using namespace xp::graph;
using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "arch=haswell", "default"), optimize("O3", "fast-math")))
#endif
float MultiplyAdds(int64_t rounds) {
  float lanes[256];
  for (int i = 0; i < 256; ++i) lanes[i] = static_cast<float>(i);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < 256; ++i) lanes[i] = lanes[i] * 0.999f + 0.5f;
  }
  return std::accumulate(lanes, lanes + 256, 0.0f);
}

// GFLOP/s of independent fp32 multiply-adds on `threads` threads.
double PeakGflops(int threads) {
  constexpr int64_t kRounds = 4'000'000;
  double best = 1e30, sink = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto begin = Clock::now();
#pragma omp parallel num_threads(threads) reduction(+ : sink)
    sink += static_cast<double>(MultiplyAdds(kRounds));
    best = std::min(best, Milliseconds(begin));
  }
  if (sink == 42) fmt::print("\n");
  return 512.0 * kRounds * threads / best / 1e6;
}

// GB/s read plus written by a copy of 256 MB on `threads` threads.
double CopyBandwidth(int threads) {
  const size_t n = 32 << 20;
  std::vector<float> a(n, 1), b(n, 2);
  double best = 1e30;
  for (int repeat = 0; repeat < 8; ++repeat) {
    const auto begin = Clock::now();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < n; i += 4096) std::copy(a.data() + i, a.data() + i + 4096, b.data() + i);
    best = std::min(best, Milliseconds(begin));
  }
  return static_cast<double>(n) * 8 / best / 1e6;
}

std::unique_ptr<xp::models::Model> MakeModel(const std::string& name) {
  if (name == "frcnn18") return MakeFasterRcnn(xp::models::TorchvisionFasterRcnn(18, 3));
  xp::models::ClassifierOptions options;
  options.num_classes = 1000;
  options.backbone.depth = name == "resnet18" ? 18 : 50;
  if (name == "resnext50") {
    options.backbone.groups = 32;
    options.backbone.width_per_group = 4;
  } else if (name != "resnet18" && name != "resnet50") {
    throw xp::UsageError({.what = "no model " + name,
                          .where = {},
                          .expected = "resnet18, resnet50, resnext50 or frcnn18",
                          .next = {}});
  }
  return MakeClassifier(options);
}

// Multiply-adds count twice; 0 for operations bound by memory.
double Flops(const Graph& g, const Op& op) {
  const auto count = [&](TensorId id) { return static_cast<double>(g.tensor(id).elements()); };
  const auto last = [&](TensorId id) { return static_cast<double>(g.tensor(id).shape.back()); };
  switch (op.type) {
    case OpType::kConv2d:
    case OpType::kLinear:
      return 2 * count(op.outputs[0]) * count(op.inputs[1]) / last(op.outputs[0]);
    case OpType::kConv2dDgrad:
    case OpType::kLinearDgrad:
      return 2 * count(op.inputs[0]) * count(op.inputs[1]) / last(op.inputs[0]);
    case OpType::kConv2dWgrad:
    case OpType::kLinearWgrad:
      return 2 * count(op.inputs[1]) * count(op.outputs[0]) / last(op.inputs[1]);
    default:
      return 0;
  }
}

double Bytes(const Graph& g, const Op& op) {
  double total = 0;
  for (TensorId id : op.inputs) total += id < 0 ? 0.0 : static_cast<double>(g.tensor(id).bytes());
  for (TensorId id : op.outputs) total += id < 0 ? 0.0 : static_cast<double>(g.tensor(id).bytes());
  return total;
}

void FillInputs(Program& program) {
  uint64_t state = 1;
  const auto next = [&] { return state = state * 6364136223846793005u + 1442695040888963407u; };
  const Graph& g = program.graph();
  for (size_t i = 0; i < g.tensors().size(); ++i) {
    const Tensor& t = g.tensors()[i];
    if (t.storage != Storage::kInput) continue;
    std::vector<uint8_t> bytes(t.bytes());
    if (t.name == "images") {
      for (auto& b : bytes) b = static_cast<uint8_t>(next() >> 56);
    } else if (t.name == "sizes") {
      auto* p = reinterpret_cast<int32_t*>(bytes.data());
      const Shape& image = g.tensor(g.Find("images", Storage::kInput)).shape;
      for (int64_t k = 0; k < t.shape[0]; ++k) {
        p[2 * k] = static_cast<int32_t>(image[1]);
        p[2 * k + 1] = static_cast<int32_t>(image[2]);
      }
    } else if (t.name == "gt_boxes") {
      auto* p = reinterpret_cast<float*>(bytes.data());
      for (int64_t k = 0; k < t.elements(); ++k) p[k] = static_cast<float>(20 + 60 * (k % 4 / 2));
    } else if (t.name == "gt_counts") {
      auto* p = reinterpret_cast<int32_t*>(bytes.data());
      for (int64_t k = 0; k < t.elements(); ++k) p[k] = 2;
    }
    program.SetInput(static_cast<TensorId>(i), bytes.data(), bytes.size());
  }
}

struct Line {
  double ms = 0, gflop = 0, gbyte = 0;
  int count = 0;
};

void Print(const std::string& name, const Line& l, double total) {
  fmt::print("{:<28}{:>5}{:>10.2f}{:>7.1f}%", name, l.count, l.ms, 100 * l.ms / total);
  if (l.gflop > 0) {
    fmt::print("{:>9.1f} GFLOP/s\n", l.gflop / l.ms * 1e3);
  } else {
    fmt::print("{:>9.1f} GB/s\n", l.gbyte / l.ms * 1e3);
  }
}

int Main(int argc, char** argv) {
  const auto arg = [&](int i, int fallback) { return argc > i ? std::atoi(argv[i]) : fallback; };
  const std::string name = argc > 1 ? argv[1] : "resnet18";
  const xp::models::BatchShape shape{arg(2, 4), arg(3, 160), arg(4, 160), 8};
  const int threads = arg(5, 2), runs = std::max(1, arg(6, 10));
  const auto backend = CreateCpuBackend(threads);
  const std::string type = argc > 7 ? argv[7] : "f32";
  const DType compute = type == "bf16" ? DType::kBF16 : type == "f16" ? DType::kF16 : DType::kF32;
  auto layout = std::make_shared<ParamLayout>();
  Graph g(layout, compute);
  MakeModel(name)->BuildTraining(g, shape);
  RunPasses(g, {});
  AppendBackward(g);
  ParamBuffers params(*backend, layout, compute, true, 0, false);
  std::vector<float> values(static_cast<size_t>(layout->param_elements()));
  InitializeParams(*layout, 1, values.data());
  params.Write(Storage::kParam, values);
  values.resize(static_cast<size_t>(layout->state_elements()));
  InitializeStates(*layout, values.data());
  params.Write(Storage::kState, values);
  Program program(*backend, g, params);
  FillInputs(program);

  std::vector<Program::OpTime> best = program.Profile();
  double step = 1e30;
  for (int i = 0; i < runs; ++i) {
    const auto begin = Clock::now();
    program.Run(false);
    step = std::min(step, Milliseconds(begin));
    const auto times = program.Profile();
    for (size_t k = 0; k < best.size(); ++k) {
      best[k].milliseconds = std::min(best[k].milliseconds, times[k].milliseconds);
    }
  }
  std::map<std::string, Line> kinds;
  Line total;
  const bool each = std::getenv("EACH_OP") != nullptr;
  for (size_t k = 0; k < best.size(); ++k) {
    const Op& op = program.graph().ops()[k];
    const Line one{best[k].milliseconds, Flops(program.graph(), op) / 1e9,
                   Bytes(program.graph(), op) / 1e9, 1};
    for (Line* l : {&kinds[OpName(op.type)], &total}) {
      l->ms += one.ms;
      l->gflop += one.gflop;
      l->gbyte += one.gbyte;
      l->count += 1;
    }
    if (each) Print(op.name + " " + OpName(op.type), one, one.ms);
  }
  for (const auto& [kind, line] : kinds) Print(kind, line, total.ms);
  Print("all", total, total.ms);
  fmt::print(
      "{} batch {} at {} x {}, {} threads: best step {:.1f} ms, {:.1f} images/s, arena {} MB\n",
      name, shape.n, shape.height, shape.width, threads, step, shape.n / step * 1e3,
      program.bytes() >> 20);
  fmt::print(
      "machine: {:.0f} GFLOP/s of fp32 multiply-adds, {:.1f} GB/s copy (read plus written)\n",
      PeakGflops(threads), CopyBandwidth(threads));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
