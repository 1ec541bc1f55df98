// The data gradient of stride 2. A row of dy adds to three rows of dx, and a column to three
// columns: what lies between two rows and two columns of dy gets products of all four.
#include "kernels/grouped_conv_kernels.h"
#include "kernels/grouped_conv_strip.cuh"

namespace xp::kernels::grouped {
namespace {

constexpr int kSlots = 6;
constexpr int kRowBytes = (kStripPixels + 2) * kPixelBytes;
constexpr int kStageRow = 2 * kStripPixels * kPixelBytes;  // of dx
constexpr int kStageBytes = 2 * kStageRow;
constexpr int kSharedBytes = kSlots * kRowBytes + 2 * kStageBytes;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

// Even and odd columns of a row of dx.
struct RowSums {
  Sums even, odd;
};

template <typename T, int kInner>
__device__ inline void MultiplyRow(RowSums& sums, const Pixels<kInner, 2>& a,
                                   const WeightFragments<kInner>& weights, int ky) {
  constexpr int kSecond = kInner == 1 ? 1 : 0;  // the octet of pixels for the second of outputs
  MultiplyTaps<T, 1, 1, 1, 0>(sums.even[0], a, weights[0][ky]);
  MultiplyTaps<T, 1, 1, 1, kSecond>(sums.even[1], a, weights[1][ky]);
  MultiplyTaps<T, 2, 0, 2, 0>(sums.odd[0], a, weights[0][ky]);
  MultiplyTaps<T, 2, 0, 2, kSecond>(sums.odd[1], a, weights[1][ky]);
}

__device__ inline void ClearRow(RowSums& sums) {
  Clear(sums.even);
  Clear(sums.odd);
}

template <typename T>
__device__ inline void StageRow(unsigned char* row, int first_pixel, int octet, int lane,
                                const RowSums& sums) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    StagePixels<T, 2>(row, 2 * first_pixel, octet + j, lane, sums.even[j]);
    StagePixels<T, 2>(row, 2 * first_pixel + 1, octet + j, lane, sums.odd[j]);
  }
}

// Step a writes rows 2 a - 1 and 2 a of dx.
template <typename T, int kInner>
__global__ void __launch_bounds__(kThreads, kInner == 4 ? 1 : 2)
    StridedDataGradKernel(const __grid_constant__ GroupedConvPlan plan, const void* dy,
                          const void* w, void* dx) {
  unsigned char* shared = DynamicShared();
  const unsigned ring = SharedAddress(shared);
  unsigned char* stage = shared + kSlots * kRowBytes;
  const GroupedConvShape& s = plan.shape;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int first_pixel = warp % 2 * 16, octet = warp / 2 * 2;
  const int chunk = static_cast<int>(blockIdx.x) % plan.chunks;
  const int part = static_cast<int>(blockIdx.x) / plan.chunks;
  const int pixel = thread / kOctets, pixel_octet = thread % kOctets;  // that the thread copies
  const int channel = chunk * kChunk + pixel_octet * 8;

  Steps step = StepsOf(plan, part), ahead = step;
  const T* from = static_cast<const T*>(dy) + channel;
  Column<const T> source;
  auto copy_ahead = [&](int slot) {
    if (!ahead.done()) {
      if (ahead.fresh()) {
        source.Find(from, ahead.strip() * StripColumns(2) + pixel, plan.pitch, s.n, s.p(), s.q(),
                    s.c);
      }
      CopyPixel(ring + static_cast<unsigned>(slot * kRowBytes) + PixelOffset<0>(pixel, pixel_octet),
                source, ahead.unit(), s.p(), s.q() * s.c);
      ahead.Advance();
    }
    CommitCopies();
  };
#pragma unroll
  for (int i = 0; i < kSlots - 1; ++i) copy_ahead(i);

  WeightFragments<kInner> weights;
  LoadWeights<T, kInner>(static_cast<const T*>(w), s.group, true, chunk * kOctets + octet, lane,
                         weights);
  const PixelOffsets<kInner, 2, 1> offsets(first_pixel, octet, lane);

  Column<T> columns[2];
  bool pending = false;
  int pending_row = 0;  // the first of two
  auto write_pending = [&](int turn) {
    if (!pending) return;
    pending = false;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (columns[i].top == nullptr) continue;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = pending_row + r;
        if (row < 0 || row >= s.h) continue;
        const unsigned at = PixelOffset<1>(pixel + i * kCopyColumns, pixel_octet);
        *reinterpret_cast<uint4*>(columns[i].top + static_cast<int64_t>(row) * (s.w * s.c)) =
            *reinterpret_cast<const uint4*>(stage + turn * kStageBytes + r * kStageRow + at);
      }
    }
  };

  RowSums between;  // of the row that the next row of dy finishes
  ClearRow(between);
  int slot = 0, turn = 0;
  for (; !step.done(); step.Advance()) {
    WaitForCopies<kSlots - 2>();
    __syncthreads();
    write_pending(turn ^ 1);
    copy_ahead(slot == 0 ? kSlots - 1 : slot - 1);
    if (step.fresh()) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = pixel + i * kCopyColumns;
        columns[i].Find(static_cast<T*>(dx) + channel, step.strip() * StripColumns(2) * 2 + at,
                        plan.pitch * 2, s.n, s.h, s.w, s.c);
        if (at >= StripColumns(2) * 2) columns[i].top = nullptr;
      }
    }
    Pixels<kInner, 2> a;
    offsets.template Load<false>(ring + static_cast<unsigned>(slot * kRowBytes), a);
    if (step.unit() >= step.first()) {
      unsigned char* rows = stage + turn * kStageBytes;
      MultiplyRow<T, kInner>(between, a, weights, 2);
      StageRow<T>(rows, first_pixel, octet, lane, between);
      RowSums on;
      ClearRow(on);
      MultiplyRow<T, kInner>(on, a, weights, 1);
      StageRow<T>(rows + kStageRow, first_pixel, octet, lane, on);
      pending = true;
      pending_row = 2 * step.unit() - 1;
    }
    ClearRow(between);
    MultiplyRow<T, kInner>(between, a, weights, 0);
    slot = slot + 1 == kSlots ? 0 : slot + 1;
    turn ^= 1;
  }
  __syncthreads();
  write_pending(turn ^ 1);
}

#else

template <typename T, int kInner>
__global__ void StridedDataGradKernel(const __grid_constant__ GroupedConvPlan, const void*,
                                      const void*, void*) {}

#endif

}  // namespace

Choice StridedDataGradChoice(const GroupedConvShape& shape, ElementType type) {
  Choice choice;
  DispatchGroup(shape, type, [&](auto zero, auto inner) {
    choice = {StridedDataGradKernel<decltype(zero), decltype(inner)::value>, kSharedBytes};
  });
  return choice;
}

}  // namespace xp::kernels::grouped
