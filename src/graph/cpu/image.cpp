// Normalisation of decoded images: a table of 256 values a channel.
#include <algorithm>
#include <array>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/cpu/values.h"

namespace xp::graph::cpu {
namespace {

class ImageNormalize : public Kernel {
 public:
  ImageNormalize(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(OutputOf(g, op, 0).dtype),
        shape_(AsMap(InputOf(g, op, 0))) {
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
    const int64_t row_values = shape_.w * 3;
    ParallelFor(threads_, shape_.n * shape_.h, [&](int64_t row) {
      const int64_t n = row / shape_.h, y = row % shape_.h;
      const int64_t height = sizes[n * 2], width = sizes[n * 2 + 1];
      const int64_t valid =
          y < height ? std::clamp<int64_t>(width, 0, shape_.w) : 0;  // pixels of this row
      const uint8_t* source = images + row * row_values;
      constexpr int64_t kPixels = 512;
      float values[kPixels * 3];
      for (int64_t begin = 0; begin < shape_.w; begin += kPixels) {
        const int64_t end = std::min(begin + kPixels, shape_.w);
        for (int64_t x = begin; x < end; ++x) {
          for (int64_t c = 0; c < 3; ++c) {
            values[(x - begin) * 3 + c] =
                x < valid ? table_[static_cast<size_t>(c)][source[x * 3 + c]] : 0.0f;
          }
        }
        PutFloats(type_, values, (end - begin) * 3, args.out[0], row * row_values + begin * 3);
      }
    });
  }

 private:
  int threads_;
  DType type_;
  MapShape shape_;
  std::array<std::array<float, 256>, 3> table_;
};

}  // namespace

std::unique_ptr<Kernel> MakeImageNormalize(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<ImageNormalize>(context, g, op);
}

}  // namespace xp::graph::cpu
