#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "bench/gpu/measures.h"
#include "exp/graph/program.h"

namespace xp::bench {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Program;
using graph::Storage;
using graph::TensorId;

class Drawn {
 public:
  uint32_t Below(uint32_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>((state_ >> 33) % n);
  }

 private:
  uint64_t state_ = 7;
};

template <typename T>
void Set(Program& p, const char* name, const std::vector<T>& values) {
  TensorId id = p.graph().Find(name, Storage::kInput);
  if (id != kNoTensor) p.SetInput(id, values.data(), values.size() * sizeof(T));
}

void SetInputs(Program& p, const BenchModel& m) {
  auto n = static_cast<size_t>(m.shape.n);
  auto h = static_cast<uint32_t>(m.shape.height);
  auto w = static_cast<uint32_t>(m.shape.width);
  Drawn draw;
  std::vector<uint8_t> images(n * h * w * 3);
  for (uint8_t& v : images) v = static_cast<uint8_t>(draw.Below(256));
  Set(p, "images", images);
  std::vector<int32_t> sizes, labels, counts;
  for (size_t i = 0; i < n; ++i) {
    sizes.insert(sizes.end(), {static_cast<int32_t>(h), static_cast<int32_t>(w)});
  }
  Set(p, "sizes", sizes);
  auto capacity = static_cast<size_t>(m.shape.max_boxes);
  std::vector<float> boxes;
  for (size_t i = 0; i < n * capacity; ++i) {
    auto x = static_cast<float>(draw.Below(w - 200));
    auto y = static_cast<float>(draw.Below(h - 200));
    boxes.insert(boxes.end(), {x, y, x + 20 + static_cast<float>(draw.Below(180)),
                               y + 20 + static_cast<float>(draw.Below(180))});
    labels.push_back(static_cast<int32_t>(draw.Below(80)));
  }
  Set(p, "gt_boxes", boxes);
  Set(p, "gt_labels", labels);
  counts.assign(n, static_cast<int32_t>(std::min<size_t>(capacity, 8)));
  Set(p, "gt_counts", counts);
  std::vector<int32_t> classes;
  for (size_t i = 0; i < n; ++i) classes.push_back(static_cast<int32_t>(draw.Below(1000)));
  Set(p, "labels", classes);
  Set(p, "step_key", std::vector<uint32_t>{1, 0, 0, 0});
  Set(p, "lr", std::vector<float>{1e-3f});
  Set(p, "first", std::vector<int32_t>{1});
}

void PrintLosses(Program& p, const BenchModel& m) {
  for (const models::LossTerm& term : m.model->losses()) {
    TensorId id = p.graph().Find(term.output, Storage::kOutput);
    std::vector<float> values(static_cast<size_t>(p.graph().tensor(id).elements()));
    p.Read(id, values.data(), values.size() * sizeof(float));
    fmt::print(" {} {:.6f}", term.name, values[static_cast<size_t>(term.index)]);
  }
}

void PrintProfile(Program& p, int images) {
  p.Profile();
  std::vector<Program::OpTime> times = p.Profile();
  std::map<std::string, std::pair<double, int>> by_type;
  double total = 0;
  for (const Program::OpTime& t : times) {
    auto& [ms, count] = by_type[graph::OpName(t.type)];
    ms += t.milliseconds;
    ++count;
    total += t.milliseconds;
  }
  std::sort(times.begin(), times.end(),
            [](const auto& a, const auto& b) { return a.milliseconds > b.milliseconds; });
  fmt::print("op by op {:.2f} ms ({:.0f} img/s); longest:\n", total, images / (total * 1e-3));
  for (size_t i = 0; i < std::min<size_t>(25, times.size()); ++i) {
    fmt::print("  {:8.3f} ms  {} {}\n", times[i].milliseconds, graph::OpName(times[i].type),
               times[i].name);
  }
  std::vector<std::pair<double, std::string>> types;
  for (const auto& [type, sum] : by_type) {
    types.emplace_back(-sum.first, fmt::format("{} {:.2f} ({})", type, sum.first, sum.second));
  }
  std::sort(types.begin(), types.end());
  fmt::print("by type:");
  for (const auto& [ms, text] : types) fmt::print(" {}", text);
  fmt::print("\n");
}

}  // namespace

void StepTable(graph::Backend& backend, const BenchModel& m, DType compute, int steps) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  graph::Graph g = TrainingGraph(m, compute);
  auto layout = g.shared_layout();
  graph::ParamBuffers params(backend, layout, compute, true, 1, false);
  std::vector<float> weights(static_cast<size_t>(layout->param_elements()));
  graph::InitializeParams(*layout, 0, weights.data());
  params.Write(Storage::kParam, weights);
  std::vector<float> state(static_cast<size_t>(layout->state_elements()));
  graph::InitializeStates(*layout, state.data());
  params.Write(Storage::kState, state);
  std::chrono::duration<double> initialized = Clock::now() - begin;
  Program program(backend, std::move(g), params);
  std::chrono::duration<double> planned = Clock::now() - begin;
  SetInputs(program, m);
  program.Run();
  backend.Synchronize();
  std::chrono::duration<double> prepared = Clock::now() - begin;
  fmt::print("weights after {:.2f} s, kernels and plans {:.2f}, first step {:.2f}\n",
             initialized.count(), planned.count(), prepared.count());
  PrintLosses(program, m);
  for (int i = 0; i < 3; ++i) program.Run();
  backend.Synchronize();
  auto start = Clock::now();
  for (int i = 0; i < steps; ++i) program.Run();
  backend.Synchronize();
  std::chrono::duration<double, std::milli> took = Clock::now() - start;
  double ms = took.count() / steps;
  fmt::print("\nafter {} steps:", steps + 4);
  PrintLosses(program, m);
  fmt::print("\n");
  PrintProfile(program, m.shape.n);
  double gib = static_cast<double>(program.bytes() + params.TotalBytes()) / (1u << 30);
  fmt::print("passes: {}\n", graph::StepPassesText(backend.step_passes()));
  fmt::print("step {:.3f} ms, {:.1f} img/s, {:.2f} GiB planned, ready after {:.1f} s\n", ms,
             m.shape.n / (ms * 1e-3), gib, prepared.count());
}

}  // namespace xp::bench
