// What the kernels of grouped convolutions share (grouped_conv.h): how a block walks down its
// strips, where pixels lie in shared memory, and the fragments of weights.
#pragma once

#include <type_traits>

#include "kernels/elements.cuh"
#include "kernels/grouped_conv_kernels.h"
#include "kernels/tensor_ops.cuh"

namespace xp::kernels::grouped {

// Calls body(T{}, integral_constant octets of a group; 1 for groups of 4 and of 8).
template <typename Body>
void DispatchGroup(const GroupedConvShape& shape, ElementType type, Body&& body) {
  auto with_type = [&](auto zero) {
    if (shape.group <= 8) body(zero, std::integral_constant<int, 1>{});
    if (shape.group == 16) body(zero, std::integral_constant<int, 2>{});
    if (shape.group == 32) body(zero, std::integral_constant<int, 4>{});
  };
  if (type == ElementType::kBF16) with_type(__nv_bfloat16{});
  if (type == ElementType::kF16) with_type(__half{});
}

constexpr int kThreads = kBlockThreads;
constexpr int kChunk = 64;           // channels a block
constexpr int kOctets = kChunk / 8;  // 16 bytes each
constexpr int kPixelBytes = kChunk * 2;
constexpr int kStripPixels = 32;                  // of y, two products' worth of rows
constexpr int kCopyColumns = kThreads / kOctets;  // that the block's threads copy at once
static_assert(kCopyColumns == kStripPixels);

// Columns of y in a strip: those whose inputs lie in kStripPixels * stride columns.
constexpr int StripColumns(int stride) { return stride == 1 ? 30 : 31; }

// kInner: how many octets of inputs an octet of outputs depends on (an octet has two groups of 4).
// How many a warp reads for its two octets of outputs:
template <int kInner>
constexpr int kWarpOctets = kInner == 1 ? 2 : kInner;

// Where an octet of a pixel lies in a row. Eight pixels that are one (kShift 0) or two (kShift 1)
// apart are read at once: their octets lie in different banks.
template <int kShift>
__device__ inline unsigned PixelOffset(int pixel, int octet) {
  return static_cast<unsigned>(pixel * kPixelBytes + ((octet ^ ((pixel >> kShift) & 7)) << 4));
}

// The steps of a block: for each strip that it has a share [first, last) of, the units from
// first - 1, which makes ready what comes from above, up to last, exclusive.
class Steps {
 public:
  __device__ Steps(int begin, int end, int units) : next_(begin), end_(end), units_(units) {
    Begin();
  }
  __device__ bool done() const { return done_; }
  __device__ bool fresh() const { return unit_ == first_ - 1; }  // the first step of a strip
  __device__ int strip() const { return strip_; }
  __device__ int unit() const { return unit_; }
  __device__ int first() const { return first_; }
  __device__ int last() const { return last_; }
  __device__ void Advance() {
    if (++unit_ == last_) Begin();
  }

 private:
  __device__ void Begin() {
    done_ = next_ >= end_;
    if (done_) return;
    strip_ = next_ / units_;
    first_ = next_ - strip_ * units_;
    last_ = first_ + (units_ - first_ < end_ - next_ ? units_ - first_ : end_ - next_);
    next_ += last_ - first_;
    unit_ = first_ - 1;
  }

  int next_, end_, units_;
  int strip_ = 0, unit_ = 0, first_ = 0, last_ = 0;
  bool done_ = false;
};

// What part `part` of a plan has of all units.
__device__ inline Steps StepsOf(const GroupedConvPlan& plan, int part) {
  const int64_t all = static_cast<int64_t>(plan.strips) * plan.units;
  return {static_cast<int>(all * part / plan.parts),
          static_cast<int>(all * (part + 1) / plan.parts), plan.units};
}

// One column of a map [n, h, w, c] among those of all images side by side.
template <typename T>
struct Column {
  T* top = nullptr;  // row 0; null outside of the images

