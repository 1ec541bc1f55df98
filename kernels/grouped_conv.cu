// The forward kernel, which is the data gradient's of stride 1 too, and the choice among kernels.
#include "kernels/grouped_conv_kernels.h"
#include "kernels/grouped_conv_strip.cuh"

namespace xp::kernels::grouped {
namespace {

template <typename T, int kStride>
struct Ring {
  using Rows = InputRows<T, kStride>;
  static constexpr int kSlots = 4;
  static constexpr int kRowsOut = 2 / kStride;  // of y, that a step finishes
  static constexpr int kStageRow = kStripPixels * kPixelBytes;
  static constexpr int kStageBytes = kRowsOut * kStageRow;
  static constexpr int kSharedBytes = kSlots * Rows::kBytes + 2 * kStageBytes;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

// Adds to an output row what it gets from an input row.
template <typename T, int kInner>
__device__ inline void MultiplyRow(Sums& sums, const Pixels<kInner, 3>& a,
                                   const WeightFragments<kInner>& weights, int ky) {
  MultiplyTaps<T, 3, 0, 1, 0>(sums[0], a, weights[0][ky]);
  constexpr int kSecond = kInner == 1 ? 1 : 0;  // the octet of pixels for the second of outputs
  MultiplyTaps<T, 3, 0, 1, kSecond>(sums[1], a, weights[1][ky]);
}

// x -> y. A warp has 16 pixels of two octets of outputs. Input rows add to the output rows that
// the step finishes and to those that the next one finishes, whose sums it keeps.
template <typename T, int kInner, int kStride>
__global__ void __launch_bounds__(kThreads, kInner == 4 ? 1 : 2)
    ForwardKernel(const __grid_constant__ GroupedConvPlan plan, const void* x, const void* w,
                  void* y) {
  using R = Ring<T, kStride>;
  unsigned char* shared = DynamicShared();
  const unsigned ring = SharedAddress(shared);
  unsigned char* stage = shared + R::kSlots * R::Rows::kBytes;
  const GroupedConvShape& s = plan.shape;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int first_pixel = warp % 2 * 16, octet = warp / 2 * 2;
  const int chunk = static_cast<int>(blockIdx.x) % plan.chunks;
  const int part = static_cast<int>(blockIdx.x) / plan.chunks;
  const int pixel = thread / kOctets, pixel_octet = thread % kOctets;  // that the thread copies
  const int channel = chunk * kChunk + pixel_octet * 8;

  Steps step = StepsOf(plan, part), ahead = step;
  typename R::Rows input(static_cast<const T*>(x) + channel, plan);
  auto copy_ahead = [&](int slot) {
    if (!ahead.done()) {
      input.Copy(ahead, ring + static_cast<unsigned>(slot * R::Rows::kBytes));
      ahead.Advance();
    }
    CommitCopies();
  };
#pragma unroll
  for (int i = 0; i < R::kSlots - 1; ++i) copy_ahead(i);

  WeightFragments<kInner> weights;
  LoadWeights<T, kInner>(static_cast<const T*>(w), s.group, plan.kind == GroupedConvKind::kDataGrad,
                         chunk * kOctets + octet, lane, weights);
  const PixelOffsets<kInner, 3, kStride> offsets(first_pixel, octet, lane);

  // The output column that this thread writes, an octet that waits for it in shared memory.
  const int p = s.p(), row_elements = s.q() * s.c;
  Column<T> column;
  int pending_row = p;
  auto write_pending = [&](int turn) {
#pragma unroll
    for (int r = 0; r < R::kRowsOut; ++r) {
      if (pending_row + r >= p || column.top == nullptr) continue;
      *reinterpret_cast<uint4*>(column.top + static_cast<int64_t>(pending_row + r) * row_elements) =
          *reinterpret_cast<const uint4*>(stage + turn * R::kStageBytes + r * R::kStageRow +
                                          PixelOffset<0>(pixel, pixel_octet));
    }
  };

  Sums sums[R::kRowsOut];
#pragma unroll
  for (int r = 0; r < R::kRowsOut; ++r) Clear(sums[r]);
  int slot = 0, turn = 0;
  for (; !step.done(); step.Advance()) {
    WaitForCopies<R::kSlots - 2>();
    __syncthreads();
    write_pending(turn ^ 1);
    copy_ahead(slot == 0 ? R::kSlots - 1 : slot - 1);
    if (step.fresh()) {
      column.Find(static_cast<T*>(y) + channel, step.strip() * StripColumns(kStride) + pixel,
                  plan.pitch, s.n, p, s.q(), s.c);
      if (pixel >= StripColumns(kStride)) column.top = nullptr;
    }
    pending_row = step.fresh() ? p : step.unit() * R::kRowsOut;

    const unsigned rows = ring + static_cast<unsigned>(slot * R::Rows::kBytes);
    Pixels<kInner, 3> a, b;
    offsets.template Load<false>(rows, a);
    offsets.template Load<false>(rows + R::Rows::kRowBytes, b);
    Sums next[R::kRowsOut];
#pragma unroll
    for (int r = 0; r < R::kRowsOut; ++r) Clear(next[r]);
    if constexpr (kStride == 1) {
      MultiplyRow<T, kInner>(sums[0], a, weights, 2);
      MultiplyRow<T, kInner>(sums[1], a, weights, 1);
      MultiplyRow<T, kInner>(next[0], a, weights, 0);
      MultiplyRow<T, kInner>(sums[1], b, weights, 2);
      MultiplyRow<T, kInner>(next[0], b, weights, 1);
      MultiplyRow<T, kInner>(next[1], b, weights, 0);
    } else {
      MultiplyRow<T, kInner>(sums[0], a, weights, 1);
      MultiplyRow<T, kInner>(next[0], b, weights, 0);
      MultiplyRow<T, kInner>(sums[0], b, weights, 2);
    }
#pragma unroll
    for (int r = 0; r < R::kRowsOut; ++r) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        StagePixels<T, 1>(stage + turn * R::kStageBytes + r * R::kStageRow, first_pixel, octet + j,
                          lane, sums[r][j]);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[r][j][i] = next[r][j][i];
      }
    }
    slot = slot + 1 == R::kSlots ? 0 : slot + 1;
    turn ^= 1;
  }
  __syncthreads();
  write_pending(turn ^ 1);
}

#else

template <typename T, int kInner, int kStride>
__global__ void ForwardKernel(const __grid_constant__ GroupedConvPlan, const void*, const void*,
                              void*) {}

#endif

}  // namespace

