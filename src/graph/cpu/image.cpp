// Normalisation of decoded images: a table of 256 values a channel.
#include <algorithm>
#include <array>
#include <cstring>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {
namespace {

class ImageNormalize : public Kernel {
 public:
  ImageNormalize(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), shape_(AsMap(InputOf(g, op, 0))) {
    const auto& attrs = std::get<NormalizeAttrs>(op.attrs);
    for (size_t c = 0; c < 3; ++c) {
      for (size_t v = 0; v < 256; ++v) {
        table_[c][v] = (static_cast<float>(v) / 255.0f - attrs.mean[c]) / attrs.std[c];
      }
    }
  }

  void Run(const KernelArgs& args) override {
    const auto* images = args.In<uint8_t>(0);
    const auto* sizes = args.In<int32_t>(1);
    float* out = args.Out<float>(0);
    const int64_t row_values = shape_.w * 3;
    ParallelFor(threads_, shape_.n * shape_.h, [&](int64_t row) {
      const int64_t n = row / shape_.h, y = row % shape_.h;
      const int64_t height = sizes[n * 2], width = sizes[n * 2 + 1];
      const int64_t valid =
          y < height ? std::clamp<int64_t>(width, 0, shape_.w) : 0;  // pixels of this row
      const uint8_t* source = images + row * row_values;
      float* target = out + row * row_values;
      for (int64_t x = 0; x < valid; ++x) {
        for (size_t c = 0; c < 3; ++c) {
          target[x * 3 + static_cast<int64_t>(c)] =
              table_[c][source[x * 3 + static_cast<int64_t>(c)]];
        }
      }
      std::fill(target + valid * 3, target + row_values, 0.0f);
    });
  }

 private:
  int threads_;
  MapShape shape_;
  std::array<std::array<float, 256>, 3> table_;
};

}  // namespace

std::unique_ptr<Kernel> MakeImageNormalize(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<ImageNormalize>(context, g, op);
}

}  // namespace xp::graph::cpu
