// Squeeze-and-excitation folded into batch norm (ops.h, kSqueeze*), in double: the reference for
// the CUDA kernels. The CPU backend itself doesn't ask for them.
#include <algorithm>
#include <cmath>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/mask.h"
#include "src/graph/cpu/norm.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/step_edit.h"

namespace xp::graph::cpu {
namespace {

double Wide(float v) { return static_cast<double>(v); }

class SqueezeStatistics : public Kernel {
 public:
  SqueezeStatistics(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        map_(AsMap(InputOf(g, op, 0))),
        attrs_(std::get<NormAttrs>(op.attrs)) {}

  void Run(const KernelArgs& args) override {
    const int64_t pixels = map_.h * map_.w;
    if (map_.n * pixels == 0) return;
    ParallelFor(threads_, map_.c, [&](int64_t c) {
      const float* x = args.In<float>(0);
      double all = 0, squares = 0;
      for (int64_t n = 0; n < map_.n; ++n) {
        double sum = 0;
        for (int64_t i = 0; i < pixels; ++i) sum += Wide(x[(n * pixels + i) * map_.c + c]);
        args.Out<float>(4)[n * map_.c + c] = static_cast<float>(sum / static_cast<double>(pixels));
        all += sum;
      }
      const auto count = static_cast<double>(map_.n * pixels);
      const double mean = all / count;
      for (int64_t i = 0; i < map_.n * pixels; ++i) {
        const double d = Wide(x[i * map_.c + c]) - mean;
        squares += d * d;
      }
      Finish(args, c, mean, squares, count);
    });
  }

 private:
  void Finish(const KernelArgs& args, int64_t c, double mean, double squares, double count) const {
    const double invstd = 1 / std::sqrt(squares / count + Wide(attrs_.eps));
    args.Out<float>(0)[c] = static_cast<float>(mean);
    args.Out<float>(1)[c] = static_cast<float>(invstd);
    const RunningMoments running = {args.In<float>(3), args.In<float>(4), args.Out<float>(2),
                                    args.Out<float>(3)};
    running.Update(c, Wide(attrs_.momentum), mean, squares / std::max(count - 1, 1.0));
    for (int64_t n = 0; n < map_.n; ++n) {
      const double centred = Wide(args.Out<float>(4)[n * map_.c + c]) - mean;
      args.Out<float>(5)[n * map_.c + c] = static_cast<float>(
          Wide(args.In<float>(1)[c]) * invstd * centred + Wide(args.In<float>(2)[c]));
    }
  }

  int threads_;
  MapShape map_;
  NormAttrs attrs_;
};

class SqueezeSums : public Kernel {
 public:
  SqueezeSums(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        map_(AsMap(InputOf(g, op, 4))),
        mask_(HasInput(op, 0)),
        keep_(HasOutput(op, 0)) {
    while (dys_ < kSumsMostDys && HasInput(op, kSumsDy + dys_)) ++dys_;
  }

  size_t WorkspaceBytes() const override {
    return keep_ ? 0 : static_cast<size_t>(map_.n * map_.h * map_.w * map_.c) * sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    const int64_t pixels = map_.h * map_.w, elements = map_.n * pixels * map_.c;
    float* g = keep_ ? args.Out<float>(0) : static_cast<float*>(args.workspace);
    ParallelRanges(threads_, elements, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float sum = args.In<float>(kSumsDy)[i];
        for (size_t k = 1; k < dys_; ++k) sum += args.In<float>(kSumsDy + k)[i];
        g[i] = sum;
      }
      if (mask_) ApplyMask(g + begin, args.In<uint8_t>(0) + begin / 8, end - begin, g + begin);
    });
    ParallelFor(threads_, map_.n * map_.c, [&](int64_t i) {
      const int64_t n = i / map_.c, c = i % map_.c;
      const double mean = Wide(args.In<float>(7)[c]);
      double sum = 0, along = 0;
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t at = (n * pixels + p) * map_.c + c;
        sum += Wide(g[at]);
        along += Wide(g[at]) * (Wide(args.In<float>(4)[at]) - mean);
      }
      args.Out<float>(1)[i] = static_cast<float>(sum);
      args.Out<float>(1)[map_.n * map_.c + i] = static_cast<float>(along);
      args.Out<float>(2)[i] =
          static_cast<float>(Wide(args.In<float>(5)[c]) * Wide(args.In<float>(8)[c]) * along +
                             Wide(args.In<float>(6)[c]) * sum);
    });
  }

