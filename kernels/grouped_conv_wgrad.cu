// The weight gradient: for each tap, products of x and dy over pixels. A warp has 16 pixels'
// columns of a strip, two octets of dy's channels and the x octets of their groups; it keeps the
// gradient of all nine taps in registers over all rows of its block's share. Shares are added up
// afterwards.
#include "kernels/grouped_conv_kernels.h"
#include "kernels/grouped_conv_strip.cuh"

namespace xp::kernels::grouped {
namespace {

template <typename T, int kStride>
struct Ring {
  using Rows = InputRows<T, kStride>;
  static constexpr int kSlots = kStride == 1 ? 4 : 3;
  static constexpr int kRowsOut = 2 / kStride;  // of dy
  static constexpr int kRowBytes = kStripPixels * kPixelBytes;
  static constexpr int kSlotBytes = Rows::kBytes + kRowsOut * kRowBytes;
  static constexpr int kBytes = kSlots * kSlotBytes;
};

// Products a warp makes for an octet of dy's channels and a row of taps. Rows of the result are two
// octets of x: of groups of 16 and more two neighbouring octets under one tap; else one octet under
// the first and the second tap, then under the third alone.
template <int kInner>
constexpr int kProducts = kInner == 1 ? 2 : 3 * kInner / 2;
template <int kInner>
constexpr int kSumsOfWarp = 2 * 3 * kProducts<kInner> * 4;  // a lane
constexpr int kWarpPairs = kThreads / 64;                   // two warps share a gradient

// The halves of a block, by columns, are added up in shared memory.
template <int kInner>
constexpr int kHalfBytes = kSumsOfWarp<kInner>* kWarpPairs * 32 * 4;
template <typename T, int kInner, int kStride>
constexpr int kSharedBytes =
    Ring<T, kStride>::kBytes > kHalfBytes<kInner> ? Ring<T, kStride>::kBytes : kHalfBytes<kInner>;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

using Gradients = unsigned[2][2];  // of a row of dy: [octet][pixels 0-7, 8-15]

template <int kInner>
using WeightSums = float[2][3][kProducts<kInner>][4];  // [dy's octet][ky]

template <typename T, int kInner>
__device__ inline void MultiplyRow(WeightSums<kInner>& sums, const Pixels<kInner, 3>& x,
                                   const Gradients& dy, int ky) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int m = 0; m < kProducts<kInner>; ++m) {
      if constexpr (kInner == 1) {
        const unsigned(&low)[2] = x[2 * m][j];
        const unsigned(&high)[2] = x[1][j];
        MultiplyAdd(sums[j][ky][m], low[0], m == 0 ? high[0] : 0, low[1], m == 0 ? high[1] : 0,
                    dy[j][0], dy[j][1], T{});
      } else {
        constexpr int kPairs = kInner / 2;
        const unsigned(&low)[2] = x[m / kPairs][m % kPairs * 2];
        const unsigned(&high)[2] = x[m / kPairs][m % kPairs * 2 + 1];
        MultiplyAdd(sums[j][ky][m], low[0], high[0], low[1], high[1], dy[j][0], dy[j][1], T{});
      }
    }
  }
}

