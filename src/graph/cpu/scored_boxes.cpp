#include "src/graph/cpu/scored_boxes.h"

#include <algorithm>

namespace xp::graph::cpu {

void Softmax(const float* logits, int columns, float* probabilities) {
  float most = logits[0];
  for (int k = 1; k < columns; ++k) most = logits[k] > most ? logits[k] : most;
  float sum = 0;
  for (int k = 0; k < columns; ++k) {
    probabilities[k] = kernels::PortableExp(logits[k] - most);
    sum += probabilities[k];
  }
  for (int k = 0; k < columns; ++k) probabilities[k] /= sum;
}

void WriteDetections(std::vector<ScoredBox> candidates, float threshold, int capacity, int image,
                     const KernelArgs& args) {
  std::sort(candidates.begin(), candidates.end(),
            [](const ScoredBox& a, const ScoredBox& b) { return a.key > b.key; });
  size_t row = static_cast<size_t>(image) * static_cast<size_t>(capacity);
  kernels::Box* boxes = args.Out<kernels::Box>(0) + row;
  float* scores = args.Out<float>(1) + row;
  int32_t* labels = args.Out<int32_t>(2) + row;
  int count = 0;
  // Against those kept so far only: they are few, and the list may stop early.
  for (const ScoredBox& c : candidates) {
    if (count == capacity) break;
    bool stays = true;
    for (int k = 0; k < count && stays; ++k) {
      stays = labels[k] != c.label || !(kernels::Iou(boxes[k], c.box) > threshold);
    }
    if (!stays) continue;
    boxes[count] = c.box;
    scores[count] = c.score;
    labels[count++] = c.label;
  }
  std::fill(boxes + count, boxes + capacity, kernels::Box{});
  std::fill(scores + count, scores + capacity, 0.0f);
  std::fill(labels + count, labels + capacity, 0);
  args.Out<int32_t>(3)[image] = count;
}

}  // namespace xp::graph::cpu
