#include "kernels/roi_targets.h"
#include "kernels/sample.cuh"

namespace xp::kernels {
namespace {

// An image's proposals, then (from the proposals' capacity on) its ground truth.
struct CandidateSource {
  const Box* proposals;
  const int32_t* proposal_counts;
  GroundTruth truth;
  int proposal_capacity;
  bool add_ground_truth;
  int count;

  __device__ bool At(int image, int i, Box* box) const {
    if (i < proposal_capacity) {
      *box = proposals[static_cast<int64_t>(image) * proposal_capacity + i];
      return i < proposal_counts[image];
    }
    int g = i - proposal_capacity;
    *box = truth.boxes[static_cast<int64_t>(image) * truth.capacity + g];
    return add_ground_truth && g < truth.Count(image) && HasArea(*box);
  }
};

CandidateSource MakeSource(const RoiTargetsProblem& p, const RoiTargetsInputs& in) {
  return {
      in.proposals,        in.proposal_counts, {in.gt, in.gt_counts, p.images, p.truth_capacity},
      p.proposal_capacity, p.add_ground_truth, p.proposal_capacity + p.truth_capacity};
}

struct Work {
  Work(const RoiTargetsProblem& p, void* base)
      : scratch(base),
        sample(scratch, p.images, p.proposal_capacity + p.truth_capacity, p.truth_capacity,
               p.samples) {}

  Scratch scratch;
  SampleScratch sample;
};

// Block: an image.
__global__ void WriteTargets(CandidateSource source, const int32_t* gt_labels, CoderParams coder,
                             int samples, int background, const int32_t* matched,
                             const uint64_t* chosen, const int32_t* chosen_counts, Box* rois,
                             int32_t* labels, BoxDeltas* targets, int32_t* counts) {
  int image = blockIdx.x;
  int positives = chosen_counts[2 * image], negatives = chosen_counts[2 * image + 1];
  const uint64_t* from = chosen + static_cast<int64_t>(2 * image) * samples;
  for (int i = threadIdx.x; i < samples; i += blockDim.x) {
    Box box{0, 0, 0, 0};
    int label = -1;
    BoxDeltas target{0, 0, 0, 0};
    if (i < positives) {
      int candidate = static_cast<int>(RankKeyNumber(from[i]));
      source.At(image, candidate, &box);
      int64_t g = static_cast<int64_t>(image) * source.truth.capacity +
                  matched[static_cast<int64_t>(image) * source.count + candidate];
      label = background == 0 ? gt_labels[g] + 1 : gt_labels[g];
      target = Encode(box, source.truth.boxes[g], coder);
    } else if (i < positives + negatives) {
      source.At(image, static_cast<int>(RankKeyNumber(from[samples + i - positives])), &box);
      label = background;
    }
    int64_t at = static_cast<int64_t>(image) * samples + i;
    rois[at] = box;
    labels[at] = label;
    targets[at] = target;
  }
  if (threadIdx.x < 2) counts[2 * image + threadIdx.x] = threadIdx.x == 0 ? positives : negatives;
}

}  // namespace

size_t RoiTargetsScratch(const RoiTargetsProblem& p) { return Work(p, nullptr).scratch.used(); }

void RoiTargets(const RoiTargetsProblem& p, const RoiTargetsInputs& in, Box* rois, int32_t* labels,
                BoxDeltas* targets, int32_t* counts, void* scratch, cudaStream_t stream) {
  Work work(p, scratch);
  CandidateSource source = MakeSource(p, in);
  MatchAndSample(source, source.truth, p.matcher, in.step_key, RandomPurpose::kRoiSample, p.samples,
                 p.max_positives, work.sample, stream);
  const Selection& selection = work.sample.selection;
  WriteTargets<<<static_cast<unsigned>(p.images), 256, 0, stream>>>(
      source, in.gt_labels, p.coder, p.samples, p.background, work.sample.matched, selection.chosen,
      selection.counts, rois, labels, targets, counts);
}

}  // namespace xp::kernels
