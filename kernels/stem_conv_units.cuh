// What the kernels of the stem convolution share: the units of work and the images under them.
//
// All kernels go over the output in units of 4 rows by 16 columns. A block of four warps takes
// every gridDim-th unit, while copies of the next ones' image rows are under way.
//
// A unit reads 13 image rows of 120 elements (40 pixels). Under the weights of one row lies, for
// output column q, a window of 24 elements, the 21 that count (7 pixels of 3 channels) and three
// whose weights are 0. In bf16 and fp16 it begins at element 6 q - 10 of the image row, one before
// those that count, in fp32 at 6 q - 9. So neighbouring windows lie 6 elements apart, pairs of
// 2-byte elements are whole words: operands of tensor cores are read with plain 4-byte loads, and
// no window is ever copied.
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
// A unit's elements begin that many before its first column's pixel, with whole 16 bytes.
template <typename T>
constexpr int kBefore = sizeof(T) == 2 ? 16 : 12;
template <typename T>
constexpr int kFirstElement = sizeof(T) == 2 ? 6 : 3;  // of the first column's window
// From one image row to the next in shared memory; of 2-byte elements see stem_conv_grad.cu.
template <typename T>
constexpr int kRowElements = sizeof(T) == 2 ? 160 : kImageElements;
// The same in words, of 2-byte elements.
constexpr int kRowWords = 80, kFirstWord = 3;
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

// Four fp32 to tf32 in place.
__device__ inline void RoundQuad(float* at) {
  auto* quad = reinterpret_cast<float4*>(at);
  const float4 v = *quad;
  *quad = make_float4(ToTf32(v.x), ToTf32(v.y), ToTf32(v.z), ToTf32(v.w));
}

// Calls body(row, first element) for the pieces of a unit's image that are this
// thread's. `kChunks`: 16 bytes a piece, else an element.
template <typename T, bool kChunks, typename Body>
__device__ inline void EachPieceOfImage(Body&& body) {
  constexpr int kPiece = kChunks ? kVector<T> : 1, kSlots = kThreads / kPiece;
  constexpr int kRowsAtOnce = kThreads / kSlots;
  const int slot = static_cast<int>(threadIdx.x) % kSlots * kPiece;
  const int row = static_cast<int>(threadIdx.x) / kSlots;
  if (slot >= kImageElements) return;
#pragma unroll
  for (int i = 0; i < kImageRows; i += kRowsAtOnce) {
    if (i + kRowsAtOnce > kImageRows && row + i >= kImageRows) break;
    body(row + i, slot);
  }
}

// The unit's part of the image, zeros outside. `kChunks`: every image row begins at a multiple of
// 16 bytes, so that no chunk of 16 is half inside.
template <typename T, bool kChunks>
__device__ inline void LoadImage(const T* x, const StemShape& s, const Place& unit, T* to) {
  const int width = 3 * s.w, first_element = 6 * kUnitColumns * unit.column - kBefore<T>;
  const int first_row = 2 * kUnitRows * unit.row - 3;
  const T* from = x + (static_cast<int64_t>(unit.image) * s.h + first_row) * width + first_element;
  EachPieceOfImage<T, kChunks>([&](int row, int slot) {
    const int element = first_element + slot, y = first_row + row;
    const bool inside = element >= 0 && element < width && y >= 0 && y < s.h;
    T* piece = to + row * kRowElements<T> + slot;
    const T* source = from + row * width + slot;
    if constexpr (kChunks) {
      CopyAsync(SharedAddress(piece), inside ? source : x, inside);
    } else {
      *piece = inside ? *source : FromFloat<T>(0.0f);
    }
  });
}

// To tf32, in place and before others look: the pieces of LoadImage that are this thread's.
template <bool kChunks>
__device__ inline void RoundImage(float* image) {
  EachPieceOfImage<float, kChunks>([&](int row, int slot) {
    float* piece = image + row * kRowElements<float> + slot;
    if constexpr (kChunks) {
      RoundQuad(piece);
    } else {
      *piece = ToTf32(*piece);
    }
  });
}

#endif

// Calls body(bool_constant<kChunks>).
template <typename T, typename Body>
void DispatchChunks(const void* x, const StemShape& s, Body&& body) {
  if (s.w % kVector<T> == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0) {
    body(std::true_type{});
  } else {
    body(std::false_type{});
  }
}

// Calls body(T{}, bool_constant<kChunks>) with the 2-byte type that `type` stands for.
template <typename Body>
void DispatchImage(const void* x, const StemShape& s, ElementType type, Body&& body) {
  auto of = [&](auto zero) {
    DispatchChunks<decltype(zero)>(x, s, [&](auto chunks) { body(zero, chunks); });
  };
  if (type == ElementType::kBF16) {
    of(__nv_bfloat16{});
  } else {
    of(__half{});
  }
}

}  // namespace
}  // namespace xp::kernels