  __device__ void Find(T* map, int column, int pitch, int n, int h, int w, int c) {
    top = nullptr;
    if (column < 0) return;
    const int image = column / pitch, x = column - image * pitch;
    if (image < n && x < w) top = map + (static_cast<int64_t>(image) * h * w + x) * c;
  }
};

// Enqueues the copy of this thread's octet of a column at a row; zeros outside of the map.
template <typename T>
__device__ inline void CopyPixel(unsigned to, const Column<const T>& column, int row, int rows,
                                 int row_elements) {
  const bool inside = row >= 0 && row < rows && column.top != nullptr;
  CopyAsync(to, column.top + static_cast<int64_t>(row) * row_elements, inside);
}

// The two rows of x that a step of a forward or weight gradient kernel brings. Rows of y that are
// finished with them: two of stride 1 (which need the step before too), one of stride 2.
template <typename T, int kStride>
class InputRows {
 public:
  static constexpr int kPixels = kStripPixels * kStride;
  static constexpr int kRowBytes = (kPixels + 2) * kPixelBytes;  // two more are read, not used
  static constexpr int kBytes = 2 * kRowBytes;

  // `x`: of this thread's octet.
  __device__ InputRows(const T* x, const GroupedConvPlan& plan)
      : x_(x),
        shape_(plan.shape),
        pitch_(plan.pitch * kStride),
        row_elements_(plan.shape.w * plan.shape.c) {}

  __device__ void Copy(const Steps& step, unsigned slot) {
    const int pixel = static_cast<int>(threadIdx.x) / kOctets;
    const int octet = static_cast<int>(threadIdx.x) % kOctets;
    const int row = step.unit() * 2 + (kStride == 1 ? 1 : 0);
#pragma unroll
    for (int i = 0; i < kStride; ++i) {
      const int at = pixel + i * kCopyColumns;
      if (step.fresh()) {
        columns_[i].Find(x_, step.strip() * StripColumns(kStride) * kStride - 1 + at, pitch_,
                         shape_.n, shape_.h, shape_.w, shape_.c);
      }
      const unsigned to = slot + PixelOffset<kStride - 1>(at, octet);
      CopyPixel(to, columns_[i], row, shape_.h, row_elements_);
      CopyPixel(to + kRowBytes, columns_[i], row + 1, shape_.h, row_elements_);
    }
  }

 private:
  const T* x_;
  const GroupedConvShape& shape_;
  int pitch_, row_elements_;
  Column<const T> columns_[kStride];
};

// 16 pixels, kStride apart, at kColumns neighbouring offsets, of all octets that a warp reads:
// pixels 0-7 and 8-15.
template <int kInner, int kColumns>
using Pixels = unsigned[kColumns][kWarpOctets<kInner>][2];

// Where a lane finds them in a row, two octets at a time.
template <int kInner, int kColumns, int kStride>
struct PixelOffsets {
  unsigned at[kColumns][kWarpOctets<kInner> / 2];

  // `octet`: the first of the warp's outputs.
  __device__ PixelOffsets(int first_pixel, int octet, int lane) {
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
#pragma unroll
      for (int i = 0; i < kWarpOctets<kInner> / 2; ++i) {
        const int first = kInner == 4 ? octet / 4 * 4 + i * 2 : octet;
        at[column][i] = PixelOffset<kStride - 1>((first_pixel + lane % 16) * kStride + column,
                                                 first + lane / 16);
      }
    }
  }

  // kTransposed: with the octets' channels as rows.
  template <bool kTransposed>
  __device__ void Load(unsigned row, Pixels<kInner, kColumns>& a) const {
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
#pragma unroll
      for (int i = 0; i < kWarpOctets<kInner> / 2; ++i) {
        LoadMatrices<kTransposed>(row + at[column][i], a[column][2 * i][0], a[column][2 * i][1],
                                  a[column][2 * i + 1][0], a[column][2 * i + 1][1]);
      }
    }
  }
};

// A warp's weights: [its octet of outputs][ky][kx][octet of inputs of the group], eight inputs by
// eight outputs each, as the second factor of a product.
template <int kInner>
using WeightFragments = unsigned[2][3][3][kInner];

