// What both kernels of the stem convolution share: the units of work and the images under them.
//
// Both kernels go over the output in units of 4 rows by 16 columns. A block of four warps takes
// every gridDim-th unit, while copies of the next ones' image rows are under way.
//
// A unit reads 13 image rows of 120 elements (40 pixels). Under the weights of one row lies, for
// output column q, a window of 24 elements that begins at element 6 q - 10 of the image row: one
// too many, the 21 that count (7 pixels of 3 channels), two too many. So neighbouring windows lie 6
// elements apart and pairs of elements are whole words: operands of tensor cores are read with
// plain 4-byte loads, and no window is ever copied. The weights of the three extra elements are 0.
#pragma once

#include "kernels/octet.cuh"
#include "kernels/stem_conv.h"
#include "kernels/tensor_ops.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kBlocksAMultiprocessor = 3;
constexpr int kUnitRows = 4, kUnitColumns = 16;
constexpr int kWeightRow = 21, kWeights = 7 * kWeightRow;  // that count, of the windows

// A unit of an image, counted in units.
struct Place {
  int image, row, column;
};

struct Units {
  int rows, columns;  // of units an image
  unsigned count;
  unsigned blocks;
  Place step;  // from one unit of a block to its next, gridDim further
};

Place PlaceOf(unsigned index, int rows, int columns) {
  return {static_cast<int>(index / columns / rows), static_cast<int>(index / columns % rows),
          static_cast<int>(index % columns)};
}

Units UnitsOf(const StemShape& s, int multiprocessors) {
  Units u{};
  u.rows = (s.p + kUnitRows - 1) / kUnitRows;
  u.columns = (s.q + kUnitColumns - 1) / kUnitColumns;
  u.count = static_cast<unsigned>(s.n * u.rows * u.columns);
  u.blocks = min(u.count, static_cast<unsigned>(kBlocksAMultiprocessor * multiprocessors));
  u.step = PlaceOf(u.blocks, u.rows, u.columns);
  return u;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr int kImageRows = 2 * kUnitRows + 5;          // under a unit's windows
constexpr int kImageElements = 6 * kUnitColumns + 24;  // of each
constexpr int kBefore = 16;    // a unit's elements begin that many before its first column's pixel
constexpr int kRowWords = 80;  // from one image row to the next in shared memory, see Gradients
constexpr int kFirstWord = 3;  // of the first column's window
constexpr int kColumnWords = 3;  // from a column's window to the next one's
constexpr int kWindow = 24;

__device__ inline Place FirstPlace(const Units& u) {
  const unsigned rest = blockIdx.x / u.columns;
  return {static_cast<int>(rest / u.rows), static_cast<int>(rest % u.rows),
          static_cast<int>(blockIdx.x % u.columns)};
}

// Without a division.
__device__ inline void Advance(Place& at, const Units& u) {
  at.image += u.step.image;
  at.row += u.step.row;
  at.column += u.step.column;
  if (at.column >= u.columns) {
    at.column -= u.columns;
    ++at.row;
  }
  if (at.row >= u.rows) {
    at.row -= u.rows;
    ++at.image;
  }
}

// The unit's part of the image, zeros outside. `kChunks`: every image row begins at a multiple of
// 16 bytes, so that no chunk of 16 is half inside.
template <typename T, bool kChunks>
__device__ inline void LoadImage(const T* x, const StemShape& s, const Place& unit, T* to) {
  constexpr int kSlots = kChunks ? 16 : kThreads;  // a row
  constexpr int kRowsAtOnce = kThreads / kSlots;
  const int slot = static_cast<int>(threadIdx.x) % kSlots * (kChunks ? 8 : 1);
  int row = static_cast<int>(threadIdx.x) / kSlots;
  if (slot >= kImageElements) return;
  const int width = 3 * s.w, element = 6 * kUnitColumns * unit.column - kBefore + slot;
  const int first_row = 2 * kUnitRows * unit.row - 3;
  const T* from = x + (static_cast<int64_t>(unit.image) * s.h + first_row + row) * width + element;
  to += row * kRowWords * 2 + slot;
  const bool column_inside = element >= 0 && element < width;
#pragma unroll
  for (int i = 0; i < kImageRows; i += kRowsAtOnce) {
    if (i + kRowsAtOnce > kImageRows && row + i >= kImageRows) break;
    const int y = first_row + row + i;
    const bool inside = column_inside && y >= 0 && y < s.h;
    if constexpr (kChunks) {
      CopyAsync(SharedAddress(to + i * kRowWords * 2), inside ? from + i * width : x, inside);
    } else {
      to[i * kRowWords * 2] = inside ? from[i * width] : FromFloat<T>(0.0f);
    }
  }
}

#endif

// Calls body(T{}, bool_constant<kChunks>).
template <typename Body>
void DispatchImage(const void* x, const StemShape& s, ElementType type, Body&& body) {
  const bool chunks = s.w % 8 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  auto of = [&](auto zero) {
    if (chunks) {
      body(zero, std::true_type{});
    } else {
      body(zero, std::false_type{});
    }
  };
  if (type == ElementType::kBF16) {
    of(__nv_bfloat16{});
  } else {
    of(__half{});
  }
}

}  // namespace
}  // namespace xp::kernels
