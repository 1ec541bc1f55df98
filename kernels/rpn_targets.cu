#include "kernels/rpn_targets.h"
#include "kernels/sample.cuh"

namespace xp::kernels {
namespace {

struct AnchorSource {
  AnchorGrid grid;
  int count;

  __device__ bool At(int, int i, Box* box) const {
    int level = LevelOf(grid, i);
    *box = AnchorAt(grid, level, i - grid.first[level]);
    return true;
  }
};

struct Work {
  Work(const RpnTargetsProblem& p, void* base)
      : scratch(base), sample(scratch, p.images, p.grid.total(), p.truth_capacity, p.samples) {}

  Scratch scratch;
  SampleScratch sample;
};

// Block: an image.
__global__ void WriteTargets(const __grid_constant__ AnchorSource source, GroundTruth truth,
                             CoderParams coder, int samples, const int32_t* matched,
                             const uint64_t* chosen, const int32_t* chosen_counts, int32_t* sampled,
                             BoxDeltas* targets, int32_t* counts) {
  int image = blockIdx.x;
  int positives = chosen_counts[2 * image], negatives = chosen_counts[2 * image + 1];
  const uint64_t* from = chosen + static_cast<int64_t>(2 * image) * samples;
  for (int i = threadIdx.x; i < samples; i += blockDim.x) {
    int anchor = -1;
    BoxDeltas target{0, 0, 0, 0};
    if (i < positives) {
      anchor = static_cast<int>(RankKeyNumber(from[i]));
      Box box;
      source.At(image, anchor, &box);
      int g = matched[static_cast<int64_t>(image) * source.count + anchor];
      target = Encode(box, truth.boxes[static_cast<int64_t>(image) * truth.capacity + g], coder);
    } else if (i < positives + negatives) {
      anchor = static_cast<int>(RankKeyNumber(from[samples + i - positives]));
    }
    int64_t at = static_cast<int64_t>(image) * samples + i;
    sampled[at] = anchor;
    targets[at] = target;
  }
  if (threadIdx.x < 2) counts[2 * image + threadIdx.x] = threadIdx.x == 0 ? positives : negatives;
}

}  // namespace

size_t RpnTargetsScratch(const RpnTargetsProblem& p) { return Work(p, nullptr).scratch.used(); }

void RpnTargets(const RpnTargetsProblem& p, const Box* gt, const int32_t* gt_counts,
                const uint32_t* step_key, int32_t* sampled, BoxDeltas* targets, int32_t* counts,
                void* scratch, cudaStream_t stream) {
  Work work(p, scratch);
  AnchorSource source{p.grid, p.grid.total()};
  GroundTruth truth{gt, gt_counts, p.images, p.truth_capacity};
  MatchAndSample(source, truth, p.matcher, step_key, RandomPurpose::kRpnSample, p.samples,
                 p.max_positives, work.sample, stream);
  const Selection& selection = work.sample.selection;
  WriteTargets<<<static_cast<unsigned>(p.images), 256, 0, stream>>>(
      source, truth, p.coder, p.samples, work.sample.matched, selection.chosen, selection.counts,
      sampled, targets, counts);
}

}  // namespace xp::kernels
