// The end of every detector: scored boxes of several classes to a list of detections.
#pragma once

#include <span>
#include <vector>

#include "exp/graph/backend.h"
#include "src/graph/cpu/box_matching.h"

namespace xp::graph::cpu {

struct ScoredBox {
  uint64_t key;  // RankKey(score, number): the order of detections
  kernels::Box box;
  int32_t label;  // 0-based class
  float score;
};

// Probabilities of `columns` logits, summed in order: what is above a threshold must not depend on
// the backend.
void Softmax(const float* logits, int columns, float* probabilities);

// Suppresses class by class and writes an image's best `capacity` to its rows of boxes, scores,
// labels and count (outputs 0 .. 3 of the op). Rows beyond the count are 0.
void WriteDetections(std::vector<ScoredBox> candidates, float threshold, int capacity, int image,
                     const KernelArgs& args);

}  // namespace xp::graph::cpu
