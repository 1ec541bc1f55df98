// Nearest upsampling with addition (FPN's top-down path), subsampling by two, and their gradients.
#include <algorithm>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {

XP_SIMD_CLONES void SumOfTwo(const float* __restrict a, const float* __restrict b, int64_t n,
                             float* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

XP_SIMD_CLONES void AddOnto(const float* __restrict a, int64_t n, float* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += a[i];
}

namespace {

class UpsampleAdd : public Kernel {
 public:
  UpsampleAdd(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        top_(AsMap(InputOf(g, op, 0))),
        out_(AsMap(OutputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, out_.n * out_.h, [&](int64_t row) {
      const int64_t n = row / out_.h, source = row % out_.h * top_.h / out_.h;
      const float* top = args.In<float>(0) + (n * top_.h + source) * top_.w * top_.c;
      const float* lateral = args.In<float>(1) + row * out_.w * out_.c;
      float* y = args.Out<float>(0) + row * out_.w * out_.c;
      for (int64_t x = 0; x < out_.w; ++x) {
        SumOfTwo(lateral + x * out_.c, top + x * top_.w / out_.w * out_.c, out_.c, y + x * out_.c);
      }
    });
  }

 private:
  int threads_;
  MapShape top_, out_;
};

class UpsampleGrad : public Kernel {
 public:
  UpsampleGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        top_(AsMap(OutputOf(g, op, 0))),
        out_(AsMap(InputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, top_.n * top_.h, [&](int64_t row) {
      const int64_t n = row / top_.h, y = row % top_.h;
      for (int64_t x = 0; x < top_.w; ++x) {
        float* dtop = args.Out<float>(0) + (row * top_.w + x) * top_.c;
        std::fill(dtop, dtop + top_.c, 0.0f);
        for (int64_t oy = First(y, top_.h, out_.h); oy < First(y + 1, top_.h, out_.h); ++oy) {
          const float* dy = args.In<float>(0) + (n * out_.h + oy) * out_.w * out_.c;
          for (int64_t ox = First(x, top_.w, out_.w); ox < First(x + 1, top_.w, out_.w); ++ox) {
            AddOnto(dy + ox * out_.c, top_.c, dtop);
          }
        }
      }
    });
  }

 private:
  // The first of `large` pixels whose source, floor(pixel * small / large), is at least `source`.
  static int64_t First(int64_t source, int64_t small, int64_t large) {
    return (source * large + small - 1) / small;
  }

  int threads_;
  MapShape top_, out_;
};

class Subsample : public Kernel {
 public:
  Subsample(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), in_(AsMap(InputOf(g, op, 0))), out_(AsMap(OutputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, out_.n * out_.h, [&](int64_t row) {
      const int64_t n = row / out_.h, y = row % out_.h * 2;
      const float* x = args.In<float>(0) + (n * in_.h + y) * in_.w * in_.c;
      float* out = args.Out<float>(0) + row * out_.w * out_.c;
      for (int64_t i = 0; i < out_.w; ++i) {
        std::copy(x + i * 2 * in_.c, x + (i * 2 + 1) * in_.c, out + i * out_.c);
      }
    });
  }

 private:
  int threads_;
  MapShape in_, out_;
};

class SubsampleGrad : public Kernel {
 public:
  SubsampleGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), in_(AsMap(OutputOf(g, op, 0))), out_(AsMap(InputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, in_.n * in_.h, [&](int64_t row) {
      const int64_t n = row / in_.h, y = row % in_.h;
      float* dx = args.Out<float>(0) + row * in_.w * in_.c;
      std::fill(dx, dx + in_.w * in_.c, 0.0f);
      if (y % 2 != 0) return;
      const float* dy = args.In<float>(0) + (n * out_.h + y / 2) * out_.w * out_.c;
      for (int64_t i = 0; i < out_.w; ++i) {
        std::copy(dy + i * out_.c, dy + (i + 1) * out_.c, dx + i * 2 * in_.c);
      }
    });
  }

 private:
  int threads_;
  MapShape in_, out_;
};

}  // namespace

std::unique_ptr<Kernel> MakeUpsampleAdd(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<UpsampleAdd>(context, g, op);
}
std::unique_ptr<Kernel> MakeUpsampleGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<UpsampleGrad>(context, g, op);
}
std::unique_ptr<Kernel> MakeSubsample(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Subsample>(context, g, op);
}
std::unique_ptr<Kernel> MakeSubsampleGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SubsampleGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
