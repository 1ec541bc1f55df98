// Max pooling and global average pooling. A thread owns rows of the result; gradients gather, so
// that no two threads add to one element.
#include <algorithm>
#include <limits>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/cpu/values.h"

namespace xp::graph::cpu {

// Where x is greater (or NaN), it and its tap replace the maximum so far.
XP_SIMD_CLONES void MaxTap(const float* __restrict x, int32_t tap, int64_t n,
                           float* __restrict best, int32_t* __restrict arg) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) {
    const float v = x[c];
    const bool take = !(v <= best[c]) && !(best[c] != best[c] && v == v);
    best[c] = take ? v : best[c];
    arg[c] = take ? tap : arg[c];
  }
}

XP_SIMD_CLONES void AddWhereTap(const float* __restrict dy, const uint8_t* __restrict arg,
                                int32_t tap, int64_t n, float* __restrict dx) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) dx[c] += static_cast<int32_t>(arg[c]) == tap ? dy[c] : 0.0f;
}

XP_SIMD_CLONES void AddRowDouble(const float* __restrict x, int64_t n, double* __restrict sum) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) sum[c] += static_cast<double>(x[c]);
}

namespace {

constexpr int64_t kBlock = 256;  // channels at a time

class MaxPool : public Kernel {
 public:
  MaxPool(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(InputOf(g, op, 0).dtype),
        attrs_(std::get<PoolAttrs>(op.attrs)),
        in_(AsMap(InputOf(g, op, 0))),
        out_(AsMap(OutputOf(g, op, 0))),
        argmax_(HasOutput(op, 1)) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, out_.n * out_.h, [&](int64_t row) {
      for (int64_t ox = 0; ox < out_.w; ++ox) {
        for (int64_t c = 0; c < out_.c; c += kBlock) {
          Window(args, row / out_.h, row % out_.h, ox, c, std::min(kBlock, out_.c - c));
        }
      }
    });
  }

 private:
  void Window(const KernelArgs& args, int64_t n, int64_t oy, int64_t ox, int64_t c,
              int64_t count) const {
    float best[kBlock], wide[kBlock];
    const InValues in(type_, args.in[0]);
    int32_t arg[kBlock];
    const int64_t y0 = oy * attrs_.stride - attrs_.pad, x0 = ox * attrs_.stride - attrs_.pad;
    const int64_t ky0 = std::max<int64_t>(0, -y0), kx0 = std::max<int64_t>(0, -x0);
    std::fill(best, best + count, -std::numeric_limits<float>::infinity());
    std::fill(arg, arg + count, static_cast<int32_t>(ky0 * attrs_.kernel + kx0));
    for (int64_t ky = ky0; ky < attrs_.kernel && y0 + ky < in_.h; ++ky) {
      for (int64_t kx = kx0; kx < attrs_.kernel && x0 + kx < in_.w; ++kx) {
        const int64_t at = ((n * in_.h + y0 + ky) * in_.w + x0 + kx) * in_.c + c;
        MaxTap(in.Floats(at, count, wide), static_cast<int32_t>(ky * attrs_.kernel + kx), count,
               best, arg);
      }
    }
    const int64_t to = ((n * out_.h + oy) * out_.w + ox) * out_.c + c;
    PutFloats(type_, best, count, args.out[0], to);
    if (!argmax_) return;
    uint8_t* taps = args.Out<uint8_t>(1) + to;
    for (int64_t i = 0; i < count; ++i) taps[i] = static_cast<uint8_t>(arg[i]);
  }

  int threads_;
  DType type_;
  PoolAttrs attrs_;
  MapShape in_, out_;
  bool argmax_;
};

class MaxPoolGrad : public Kernel {
 public:
  MaxPoolGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(OutputOf(g, op, 0).dtype),
        attrs_(std::get<PoolAttrs>(op.attrs)),
        in_(AsMap(OutputOf(g, op, 0))),
        out_(AsMap(InputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, in_.n * in_.h, [&](int64_t row) {
      for (int64_t x = 0; x < in_.w; ++x) Gather(args, row / in_.h, row % in_.h, x);
    });
  }