 private:
  int threads_;
  MapShape map_;
  bool mask_, keep_;
  size_t dys_ = 0;
};

class SqueezeFactors : public Kernel {
 public:
  SqueezeFactors(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        map_(AsMap(InputOf(g, op, 7))),
        dscale_(HasOutput(op, 0)),
        dbias_(HasOutput(op, 1)) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, map_.c, [&](int64_t c) {
      const float *sums = args.In<float>(0), *gate = args.In<float>(1), *pooled = args.In<float>(2);
      const double mean = Wide(args.In<float>(5)[c]), invstd = Wide(args.In<float>(6)[c]);
      double sum = 0, along = 0;
      for (int64_t n = 0; n < map_.n; ++n) {
        const int64_t at = n * map_.c + c;
        sum += Wide(gate[at]) * Wide(sums[at]) + Wide(pooled[at]);
        along += Wide(gate[at]) * Wide(sums[map_.n * map_.c + at]) +
                 Wide(pooled[at]) * (Wide(args.In<float>(3)[at]) - mean);
      }
      const auto pixels = static_cast<double>(map_.h * map_.w);
      const double count = static_cast<double>(map_.n) * pixels;
      const double a = Wide(args.In<float>(4)[c]) * invstd,
                   b = -a * invstd * invstd * along / count;
      if (dscale_) args.Out<float>(0)[c] = static_cast<float>(along * invstd);
      if (dbias_) args.Out<float>(1)[c] = static_cast<float>(sum);
      for (int64_t n = 0; n < map_.n; ++n) {
        const int64_t at = n * map_.c + c;
        args.Out<float>(2)[at] = static_cast<float>(a * Wide(gate[at]));
        args.Out<float>(3)[at] =
            static_cast<float>(-a * sum / count - b * mean + a * Wide(pooled[at]) / pixels);
      }
      args.Out<float>(4)[c] = static_cast<float>(b);
    });
  }

 private:
  int threads_;
  MapShape map_;
  bool dscale_, dbias_;
};

class SqueezeApply : public Kernel {
 public:
  SqueezeApply(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), map_(AsMap(InputOf(g, op, 0))) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, map_.n * map_.h, [&](int64_t row) {
      const float *slopes = args.In<float>(2) + row / map_.h * map_.c,
                  *shifts = args.In<float>(3) + row / map_.h * map_.c, *common = args.In<float>(4);
      for (int64_t x = 0; x < map_.w; ++x) {
        const int64_t at = (row * map_.w + x) * map_.c;
        for (int64_t c = 0; c < map_.c; ++c) {
          args.Out<float>(0)[at + c] = slopes[c] * args.In<float>(0)[at + c] +
                                       (common[c] * args.In<float>(1)[at + c] + shifts[c]);
        }
      }
    });
  }

 private:
  int threads_;
  MapShape map_;
};

}  // namespace

std::unique_ptr<Kernel> MakeSqueezePart(const Context& context, const Graph& g, const Op& op) {
  switch (op.type) {
    case OpType::kSqueezeStatistics:
      return std::make_unique<SqueezeStatistics>(context, g, op);
    case OpType::kSqueezeSums:
      return std::make_unique<SqueezeSums>(context, g, op);
    case OpType::kSqueezeFactors:
      return std::make_unique<SqueezeFactors>(context, g, op);
    default:
      return std::make_unique<SqueezeApply>(context, g, op);
  }
}

}  // namespace xp::graph::cpu
