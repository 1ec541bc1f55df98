// What the trainer knows of a model: how to build its graphs and what their inputs and outputs are
// called.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exp/graph/graph.h"

namespace xp::config {
class Reader;
}

namespace xp::models {

// A batch's fixed shape. max_boxes: capacity for ground truth (detectors).
struct BatchShape {
  int n = 0, height = 0, width = 0, max_boxes = 0;
  bool operator==(const BatchShape&) const = default;
};

// A loss term: element `index` of the f32 output tensor named `output`.
struct LossTerm {
  std::string name;  // as torchvision reports it
  std::string output;
  int index = 0;
};

enum class Task { kDetection, kClassification };

// Inputs of a training graph, by name:
//   "images" u8 [N,H,W,3], "sizes" i32 [N,2] (h, w of each image without its padding)
//   "step_key" u32 [4]: seed low, seed high, step, 0
//   detection: "gt_boxes" f32 [N,G,4] x1 y1 x2 y2, "gt_labels" i32 [N,G] 0-based, "gt_counts" i32
//   [N] classification: "labels" i32 [N]
// Outputs of an evaluation graph:
//   detection: "boxes" f32 [N,D,4], "scores" f32 [N,D], "labels" i32 [N,D], "counts" i32 [N]
//   classification: "logits" [N,K] in f32
class Model {
 public:
  virtual ~Model() = default;
  virtual Task task() const = 0;
  virtual int num_classes() const = 0;
  // Forward and losses, with gradient seeds; AppendBackward and the update are the trainer's.
  virtual void BuildTraining(graph::Graph& g, const BatchShape& shape) const = 0;
  virtual void BuildEvaluation(graph::Graph& g, const BatchShape& shape) const = 0;
  virtual std::vector<LossTerm> losses() const = 0;
};

// From the config's `model` dict. UsageError for what it can't be.
std::unique_ptr<Model> CreateModel(const config::Reader& model);

}  // namespace xp::models
