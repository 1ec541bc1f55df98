#include "kernels/detections.h"
#include "kernels/scored_boxes.cuh"
#include "kernels/softmax_row.cuh"

namespace xp::kernels {
namespace {

constexpr int kRows = 4;  // proposals a block, a warp each

// A candidate's number is proposal * classes + class.
template <typename T>
struct DecodeRoi {
  DetectionsProblem p;
  DetectionsInputs in;

  __device__ Box operator()(int image, uint32_t number) const {
    int roi = static_cast<int>(number) / p.classes, label = static_cast<int>(number) % p.classes;
    int64_t row = static_cast<int64_t>(image) * p.rois + roi;
    int column = p.background == 0 ? label + 1 : label;
    const T* d = static_cast<const T*>(in.deltas) +
                 (p.class_agnostic ? row * 4 : (row * (p.classes + 1) + column) * 4);
    BoxDeltas deltas{ToFloat(d[0]), ToFloat(d[1]), ToFloat(d[2]), ToFloat(d[3])};
    return Clip(Decode(in.rois[row], deltas, p.coder), static_cast<float>(in.sizes[2 * image]),
                static_cast<float>(in.sizes[2 * image + 1]));
  }
};

template <typename T>
__global__ void __launch_bounds__(kRows * 32)
    ScoreRois(const __grid_constant__ DecodeRoi<T> decode, uint64_t* keys, int32_t* counts,
              int capacity) {
  extern __shared__ float all_exps[];
  const DetectionsProblem& p = decode.p;
  int columns = p.classes + 1, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* exps = all_exps + warp * columns;
  int roi = static_cast<int>(blockIdx.x) * kRows + warp, image = blockIdx.y;
  if (roi >= min(decode.in.counts[image], p.rois)) return;
  int64_t row = static_cast<int64_t>(image) * p.rois + roi;
  RowSoftmax softmax =
      ExponentialsOfRow(static_cast<const T*>(decode.in.logits) + row * columns, columns, exps);
  for (int label = lane; label < p.classes; label += 32) {
    float score = exps[p.background == 0 ? label + 1 : label] / softmax.sum;
    if (!(score > p.min_score)) continue;
    uint32_t number = static_cast<uint32_t>(roi * p.classes + label);
    if (!IsAtLeast(decode(image, number), p.min_size)) continue;
    AppendCandidate(keys, counts, capacity, image, MakeRankKey(ScoreKey(score), number));
  }
}

struct Work {
  Work(const DetectionsProblem& p, void* base)
      : scratch(base), candidates(scratch, p.images, p.rois * p.classes) {}

  Scratch scratch;
  CandidateScratch candidates;
};

}  // namespace

size_t DetectionsScratch(const DetectionsProblem& p) { return Work(p, nullptr).scratch.used(); }

void Detections(const DetectionsProblem& p, const DetectionsInputs& in, Box* boxes, float* scores,
                int32_t* labels, int32_t* out_counts, void* scratch, cudaStream_t stream) {
  Work work(p, scratch);
  const CandidateScratch& c = work.candidates;
  if (p.images == 0) return;
  cudaMemsetAsync(c.counts, 0, sizeof(int32_t) * static_cast<size_t>(p.images), stream);
  Dispatch(p.type, [&](auto zero) {
    using T = decltype(zero);
    DecodeRoi<T> decode{p, in};
    dim3 grid(static_cast<unsigned>((p.rois + kRows - 1) / kRows), static_cast<unsigned>(p.images));
    size_t shared = sizeof(float) * kRows * static_cast<size_t>(p.classes + 1);
    if (p.rois > 0) {
      ScoreRois<T><<<grid, kRows * 32, shared, stream>>>(decode, c.keys, c.counts, c.capacity);
    }
    SortAndKeep(c, decode, p.classes, p.nms_iou, p.max_detections,
                {boxes, scores, labels, out_counts}, stream);
  });
}

}  // namespace xp::kernels
