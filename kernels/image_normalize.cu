// A thread turns eight bytes into eight values; the channel is the value's number modulo three.
#include "kernels/image_normalize.h"

#include "kernels/octet.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;

struct Line {  // y = slope * u8 + offset, a channel
  float slope[3], offset[3];
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    NormalizeKernel(const uint8_t* x, const int32_t* sizes, T* y, int height, int width,
                    const Line line) {
  const int values = height * width * 3;  // of an image
  const int begin = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * 8;
  if (begin >= values) return;
  const int image = static_cast<int>(blockIdx.y);
  const int valid_height = sizes[image * 2], valid_width = sizes[image * 2 + 1];
  x += static_cast<int64_t>(image) * values + begin;
  y += static_cast<int64_t>(image) * values + begin;
  const bool whole = values % 8 == 0;  // then every image begins at a multiple of eight
  uint8_t in[8];
  if (whole) {
    *reinterpret_cast<uint2*>(in) = *reinterpret_cast<const uint2*>(x);
  } else {
    for (int k = 0; k < 8 && begin + k < values; ++k) in[k] = x[k];
  }
  const int pixel = begin / 3;
  int c = begin % 3, row = pixel / width, column = pixel % width;
  float v[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float slope = c == 0 ? line.slope[0] : c == 1 ? line.slope[1] : line.slope[2];
    const float offset = c == 0 ? line.offset[0] : c == 1 ? line.offset[1] : line.offset[2];
    const bool inside = row < valid_height && column < valid_width;
    v[k] = inside ? slope * static_cast<float>(in[k]) + offset : 0.0f;
    if (++c == 3) {
      c = 0;
      if (++column == width) {
        column = 0;
        ++row;
      }
    }
  }
  if (whole) {
    StoreOctet(y, v);
  } else {
    for (int k = 0; k < 8 && begin + k < values; ++k) y[k] = FromFloat<T>(v[k]);
  }
}

}  // namespace

void ImageNormalize(const uint8_t* x, const int32_t* sizes, void* y, int images, int height,
                    int width, const std::array<float, 3>& mean, const std::array<float, 3>& std,
                    ElementType type, cudaStream_t stream) {
  if (images == 0 || height * width == 0) return;
  Line line{};
  for (size_t c = 0; c < 3; ++c) {
    const double deviation = std[c];
    line.slope[c] = static_cast<float>(1 / (255 * deviation));
    line.offset[c] = static_cast<float>(-static_cast<double>(mean[c]) / deviation);
  }
  const dim3 grid(CeilDiv(static_cast<int64_t>(height) * width * 3, kThreads * 8),
                  static_cast<unsigned>(images));
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    NormalizeKernel<<<grid, kThreads, 0, stream>>>(x, sizes, static_cast<T*>(y), height, width,
                                                   line);
  });
}

}  // namespace xp::kernels