template <typename T>
__device__ inline unsigned PackBits(T low, T high) {
  return static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(&low)) |
         static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(&high)) << 16;
}

// w [c, 3, 3, group]; `octet` is the first of the warp's two among all. `transposed`: for a data
// gradient, whose inputs are y's channels and whose outputs x's; ky and kx then run backwards.
// `group` is a power of two.
template <typename T, int kInner>
__device__ inline void LoadWeights(const T* w, int group, bool transposed, int octet, int lane,
                                   WeightFragments<kInner>& to) {
  const int column = lane / 4, row = lane % 4 * 2;  // output and input within their octets
  const bool same_group = group >= 8 || row / 4 == column / 4;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int output = (octet + j) * 8 + column;
    const int input = (octet + j) / kInner * kInner * 8 + row;
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) {
#pragma unroll
      for (int i = 0; i < kInner; ++i) {
        unsigned bits = 0;
        if (same_group && transposed) {
          const T* at = w + ((input + i * 8) * 9 + 8 - tap) * group + (output & (group - 1));
          bits = PackBits(at[0], at[9 * group]);
        } else if (same_group) {
          bits = *reinterpret_cast<const unsigned*>(w + (output * 9 + tap) * group +
                                                    ((input + i * 8) & (group - 1)));
        }
        to[j][tap / 3][tap % 3][i] = bits;
      }
    }
  }
}

// sum += over kTaps neighbouring columns of pixels, from a[0] on, and the octets of a group, from
// kOctet on: with the weights of taps kFirstTap, kFirstTap + kTapStep .. The fragments of 16 pixels
// a[column][octet] hold pixels 0-7 and 8-15.
template <typename T, int kTaps, int kFirstTap, int kTapStep, int kOctet, int kColumns, int kAll,
          int kInner>
__device__ inline void MultiplyTaps(float (&sum)[4], const unsigned (&a)[kColumns][kAll][2],
                                    const unsigned (&w)[3][kInner]) {
  constexpr int kSlots = kTaps * kInner;
#pragma unroll
  for (int s = 0; s + 1 < kSlots; s += 2) {
    const unsigned(&low)[2] = a[s / kInner][kOctet + s % kInner];
    const unsigned(&high)[2] = a[(s + 1) / kInner][kOctet + (s + 1) % kInner];
    MultiplyAdd(sum, low[0], low[1], high[0], high[1],
                w[kFirstTap + s / kInner * kTapStep][s % kInner],
                w[kFirstTap + (s + 1) / kInner * kTapStep][(s + 1) % kInner], T{});
  }
  if constexpr (kSlots % 2 == 1) {
    constexpr int kLast = kSlots - 1;
    const unsigned(&last)[2] = a[kLast / kInner][kOctet + kLast % kInner];
    MultiplyAddHalf(sum, last[0], last[1], w[kFirstTap + kLast / kInner * kTapStep][kLast % kInner],
                    T{});
  }
}

using Sums = float[2][4];  // 16 pixels of a warp's two octets of outputs

__device__ inline void Clear(Sums& sums) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[j][i] = 0;
  }
}

template <typename Pair>
__device__ inline unsigned PairBits(const Pair& pair) {
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ inline unsigned PackPair(float low, float high, __nv_bfloat16) {
  return PairBits(__floats2bfloat162_rn(low, high));
}
__device__ inline unsigned PackPair(float low, float high, __half) {
  return PairBits(__floats2half2_rn(low, high));
}

// A product's 16 pixels, kStep apart from `pixel` on, of one octet: into a row in shared memory.
template <typename T, int kStep>
__device__ inline void StagePixels(unsigned char* row, int pixel, int octet, int lane,
                                   const float (&sum)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = pixel + (lane / 4 + half * 8) * kStep;
    *reinterpret_cast<unsigned*>(row + PixelOffset<kStep - 1>(at, octet) + lane % 4 * 4) =
        PackPair(sum[half * 2], sum[half * 2 + 1], T{});
  }
}

}  // namespace xp::kernels::grouped
