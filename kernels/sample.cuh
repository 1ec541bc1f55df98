// Which of the matched boxes a step trains on: of an image's positives at most `max_positives`, of
// its negatives as many as there is room for; those with the smallest draws.
#pragma once

#include "kernels/match.cuh"
#include "kernels/select.cuh"

namespace xp::kernels {

// Segment 2n: image n's positives; 2n + 1: its negatives.
struct SampleSource {
  const int32_t* matched;
  const uint32_t* keys;
  const int32_t* positives;
  int count;  // boxes an image
  int samples, max_positives;

  __device__ int Count(int) const { return count; }
  __device__ int Wanted(int segment) const {
    int chosen = min(positives[segment / 2], max_positives);
    return segment % 2 == 0 ? chosen : samples - chosen;
  }
  __device__ bool Key(int segment, int i, uint32_t* key) const {
    int64_t at = static_cast<int64_t>(segment / 2) * count + i;
    int m = matched[at];
    if (segment % 2 == 0 ? m < 0 : m != kBackground) return false;
    *key = ~keys[at];
    return true;
  }
  __device__ uint32_t Number(int, int i) const { return static_cast<uint32_t>(i); }
};

// What matching and sampling need, for `boxes` boxes an image.
struct SampleScratch {
  SampleScratch(Scratch& scratch, int images, int boxes, int truth, int samples)
      : best(scratch.Take<unsigned long long>(static_cast<int64_t>(images) * truth)),
        matched(scratch.Take<int32_t>(static_cast<int64_t>(images) * boxes)),
        keys(scratch.Take<uint32_t>(static_cast<int64_t>(images) * boxes)),
        positives(scratch.Take<int32_t>(images)),
        selection(scratch, 2 * images, boxes, samples) {}

  unsigned long long* best;
  int32_t* matched;
  uint32_t* keys;
  int32_t* positives;
  Selection selection;  // the numbers of the chosen boxes, ascending
};

template <typename BoxSource>
void MatchAndSample(const BoxSource& source, const GroundTruth& truth, const MatchParams& params,
                    const uint32_t* step_key, RandomPurpose purpose, int samples, int max_positives,
                    const SampleScratch& s, cudaStream_t stream) {
  if (params.low_quality) FindBestBoxes(source, truth, s.best, stream);
  MatchBoxes(source, truth, params, s.best, step_key, purpose, s.matched, s.keys, s.positives,
             stream);
  Select(SampleSource{s.matched, s.keys, s.positives, source.count, samples, max_positives},
         s.selection, stream);
}

}  // namespace xp::kernels
