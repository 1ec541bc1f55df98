// Operations along channels: squeeze-and-excitation's scaling, SSD's L2 norm, and their gradients.
#include <algorithm>
#include <cmath>

#include "src/graph/cpu/channel_sums.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {
namespace {

XP_SIMD_CLONES void Multiply(const float* __restrict a, const float* __restrict b, int64_t n,
                             float* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
}

XP_SIMD_CLONES void AddProduct(const float* __restrict a, const float* __restrict b, int64_t n,
                               float* __restrict sum) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += a[i] * b[i];
}

constexpr int64_t kLanes = 8;

// Sum of a * b * c (c may be null) in eight lanes of double, whatever the width of vectors.
XP_SIMD_CLONES double DotInLanes(const float* __restrict a, const float* __restrict b,
                                 const float* __restrict c, int64_t n) {
  double lanes[kLanes] = {};
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (int64_t k = 0; k < kLanes; ++k) {
      const double factor = c == nullptr ? 1.0 : static_cast<double>(c[i + k]);
      lanes[k] += static_cast<double>(a[i + k]) * static_cast<double>(b[i + k]) * factor;
    }
  }
  for (int64_t i = whole; i < n; ++i) {
    const double factor = c == nullptr ? 1.0 : static_cast<double>(c[i]);
    lanes[i - whole] += static_cast<double>(a[i]) * static_cast<double>(b[i]) * factor;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

class ScaleChannels : public Kernel {
 public:
  ScaleChannels(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), in_(AsMap(InputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, in_.n * in_.h, [&](int64_t row) {
      const float* s = args.In<float>(1) + row / in_.h * in_.c;
      for (int64_t x = 0; x < in_.w; ++x) {
        const int64_t at = (row * in_.w + x) * in_.c;
        Multiply(args.In<float>(0) + at, s, in_.c, args.Out<float>(0) + at);
      }
    });
  }

 private:
  int threads_;
  MapShape in_;
};

class ScaleChannelsGrad : public Kernel {
 public:
  ScaleChannelsGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        in_(AsMap(InputOf(g, op, 0))),
        split_(SplitRows({in_.h * in_.w, in_.c})),
        dx_(HasOutput(op, 0)),
        ds_(HasOutput(op, 1)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(in_.n * split_.chunks * in_.c) * sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    auto* partial = static_cast<float*>(args.workspace);
    ParallelFor(threads_, in_.n * split_.chunks, [&](int64_t i) {
      const int64_t n = i / split_.chunks, chunk = i % split_.chunks;
      const float* s = args.In<float>(2) + n * in_.c;
      float* sum = partial + i * in_.c;
      std::fill(sum, sum + in_.c, 0.0f);
      const int64_t first = n * split_.rows + split_.Begin(chunk);
      for (int64_t row = first; row < first + split_.RowsOf(chunk); ++row) {
        const float* dy = args.In<float>(0) + row * in_.c;
        if (dx_) Multiply(dy, s, in_.c, args.Out<float>(0) + row * in_.c);
        if (ds_) AddProduct(dy, args.In<float>(1) + row * in_.c, in_.c, sum);
      }
    });
    if (!ds_) return;
    for (int64_t n = 0; n < in_.n; ++n) {
      AddPartials(threads_, partial + n * split_.chunks * in_.c, split_.chunks, in_.c,
                  args.Out<float>(1) + n * in_.c);
    }
  }

 private:
  int threads_;
  MapShape in_;
  RowSplit split_;
  bool dx_, ds_;
};

constexpr double kTiny = 1e-12;  // torch.nn.functional.normalize's eps

class L2Norm : public Kernel {
 public:
  L2Norm(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), shape_(AsRows(InputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    const int64_t channels = shape_.channels;
    const float* scale = args.In<float>(1);
    ParallelRanges(threads_, shape_.rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* x = args.In<float>(0) + row * channels;
        float* y = args.Out<float>(0) + row * channels;
        const double norm = std::sqrt(DotInLanes(x, x, nullptr, channels));
        const auto inverse = static_cast<float>(1 / std::max(norm, kTiny));
        for (int64_t c = 0; c < channels; ++c) y[c] = scale[c] * (x[c] * inverse);
      }
    });
  }

 private:
  int threads_;
  Rows shape_;
};

class L2NormGrad : public Kernel {
 public:
  L2NormGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        dx_(HasOutput(op, 0)),
        dscale_(HasOutput(op, 1)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(split_.chunks * split_.channels) * sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    auto* partial = static_cast<float*>(args.workspace);
    ParallelFor(threads_, split_.chunks, [&](int64_t chunk) {
      float* sum = partial + chunk * split_.channels;
      std::fill(sum, sum + split_.channels, 0.0f);
      const int64_t first = split_.Begin(chunk);
      for (int64_t row = first; row < first + split_.RowsOf(chunk); ++row) Row(args, row, sum);
    });
    if (dscale_) {
      AddPartials(threads_, partial, split_.chunks, split_.channels, args.Out<float>(1));
    }
  }

 private:
  // y = scale * x / n with n = |x|: dx = scale * dy / n - x * (sum of scale * dy * x) / n^3; where
  // n is held at the smallest value it is a constant, and the second term vanishes.
  void Row(const KernelArgs& args, int64_t row, float* sum) const {
    const int64_t channels = split_.channels;
    const float* dy = args.In<float>(0) + row * channels;
    const float* x = args.In<float>(1) + row * channels;
    const float* scale = args.In<float>(2);
    const double norm = std::sqrt(DotInLanes(x, x, nullptr, channels));
    const double inverse = 1 / std::max(norm, kTiny);
    const auto scaled = static_cast<float>(inverse);
    if (dx_) {
      const double dot = norm > kTiny ? DotInLanes(dy, x, scale, channels) : 0;
      const auto slope = static_cast<float>(dot * inverse * inverse);
      float* dx = args.Out<float>(0) + row * channels;
      for (int64_t c = 0; c < channels; ++c) dx[c] = (scale[c] * dy[c] - x[c] * slope) * scaled;
    }
    for (int64_t c = 0; c < channels; ++c) sum[c] += dy[c] * (x[c] * scaled);
  }

  int threads_;
  RowSplit split_;
  bool dx_, dscale_;
};

}  // namespace

std::unique_ptr<Kernel> MakeScaleChannels(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<ScaleChannels>(context, g, op);
}
std::unique_ptr<Kernel> MakeScaleChannelsGrad(const Context& context, const Graph& g,
                                              const Op& op) {
  return std::make_unique<ScaleChannelsGrad>(context, g, op);
}
std::unique_ptr<Kernel> MakeL2Norm(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<L2Norm>(context, g, op);
}
std::unique_ptr<Kernel> MakeL2NormGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<L2NormGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
