// Gram statistics (ops.h), as the formulas say and in double: the reference for the CUDA kernels.
// The CPU backend itself doesn't ask for them.
#include <cmath>
#include <vector>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/norm.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {
namespace {

// out[i][j] = sum over rows of x[row][i] * y[row][j].
void CrossProduct(int threads, const float* x, int64_t columns, const float* y, int64_t channels,
                  int64_t rows, double* out) {
  ParallelFor(threads, columns, [&](int64_t i) {
    double* to = out + i * channels;
    std::fill(to, to + channels, 0.0);
    for (int64_t r = 0; r < rows; ++r) {
      const auto factor = static_cast<double>(x[r * columns + i]);
      if (factor == 0) continue;
      const float* from = y + r * channels;
#pragma omp simd
      for (int64_t j = 0; j < channels; ++j) to[j] += factor * static_cast<double>(from[j]);
    }
  });
}

class GramStatistics : public Kernel {
 public:
  GramStatistics(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        a_(AsRows(InputOf(g, op, 0))),
        outputs_(InputOf(g, op, 1).shape.at(0)),
        attrs_(std::get<NormAttrs>(op.attrs)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>((a_.channels + 1) * a_.channels) * sizeof(double);
  }

  void Run(const KernelArgs& args) override {
    if (a_.rows == 0) return;
    const int64_t channels = a_.channels;
    const auto n = static_cast<double>(a_.rows);
    auto* gram = static_cast<double*>(args.workspace);
    double* centre = gram + channels * channels;
    const auto *a = args.In<float>(0), *w = args.In<float>(1);
    CrossProduct(threads_, a, channels, a, channels, a_.rows, gram);
    const float one = 1;
    std::vector<float> ones(static_cast<size_t>(a_.rows), one);
    CrossProduct(1, ones.data(), 1, a, channels, a_.rows, centre);
    for (int64_t i = 0; i < channels; ++i) centre[i] /= n;
    for (int64_t i = 0; i < channels; ++i) {
      args.Out<float>(4)[i] = static_cast<float>(centre[i]);
      for (int64_t j = 0; j < channels; ++j) {
        gram[i * channels + j] = gram[i * channels + j] / n - centre[i] * centre[j];
      }
    }
    ParallelFor(threads_, outputs_, [&](int64_t k) {
      double mean = 0, variance = 0;
      for (int64_t j = 0; j < channels; ++j) {
        double product = 0;
        for (int64_t i = 0; i < channels; ++i) {
          product += static_cast<double>(w[k * channels + i]) * gram[i * channels + j];
        }
        args.Out<float>(5)[k * channels + j] = static_cast<float>(product);
        variance += product * static_cast<double>(w[k * channels + j]);
        mean += centre[j] * static_cast<double>(w[k * channels + j]);
      }
      Finish(args, k, mean, std::max(variance, 0.0));
    });
  }

 private:
  void Finish(const KernelArgs& args, int64_t k, double mean, double variance) const {
    const auto n = static_cast<double>(a_.rows);
    args.Out<float>(0)[k] = static_cast<float>(mean);
    args.Out<float>(1)[k] =
        static_cast<float>(1 / std::sqrt(variance + static_cast<double>(attrs_.eps)));
    const RunningMoments running = {args.In<float>(2), args.In<float>(3), args.Out<float>(2),
                                    args.Out<float>(3)};
    running.Update(k, static_cast<double>(attrs_.momentum), mean,
                   variance * n / std::max(n - 1, 1.0));
  }

  int threads_;
  Rows a_;
  int64_t outputs_;
  NormAttrs attrs_;
};

class GramGrad : public Kernel {
 public:
  GramGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        a_(AsRows(InputOf(g, op, 1))),
        outputs_(InputOf(g, op, 2).shape.at(0)),
        dw_(HasOutput(op, 0)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(outputs_ * a_.channels + 2 * outputs_) * sizeof(double);
  }

  void Run(const KernelArgs& args) override {
    if (a_.rows == 0) return;
    const int64_t channels = a_.channels;
    auto* cross = static_cast<double*>(args.workspace);  // g^T a
    double *b = cross + outputs_ * channels, *constant = b + outputs_;
    CrossProduct(threads_, args.In<float>(0), outputs_, args.In<float>(1), channels, a_.rows,
                 cross);
    ParallelFor(threads_, outputs_,
                [&](int64_t k) { Row(args, k, cross + k * channels, b + k, constant + k); });
    const float* w = args.In<float>(2);
    ParallelFor(threads_, channels, [&](int64_t i) {
      for (int64_t j = 0; j < channels; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < outputs_; ++k) {
          sum += static_cast<double>(w[k * channels + i]) * b[k] *
                 static_cast<double>(w[k * channels + j]);
        }
        args.Out<float>(3)[i * channels + j] = static_cast<float>(sum);
      }
      double shift = 0;
      for (int64_t k = 0; k < outputs_; ++k) {
        shift += constant[k] * static_cast<double>(w[k * channels + i]);
      }
      args.Out<float>(4)[i] = static_cast<float>(shift);
    });
  }

 private:
  // dy = A g + B y + C for the output k, of which w is the row: B and C are returned.
  void Row(const KernelArgs& args, int64_t k, const double* cross, double* b,
           double* constant) const {
    const int64_t channels = a_.channels;
    const auto n = static_cast<double>(a_.rows);
    const float *w = args.In<float>(2) + k * channels, *product = args.In<float>(3) + k * channels;
    const float* centre = args.In<float>(4);
    const auto dbias = static_cast<double>(args.In<float>(5)[k]);
    const auto mean = static_cast<double>(args.In<float>(7)[k]);
    const auto invstd = static_cast<double>(args.In<float>(8)[k]);
    double along = 0;  // sum of g * (y - mean)
    for (int64_t j = 0; j < channels; ++j) {
      along += static_cast<double>(w[j]) * (cross[j] - dbias * static_cast<double>(centre[j]));
    }
    const double slope = static_cast<double>(args.In<float>(6)[k]) * invstd;
    *b = -slope * invstd * invstd * along / n;
    *constant = -slope * dbias / n - *b * mean;
    args.Out<float>(1)[k] = static_cast<float>(along * invstd);
    for (int64_t j = 0; j < channels; ++j) {
      args.Out<float>(2)[k * channels + j] = static_cast<float>(slope * static_cast<double>(w[j]));
      if (!dw_) continue;
      const double centred = cross[j] - dbias * static_cast<double>(centre[j]);
      args.Out<float>(0)[k * channels + j] =
          static_cast<float>(slope * centred + n * *b * static_cast<double>(product[j]));
    }
  }

  int threads_;
  Rows a_;
  int64_t outputs_;
  bool dw_;
};

}  // namespace

std::unique_ptr<Kernel> MakeGramStatistics(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<GramStatistics>(context, g, op);
}
std::unique_ptr<Kernel> MakeGramGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<GramGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
