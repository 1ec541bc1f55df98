// Scores of all default boxes, the best candidates of each class and image, then sorting and
// suppression as for every detector.
#include "kernels/scored_boxes.cuh"
#include "kernels/softmax_row.cuh"
#include "kernels/ssd.h"

namespace xp::kernels {
namespace {

constexpr int kRows = 4;  // default boxes a block, a warp each

// A candidate's number is default box * classes + class.
template <typename T>
struct DecodeDefault {
  SsdProblem p;
  RpnMaps maps;
  const int32_t* sizes;

  __device__ Box operator()(int image, uint32_t number) const {
    int i = static_cast<int>(number) / (p.columns - 1), level = LevelOf(p.grid, i);
    int64_t row = static_cast<int64_t>(image) * p.grid.count(level) + i - p.grid.first[level];
    const T* d = static_cast<const T*>(maps.box[level]) + row * 4;
    BoxDeltas deltas{ToFloat(d[0]), ToFloat(d[1]), ToFloat(d[2]), ToFloat(d[3])};
    return Clip(Decode(p.default_boxes[i], deltas, p.coder), static_cast<float>(sizes[2 * image]),
                static_cast<float>(sizes[2 * image + 1]));
  }
};

// scores [N, K, B]; NaN where the box is no candidate.
template <typename T>
__global__ void __launch_bounds__(kRows * 32)
    ScoreBoxes(const __grid_constant__ DecodeDefault<T> decode, float* scores) {
  extern __shared__ float all_exps[];
  const SsdProblem& p = decode.p;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, image = blockIdx.y;
  int boxes = p.grid.total(), classes = p.columns - 1;
  int i = static_cast<int>(blockIdx.x) * kRows + warp;
  if (i >= boxes) return;
  float* exps = all_exps + warp * p.columns;
  int level = LevelOf(p.grid, i);
  int64_t row = static_cast<int64_t>(image) * p.grid.count(level) + i - p.grid.first[level];
  RowSoftmax softmax = ExponentialsOfRow(
      static_cast<const T*>(decode.maps.cls[level]) + row * p.columns, p.columns, exps);
  bool sound = IsAtLeast(decode(image, static_cast<uint32_t>(i * classes)), 0);
  for (int k = lane; k < classes; k += 32) {
    float score = exps[k + 1] / softmax.sum;
    bool candidate = sound && score > p.min_score;
    scores[(static_cast<int64_t>(image) * classes + k) * boxes + i] =
        candidate ? score : BitsFloat(0x7fc00000u);
  }
}

// Segment: image * classes + class.
struct ClassSource {
  const float* scores;
  int boxes, classes, candidates;

  __device__ int Count(int) const { return boxes; }
  __device__ int Wanted(int) const { return candidates; }
  __device__ bool Key(int segment, int i, uint32_t* key) const {
    *key = ScoreKey(scores[static_cast<int64_t>(segment) * boxes + i]);
    return *key != 0;
  }
  __device__ uint32_t Number(int segment, int i) const {
    return static_cast<uint32_t>(i * classes + segment % classes);
  }
};

__global__ void GatherClasses(Selection selection, int classes, uint64_t* keys, int32_t* counts,
                              int capacity) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), segment = blockIdx.y;
  if (i >= selection.counts[segment]) return;
  AppendCandidate(keys, counts, capacity, segment / classes,
                  selection.chosen[static_cast<int64_t>(segment) * selection.capacity + i]);
}

struct Work {
  Work(const SsdProblem& p, void* base)
      : scratch(base),
        classes(p.columns - 1),
        scores(scratch.Take<float>(static_cast<int64_t>(p.images) * classes * p.grid.total())),
        selection(scratch, p.images * classes, p.grid.total(), p.candidates),
        candidates(scratch, p.images, classes * p.candidates) {}

  Scratch scratch;
  int classes;
  float* scores;
  Selection selection;
  CandidateScratch candidates;
};

}  // namespace

size_t SsdDetectionsScratch(const SsdProblem& p) { return Work(p, nullptr).scratch.used(); }

void SsdDetections(const SsdProblem& p, const RpnMaps& maps, const int32_t* sizes, Box* boxes,
                   float* scores, int32_t* labels, int32_t* counts, void* scratch,
                   cudaStream_t stream) {
  if (p.images == 0) return;
  Work work(p, scratch);
  int all = p.grid.total();
  const CandidateScratch& c = work.candidates;
  dim3 rows(static_cast<unsigned>((all + kRows - 1) / kRows), static_cast<unsigned>(p.images));
  size_t shared = sizeof(float) * kRows * static_cast<size_t>(p.columns);
  cudaMemsetAsync(c.counts, 0, sizeof(int32_t) * static_cast<size_t>(p.images), stream);
  Dispatch(p.type, [&](auto zero) {
    using T = decltype(zero);
    DecodeDefault<T> decode{p, maps, sizes};
    ScoreBoxes<T><<<rows, kRows * 32, shared, stream>>>(decode, work.scores);
    Select(ClassSource{work.scores, all, work.classes, p.candidates}, work.selection, stream);
    dim3 lists(static_cast<unsigned>((p.candidates + 255) / 256),
               static_cast<unsigned>(p.images * work.classes));
    GatherClasses<<<lists, 256, 0, stream>>>(work.selection, work.classes, c.keys, c.counts,
                                             c.capacity);
    SortAndKeep(c, decode, work.classes, p.nms_iou, p.max_detections,
                {boxes, scores, labels, counts}, stream);
  });
}

}  // namespace xp::kernels