// partial [part][chunk][pair of warps][sum][lane]
template <typename T, int kInner, int kStride>
__global__ void __launch_bounds__(kThreads, kInner == 4 ? 1 : 2)
    WeightGradKernel(const __grid_constant__ GroupedConvPlan plan, const void* x, const void* dy,
                     void* partial) {
  using R = Ring<T, kStride>;
  unsigned char* shared = DynamicShared();
  const unsigned ring = SharedAddress(shared);
  const GroupedConvShape& s = plan.shape;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int first_pixel = warp % 2 * 16, octet = warp / 2 * 2;
  const int chunk = static_cast<int>(blockIdx.x) % plan.chunks;
  const int part = static_cast<int>(blockIdx.x) / plan.chunks;
  const int pixel = thread / kOctets, pixel_octet = thread % kOctets;  // that the thread copies
  const int channel = chunk * kChunk + pixel_octet * 8;

  // Two pixels of each row of x are read that no copy writes. They meet zeros, and must be numbers.
  constexpr int kRows = R::kSlots * 2, kPieces = 2 * kOctets;
  static_assert(kRows * kPieces <= kThreads);
  if (thread < kRows * kPieces) {
    const int row = thread / kPieces;
    const int end = row / 2 * R::kSlotBytes + (row % 2 + 1) * R::Rows::kRowBytes;
    *reinterpret_cast<uint4*>(shared + end - (thread % kPieces + 1) * 16) = make_uint4(0, 0, 0, 0);
  }

  // A step brings its rows of x, and of dy those that the next step finishes: zeros where they
  // aren't of the block's share.
  Steps step = StepsOf(plan, part), ahead = step;
  typename R::Rows input(static_cast<const T*>(x) + channel, plan);
  Column<const T> dy_column;
  auto copy_ahead = [&](int slot) {
    if (!ahead.done()) {
      const unsigned to = ring + static_cast<unsigned>(slot * R::kSlotBytes);
      input.Copy(ahead, to);
      if (ahead.fresh()) {
        dy_column.Find(static_cast<const T*>(dy) + channel,
                       ahead.strip() * StripColumns(kStride) + pixel, plan.pitch, s.n, s.p(), s.q(),
                       s.c);
        if (pixel >= StripColumns(kStride)) dy_column.top = nullptr;
      }
      const int row = (ahead.unit() + 1) * R::kRowsOut;
      const int rows = ahead.unit() + 1 < ahead.last() ? s.p() : 0;
#pragma unroll
      for (int r = 0; r < R::kRowsOut; ++r) {
        CopyPixel(to + static_cast<unsigned>(R::Rows::kBytes + r * R::kRowBytes) +
                      PixelOffset<0>(pixel, pixel_octet),
                  dy_column, row + r, rows, s.q() * s.c);
      }
      ahead.Advance();
    }
    CommitCopies();
  };
#pragma unroll
  for (int i = 0; i < R::kSlots - 1; ++i) copy_ahead(i);

  const PixelOffsets<kInner, 3, kStride> offsets(first_pixel, octet, lane);
  const unsigned dy_offset = static_cast<unsigned>(R::Rows::kBytes) +
                             PixelOffset<0>(first_pixel + lane % 16, octet + lane / 16);
  WeightSums<kInner> sums;
#pragma unroll
  for (int i = 0; i < kSumsOfWarp<kInner>; ++i) {
    sums[i / (kSumsOfWarp<kInner> / 2)][i / (kProducts<kInner> * 4) % 3][i / 4 % kProducts<kInner>]
        [i % 4] = 0;
  }
  // The rows of dy that the step finishes, and those after them. A share begins and ends with
  // zeros.
  Gradients now[R::kRowsOut] = {}, next[R::kRowsOut] = {};
  int slot = 0;
  for (; !step.done(); step.Advance()) {
    WaitForCopies<R::kSlots - 2>();
    __syncthreads();
    copy_ahead(slot == 0 ? R::kSlots - 1 : slot - 1);
    const unsigned rows = ring + static_cast<unsigned>(slot * R::kSlotBytes);
#pragma unroll
    for (int r = 0; r < R::kRowsOut; ++r) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        now[r][j][0] = next[r][j][0];
        now[r][j][1] = next[r][j][1];
      }
      LoadMatrices<true>(rows + dy_offset + static_cast<unsigned>(r * R::kRowBytes), next[r][0][0],
                         next[r][0][1], next[r][1][0], next[r][1][1]);
    }
    Pixels<kInner, 3> pixels;
    offsets.template Load<true>(rows, pixels);
    if constexpr (kStride == 1) {
      MultiplyRow<T, kInner>(sums, pixels, now[0], 2);
      MultiplyRow<T, kInner>(sums, pixels, now[1], 1);
      MultiplyRow<T, kInner>(sums, pixels, next[0], 0);
    } else {
      MultiplyRow<T, kInner>(sums, pixels, now[0], 1);
    }
    offsets.template Load<true>(rows + R::Rows::kRowBytes, pixels);
    if constexpr (kStride == 1) {
      MultiplyRow<T, kInner>(sums, pixels, now[1], 2);
      MultiplyRow<T, kInner>(sums, pixels, next[0], 1);
      MultiplyRow<T, kInner>(sums, pixels, next[1], 0);
    } else {
      MultiplyRow<T, kInner>(sums, pixels, now[0], 2);
      MultiplyRow<T, kInner>(sums, pixels, next[0], 0);
    }
    slot = slot + 1 == R::kSlots ? 0 : slot + 1;
  }

  WaitForCopies<0>();
  __syncthreads();
  auto* half = reinterpret_cast<float*>(shared) + warp / 2 * kSumsOfWarp<kInner> * 32 + lane;
  auto* out =
      static_cast<float*>(partial) +
      (static_cast<int64_t>(blockIdx.x) * kWarpPairs + warp / 2) * kSumsOfWarp<kInner> * 32 + lane;
  const bool writes = warp % 2 == 0;