Choice ForwardChoice(const GroupedConvShape& shape, ElementType type) {
  Choice choice;
  DispatchGroup(shape, type, [&](auto zero, auto inner) {
    using T = decltype(zero);
    if (shape.stride == 1) {
      choice = {ForwardKernel<T, decltype(inner)::value, 1>, Ring<T, 1>::kSharedBytes};
    } else {
      choice = {ForwardKernel<T, decltype(inner)::value, 2>, Ring<T, 2>::kSharedBytes};
    }
  });
  return choice;
}

}  // namespace xp::kernels::grouped

namespace xp::kernels {
namespace {

grouped::Choice ChoiceOf(const GroupedConvPlan& plan) {
  switch (plan.kind) {
    case GroupedConvKind::kForward:
      break;
    case GroupedConvKind::kDataGrad:
      if (plan.shape.stride == 2) return grouped::StridedDataGradChoice(plan.shape, plan.type);
      break;
    case GroupedConvKind::kWeightGrad:
      return grouped::WeightGradChoice(plan.shape, plan.type);
  }
  return grouped::ForwardChoice(plan.shape, plan.type);
}

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

}  // namespace

bool GroupedConvFits(const GroupedConvShape& s, ElementType type) {
  constexpr double kMost = 1 << 30;  // columns of x side by side
  return type != ElementType::kF32 &&
         (s.group == 4 || s.group == 8 || s.group == 16 || s.group == 32) &&
         s.c % grouped::kChunk == 0 && (s.stride == 1 || s.stride == 2) && s.n > 0 && s.h > 0 &&
         s.w > 0 && static_cast<double>(s.n) * (s.w + 3) * (s.h + 1) < kMost && s.c < (1 << 16) &&
         static_cast<double>(s.w) * s.c < kMost;
}

GroupedConvPlan PlanGroupedConv(GroupedConvKind kind, const GroupedConvShape& shape,
                                ElementType type, int multiprocessors) {
  GroupedConvPlan plan{.kind = kind, .shape = shape, .type = type};
  // A column of zeros to the right of an image, which is the next one's left too.
  plan.pitch = shape.q() + 1;
  plan.strips = CeilDiv(shape.n * plan.pitch, grouped::StripColumns(shape.stride));
  // Two rows of x. Those between rows of y are one more than these.
  const bool between = kind == GroupedConvKind::kDataGrad && shape.stride == 2;
  plan.units = CeilDiv(shape.p() * shape.stride, 2) + (between ? 1 : 0);
  plan.chunks = shape.c / grouped::kChunk;
  const grouped::Choice choice = ChoiceOf(plan);
  int blocks = 0;  // that a multiprocessor holds
  if (choice.kernel == nullptr ||
      cudaFuncSetAttribute(choice.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           choice.shared_bytes) != cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, choice.kernel, grouped::kThreads,
                                                    choice.shared_bytes) != cudaSuccess) {
    cudaGetLastError();
    return plan;
  }
  if (blocks == 0) return plan;
  // A few units at least: each share begins with one that only its neighbour writes.
  const int most = CeilDiv(plan.strips * plan.units, 4);
  const int wanted = blocks * multiprocessors / plan.chunks;
  plan.parts = wanted < 1 ? 1 : wanted < most ? wanted : most;
  return plan;
}

size_t GroupedConvScratch(const GroupedConvPlan& plan) {
  return plan.kind == GroupedConvKind::kWeightGrad ? grouped::PartialBytes(plan) : 0;
}

void GroupedConv(const GroupedConvPlan& plan, void* x, void* w, void* y, void* scratch,
                 cudaStream_t stream) {
  const grouped::Choice choice = ChoiceOf(plan);
  const auto grid = static_cast<unsigned>(plan.parts * plan.chunks);
  const void* first = x;
  const void* second = w;
  void* out = y;
  if (plan.kind == GroupedConvKind::kDataGrad) {
    first = y;
    out = x;
  } else if (plan.kind == GroupedConvKind::kWeightGrad) {
    second = y;
    out = scratch;
  }
  choice.kernel<<<grid, grouped::kThreads, static_cast<size_t>(choice.shared_bytes), stream>>>(
      plan, first, second, out);
  if (plan.kind == GroupedConvKind::kWeightGrad) grouped::AddPartials(plan, scratch, w, stream);
}

}  // namespace xp::kernels