 private:
  // The windows that hold a coordinate: [first, last].
  void Windows(int64_t at, int64_t count, int64_t& first, int64_t& last) const {
    const int64_t low = at + attrs_.pad - attrs_.kernel + 1;
    first = low <= 0 ? 0 : (low + attrs_.stride - 1) / attrs_.stride;
    last = std::min(count - 1, (at + attrs_.pad) / attrs_.stride);
  }

  void Gather(const KernelArgs& args, int64_t n, int64_t y, int64_t x) const {
    int64_t oy0 = 0, oy1 = 0, ox0 = 0, ox1 = 0;
    Windows(y, out_.h, oy0, oy1);
    Windows(x, out_.w, ox0, ox1);
    const InValues dy(type_, args.in[0]);
    const auto* argmax = args.In<uint8_t>(1);
    for (int64_t c = 0; c < in_.c; c += kBlock) {
      const int64_t count = std::min(kBlock, in_.c - c);
      float dx[kBlock], wide[kBlock];
      std::fill(dx, dx + count, 0.0f);
      for (int64_t oy = oy0; oy <= oy1; ++oy) {
        const int64_t ky = y + attrs_.pad - oy * attrs_.stride;
        for (int64_t ox = ox0; ox <= ox1; ++ox) {
          const int64_t kx = x + attrs_.pad - ox * attrs_.stride;
          const int64_t at = ((n * out_.h + oy) * out_.w + ox) * out_.c + c;
          AddWhereTap(dy.Floats(at, count, wide), argmax + at,
                      static_cast<int32_t>(ky * attrs_.kernel + kx), count, dx);
        }
      }
      PutFloats(type_, dx, count, args.out[0], ((n * in_.h + y) * in_.w + x) * in_.c + c);
    }
  }

  int threads_;
  DType type_;
  PoolAttrs attrs_;
  MapShape in_, out_;
};

class GlobalAvgPool : public Kernel {
 public:
  GlobalAvgPool(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), type_(InputOf(g, op, 0).dtype), in_(AsMap(InputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    const int64_t pixels = in_.h * in_.w, blocks = (in_.c + kBlock - 1) / kBlock;
    ParallelFor(threads_, in_.n * blocks, [&](int64_t i) {
      const int64_t n = i / blocks, c = i % blocks * kBlock, count = std::min(kBlock, in_.c - c);
      double sum[kBlock] = {};
      float row[kBlock];
      const InValues x(type_, args.in[0]);
      for (int64_t p = 0; p < pixels; ++p) {
        AddRowDouble(x.Floats((n * pixels + p) * in_.c + c, count, row), count, sum);
      }
      for (int64_t k = 0; k < count; ++k) {
        row[k] = static_cast<float>(sum[k] / static_cast<double>(pixels));
      }
      PutFloats(type_, row, count, args.out[0], n * in_.c + c);
    });
  }

 private:
  int threads_;
  DType type_;
  MapShape in_;
};

class GlobalAvgPoolGrad : public Kernel {
 public:
  GlobalAvgPoolGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(OutputOf(g, op, 0).dtype),
        in_(AsMap(OutputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    const auto pixels = static_cast<float>(in_.h * in_.w);
    ParallelFor(threads_, in_.n * in_.h, [&](int64_t row) {
      const InValues dy(type_, args.in[0]);
      for (int64_t c = 0; c < in_.c; c += kBlock) {
        const int64_t count = std::min(kBlock, in_.c - c);
        float wide[kBlock], dx[kBlock];
        const float* from = dy.Floats(row / in_.h * in_.c + c, count, wide);
        for (int64_t k = 0; k < count; ++k) dx[k] = from[k] / pixels;
        for (int64_t x = 0; x < in_.w; ++x) {
          PutFloats(type_, dx, count, args.out[0], (row * in_.w + x) * in_.c + c);
        }
      }
    });
  }

 private:
  int threads_;
  DType type_;
  MapShape in_;
};

}  // namespace

std::unique_ptr<Kernel> MakeMaxPool(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<MaxPool>(context, g, op);
}
std::unique_ptr<Kernel> MakeMaxPoolGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<MaxPoolGrad>(context, g, op);
}
std::unique_ptr<Kernel> MakeGlobalAvgPool(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<GlobalAvgPool>(context, g, op);
}
std::unique_ptr<Kernel> MakeGlobalAvgPoolGrad(const Context& context, const Graph& g,
                                              const Op& op) {
  return std::make_unique<GlobalAvgPoolGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
