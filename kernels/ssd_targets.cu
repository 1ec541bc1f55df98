#include "kernels/match.cuh"
#include "kernels/scratch.h"
#include "kernels/ssd.h"

namespace xp::kernels {
namespace {

struct DefaultBoxes {
  const Box* boxes;
  int count;

  __device__ bool At(int, int i, Box* box) const {
    *box = boxes[i];
    return true;
  }
};

struct Work {
  Work(const SsdProblem& p, void* base)
      : scratch(base),
        best(scratch.Take<unsigned long long>(static_cast<int64_t>(p.images) * p.truth_capacity)) {}

  Scratch scratch;
  unsigned long long* best;
};

// Block: an image. Each ground truth takes the box that it overlaps most; the later one wins, so
// one thread does it in order. Then what is ignored becomes background, and the positives are
// counted.
__global__ void TakeBest(GroundTruth truth, MatchParams params, const unsigned long long* best,
                         int boxes, int32_t* matched, int32_t* counts) {
  __shared__ int total;
  int image = blockIdx.x;
  int32_t* own = matched + static_cast<int64_t>(image) * boxes;
  if (threadIdx.x == 0) {
    total = 0;
    for (int g = 0; params.low_quality && g < truth.Count(image); ++g) {
      unsigned long long b = best[static_cast<int64_t>(image) * truth.capacity + g];
      if (b == 0 || BitsFloat(static_cast<uint32_t>(b >> 32)) < params.low_quality_min) continue;
      own[0xffffffffu - static_cast<uint32_t>(b)] = g;
    }
  }
  __syncthreads();
  int found = 0;
  for (int i = threadIdx.x; i < boxes; i += blockDim.x) {
    int m = own[i];
    if (m < 0) own[i] = kBackground;
    found += m >= 0;
  }
  atomicAdd(&total, found);
  __syncthreads();
  if (threadIdx.x == 0) counts[image] = total;
}

}  // namespace

size_t SsdTargetsScratch(const SsdProblem& p) { return Work(p, nullptr).scratch.used(); }

void SsdTargets(const SsdProblem& p, const Box* gt, const int32_t* gt_counts, int32_t* matched,
                int32_t* counts, void* scratch, cudaStream_t stream) {
  if (p.images == 0) return;
  Work work(p, scratch);
  DefaultBoxes source{p.default_boxes, p.grid.total()};
  GroundTruth truth{gt, gt_counts, p.images, p.truth_capacity};
  if (p.matcher.low_quality) FindBestBoxes(source, truth, work.best, stream);
  MatchParams thresholds = p.matcher;
  thresholds.low_quality = false;
  MatchBoxes(source, truth, thresholds, work.best, nullptr, RandomPurpose::kTest, matched, nullptr,
             nullptr, stream);
  TakeBest<<<static_cast<unsigned>(p.images), 256, 0, stream>>>(truth, p.matcher, work.best,
                                                                source.count, matched, counts);
}

}  // namespace xp::kernels
