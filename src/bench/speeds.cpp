#include "exp/bench/speeds.h"

#include <algorithm>
#include <vector>

#include "exp/base/error.h"
#include "exp/base/stopwatch.h"
#include "exp/graph/graph.h"

namespace xp::bench {
namespace {

using graph::Backend;
using graph::Buffer;
using graph::DType;
using graph::OpType;
// Small numbers of both signs in every float type: their sums stay finite, and units that clock by
// the data (zeros draw less power) are at work.
void FillSmall(Backend& backend, Buffer& buffer) {
  std::vector<uint16_t> pattern(size_t{1} << 20);
  uint32_t state = 12345;
  for (uint16_t& v : pattern) {
    state = state * 1664525 + 1013904223;
    v = static_cast<uint16_t>(0x3000 | ((state >> 16) & 0x83ff));
  }
  for (size_t at = 0; at < buffer.bytes(); at += pattern.size() * 2) {
    backend.Upload(static_cast<char*>(buffer.data()) + at, pattern.data(),
                   std::min(pattern.size() * 2, buffer.bytes() - at));
  }
}

// The best of several: what disturbs only ever makes it slower.
template <class Body>
double Fastest(Body body, double at_most_seconds) {
  body();
  double best = 1e30;
  Stopwatch whole;
  for (int i = 0; i < 12 && (i < 3 || whole.Seconds() < at_most_seconds); ++i) {
    Stopwatch once;
    body();
    best = std::min(best, once.Seconds());
  }
  return best;
}

double CopySpeed(Backend& backend) {
  size_t bytes = backend.is_cuda() ? size_t{1} << 30 : size_t{128} << 20;
  // Two buffers; smaller ones than a CPU's caches would tell those caches' speed.
  constexpr size_t kLeast = size_t{64} << 20;
  const uint64_t room = backend.Memory().free_bytes;
  if (room / 4 < bytes) bytes = std::max<size_t>(kLeast, room / 4 / kLeast * kLeast);
  graph::Graph g(std::make_shared<graph::ParamLayout>());
  // ReLU reads and writes each byte once; through the graph, so that any backend can be asked.
  auto a = backend.Allocate(bytes), b = backend.Allocate(bytes);
  FillSmall(backend, *a);
  auto x = g.AddTemp("a", {static_cast<int64_t>(bytes / 4)}, DType::kF32);
  auto y = g.AddTemp("b", {static_cast<int64_t>(bytes / 4)}, DType::kF32);
  auto kernel = backend.CreateKernel(g, g.AddOp(OpType::kRelu, {x}, {y}, graph::NoAttrs{}, "copy"));
  const void* in[] = {a->data()};
  void* out[] = {b->data()};
  double seconds = Fastest(
      [&] {
        kernel->Run({in, out, nullptr});
        backend.Synchronize();
      },
      0.3);
  return 2.0 * static_cast<double>(bytes) / seconds;
}

}  // namespace

struct MatrixLoad::Impl {
  Backend& backend;
  int size;
  std::unique_ptr<Buffer> x, w, y, workspace;
  std::unique_ptr<graph::Kernel> kernel;
};

MatrixLoad::MatrixLoad(Backend& backend, DType compute, int size)
    : impl_(std::make_unique<Impl>(Impl{backend, size, {}, {}, {}, {}, {}})) {
  graph::Graph g(std::make_shared<graph::ParamLayout>(), compute);
  auto x = g.AddTemp("x", {size, size}), w = g.AddTemp("w", {size, size});
  auto y = g.AddTemp("y", {size, size});
  impl_->kernel = backend.CreateKernel(
      g, g.AddOp(OpType::kLinear, {x, w, graph::kNoTensor}, {y}, graph::ReluAttrs{}, "product"));
  for (auto* buffer : {&impl_->x, &impl_->w, &impl_->y}) {
    *buffer = backend.Allocate(g.tensor(x).bytes());
  }
  impl_->workspace = backend.Allocate(impl_->kernel->WorkspaceBytes());
  FillSmall(backend, *impl_->x);
  FillSmall(backend, *impl_->w);
}

MatrixLoad::~MatrixLoad() = default;

void MatrixLoad::Run(int times) {
  const void* in[] = {impl_->x->data(), impl_->w->data(), nullptr};
  void* out[] = {impl_->y->data()};
  for (int i = 0; i < times; ++i) impl_->kernel->Run({in, out, impl_->workspace->data()});
  impl_->backend.Synchronize();
}

double MatrixLoad::flop() const {
  double n = impl_->size;
  return 2 * n * n * n;
}

DeviceSpeeds MeasureSpeeds(Backend& backend, DType compute) {
  DeviceSpeeds speeds;
  try {
    speeds.copy_bytes_a_second = CopySpeed(backend);
    MatrixLoad load(backend, compute, backend.is_cuda() ? 8192 : 1024);
    speeds.matrix_flop_a_second = load.flop() / Fastest([&] { load.Run(1); }, 0.3);
  } catch (const Error&) {  // memory is full, or the type isn't there
  }
  return speeds;
}

}  // namespace xp::bench