#pragma unroll
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == 1) __syncthreads();
    if (writes != (turn == 1)) continue;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int ky = 0; ky < 3; ++ky) {
#pragma unroll
        for (int m = 0; m < kProducts<kInner>; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int at = (((j * 3 + ky) * kProducts<kInner> + m) * 4 + i) * 32;
            if (turn == 0) {
              half[at] = sums[j][ky][m][i];
            } else {
              out[at] = sums[j][ky][m][i] + half[at];
            }
          }
        }
      }
    }
  }
}

#else

template <typename T, int kInner, int kStride>
__global__ void WeightGradKernel(const __grid_constant__ GroupedConvPlan, const void*, const void*,
                                 void*) {}

#endif

constexpr int kPartLanes = 8;

// A block adds up the parts of 32 sums, eight parts at a time, and writes those that are weights.
template <typename T, int kInner>
__global__ void __launch_bounds__(32 * kPartLanes)
    AddPartialsKernel(const float* partial, int parts, int64_t part_sums, int group, T* dw) {
  __shared__ float sums[kPartLanes][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) / 32;
  const float* at = partial + static_cast<int64_t>(blockIdx.x) * 32 + lane;
  float sum = 0;
#pragma unroll 4
  for (int part = row; part < parts; part += kPartLanes) sum += at[part * part_sums];
  sums[row][lane] = sum;
  __syncthreads();
  if (row != 0) return;
#pragma unroll
  for (int i = 1; i < kPartLanes; ++i) sum += sums[i][lane];

  const int index = static_cast<int>(blockIdx.x);  // [chunk][pair of warps][j][ky][m][i]
  const int i = index % 4, m = index / 4 % kProducts<kInner>;
  const int ky = index / 4 / kProducts<kInner> % 3, j = index / 12 / kProducts<kInner> % 2;
  const int octets = index / kSumsOfWarp<kInner> * 2;  // chunks have four pairs of octets
  const int output = lane % 4 * 2 + i % 2;             // within its octet
  const int input = lane / 4 + (i < 2 ? 0 : 8);        // of two octets of x
  int kx = m, channel = input;
  if constexpr (kInner == 1) {
    kx = 2 * m + input / 8;
    channel = input % 8 % group;
    if (kx > 2 || (group == 4 && input % 8 / 4 != output / 4)) return;
  } else {
    kx = m / (kInner / 2);
    channel = m % (kInner / 2) * 16 + input;
  }
  dw[((static_cast<int64_t>(octets + j) * 8 + output) * 9 + ky * 3 + kx) * group + channel] =
      FromFloat<T>(sum);
}

template <typename Body>
void WithSums(const GroupedConvPlan& plan, Body&& body) {
  DispatchGroup(plan.shape, plan.type, [&](auto zero, auto inner) {
    body(zero, inner,
         static_cast<int64_t>(plan.chunks) * kWarpPairs * kSumsOfWarp<decltype(inner)::value>);
  });
}

}  // namespace

Choice WeightGradChoice(const GroupedConvShape& shape, ElementType type) {
  Choice choice;
  DispatchGroup(shape, type, [&](auto zero, auto inner) {
    using T = decltype(zero);
    constexpr int kInner = decltype(inner)::value;
    if (shape.stride == 1) {
      choice = {WeightGradKernel<T, kInner, 1>, kSharedBytes<T, kInner, 1>};
    } else {
      choice = {WeightGradKernel<T, kInner, 2>, kSharedBytes<T, kInner, 2>};
    }
  });
  return choice;
}

size_t PartialBytes(const GroupedConvPlan& plan) {
  size_t bytes = 0;
  WithSums(plan, [&](auto, auto, int64_t sums) {
    bytes = static_cast<size_t>(plan.parts * sums) * 32 * sizeof(float);
  });
  return bytes;
}

void AddPartials(const GroupedConvPlan& plan, const void* partial, void* dw, cudaStream_t stream) {
  WithSums(plan, [&](auto zero, auto inner, int64_t sums) {
    using T = decltype(zero);
    AddPartialsKernel<T, decltype(inner)::value>
        <<<static_cast<unsigned>(sums), 32 * kPartLanes, 0, stream>>>(
            static_cast<const float*>(partial), plan.parts, sums * 32, plan.shape.group,
            static_cast<T*>(dw));
  });
}

}  // namespace xp::kernels::grouped
