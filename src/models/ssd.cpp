#include "exp/models/ssd.h"

#include <algorithm>
#include <cmath>

#include "exp/graph/builder.h"

namespace xp::models {
namespace {

using graph::DType;
using graph::Graph;
using graph::Init;
using graph::InitKind;
using graph::kNoTensor;
using graph::OpType;
using graph::TensorId;

constexpr double kScales[7] = {0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05};
constexpr double kSteps[6] = {8, 16, 32, 64, 100, 300};
// Aspect ratios beside 1, a level.
const std::vector<std::vector<double>> kRatios = {{2}, {2, 3}, {2, 3}, {2, 3}, {2}, {2}};

int BoxesPerCell(size_t level) { return 2 + 2 * static_cast<int>(kRatios[level].size()); }

// Widths and heights of a level's boxes, as shares of the image.
std::vector<std::pair<double, double>> Sizes(size_t level) {
  double s = kScales[level], next = std::sqrt(kScales[level] * kScales[level + 1]);
  std::vector<std::pair<double, double>> sizes{{s, s}, {next, next}};
  for (double ratio : kRatios[level]) {
    double w = s * std::sqrt(ratio), h = s / std::sqrt(ratio);
    sizes.emplace_back(w, h);
    sizes.emplace_back(h, w);
  }
  for (auto& [w, h] : sizes) {
    w = std::clamp(w, 0.0, 1.0);
    h = std::clamp(h, 0.0, 1.0);
  }
  return sizes;
}

class Ssd300 : public Model {
 public:
  explicit Ssd300(const SsdOptions& options) : o_(options) { o_.head.num_classes = o_.num_classes; }

  Task task() const override { return Task::kDetection; }
  int num_classes() const override { return o_.num_classes; }
  std::vector<LossTerm> losses() const override {
    return {{"bbox_regression", "ssd_losses", 1}, {"classification", "ssd_losses", 0}};
  }

  void BuildTraining(Graph& g, const BatchShape& shape) const override {
    Heads heads = BuildHeads(g, shape);
    int64_t n = shape.n, boxes = shape.max_boxes;
    TensorId gt_boxes = g.AddInput("gt_boxes", {n, boxes, 4}, DType::kF32);
    TensorId gt_labels = g.AddInput("gt_labels", {n, boxes}, DType::kI32);
    TensorId gt_counts = g.AddInput("gt_counts", {n}, DType::kI32);
    g.AddInput("step_key", {4}, DType::kU32);
    TensorId loss_scale = kNoTensor;
    if (g.compute() == DType::kF16) loss_scale = g.AddState({"loss_scale", {1}, 65536});
    int64_t defaults = static_cast<int64_t>(heads.attrs.boxes.size() / 4);
    TensorId matched = g.AddTemp("ssd.matched", {n, defaults}, DType::kI32);
    TensorId counts = g.AddTemp("ssd.counts", {n}, DType::kI32);
    g.AddOp(OpType::kSsdTargets, {gt_boxes, gt_labels, gt_counts}, {matched, counts}, heads.attrs,
            "ssd.targets");
    std::vector<TensorId> inputs = heads.outputs,
                          outputs{g.AddOutput("ssd_losses", {2}, DType::kF32)};
    for (TensorId id : heads.outputs) {
      TensorId grad = g.AddTemp("d " + g.tensor(id).name, g.tensor(id).shape);
      g.SeedGradient(id, grad);
      outputs.push_back(grad);
    }
    inputs.insert(inputs.end(), {matched, counts, gt_boxes, gt_labels, loss_scale});
    g.AddOp(OpType::kSsdLoss, inputs, outputs, heads.attrs, "ssd.loss");
  }

  void BuildEvaluation(Graph& g, const BatchShape& shape) const override {
    Heads heads = BuildHeads(g, shape);
    int64_t n = shape.n, d = heads.attrs.max_detections;
    std::vector<TensorId> inputs = heads.outputs;
    inputs.push_back(heads.sizes);
    g.AddOp(
        OpType::kSsdDetections, inputs,
        {g.AddOutput("boxes", {n, d, 4}, DType::kF32), g.AddOutput("scores", {n, d}, DType::kF32),
         g.AddOutput("labels", {n, d}, DType::kI32), g.AddOutput("counts", {n}, DType::kI32)},
        heads.attrs, "detections");
  }

 private:
  struct Heads {
    TensorId sizes = kNoTensor;
    std::vector<TensorId> outputs;  // classes of each level, then boxes of each level
    graph::SsdAttrs attrs;
  };

  // A number of channels of the published network, in this one.
  int Width(int channels) const { return channels * o_.base_channels / 64; }

  // A convolution with bias and ReLU. VGG's own layers start from kaiming_normal, the others from
  // xavier.
  static TensorId ConvRelu(Graph& g, TensorId x, const std::string& name, graph::ConvOptions c,
                           bool xavier) {
    c.bias = true;
    c.init = xavier ? Xavier(g, x, c) : graph::KaimingNormalFanOut(c.out_channels, c.kernel, 1);
    return graph::Relu(g, graph::Conv2d(g, x, name, c), name + ".relu");
  }

  static Init Xavier(const Graph& g, TensorId x, const graph::ConvOptions& c) {
    double fans = static_cast<double>(c.kernel * c.kernel) *
                  static_cast<double>(g.tensor(x).shape.back() + c.out_channels);
    return {InitKind::kUniform, static_cast<float>(std::sqrt(6.0 / fans))};
  }

  // The six maps that the heads look at.
  std::vector<TensorId> Maps(Graph& g, TensorId x) const {
    int index = 0;
    const std::vector<std::pair<int, int>> stages = {
        {Width(64), 2}, {Width(128), 2}, {Width(256), 3}, {Width(512), 3}};
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      for (int i = 0; i < stages[stage].second; ++i, index += 2) {
        x = ConvRelu(g, x, "backbone.features." + std::to_string(index),
                     {.out_channels = stages[stage].first,
                      .kernel = 3,
                      .pad = 1,
                      .trainable = static_cast<int>(stage) >= o_.frozen_stages},
                     false);
      }
      if (stage == 3) break;
      x = graph::MaxPool(g, x, {.kernel = 2, .stride = 2, .pad = 0, .ceil = stage == 2},
                         "pool" + std::to_string(stage + 1));
      ++index;
    }
    std::vector<TensorId> maps{ScaledConv43(g, x)};
    x = graph::MaxPool(g, x, {.kernel = 2, .stride = 2}, "pool4");
    for (const char* name : {"backbone.extra.0.1", "backbone.extra.0.3", "backbone.extra.0.5"}) {
      x = ConvRelu(
          g, x, name,
          {.out_channels = Width(512), .kernel = 3, .pad = 1, .trainable = o_.frozen_stages < 5},
          false);
    }
    x = graph::MaxPool(g, x, {.kernel = 3, .stride = 1, .pad = 1}, "pool5");
    x = ConvRelu(g, x, "backbone.extra.0.7.1",
                 {.out_channels = Width(1024), .kernel = 3, .pad = 6, .dilation = 6}, true);
    x = ConvRelu(g, x, "backbone.extra.0.7.3", {.out_channels = Width(1024)}, true);
    maps.push_back(x);
    for (int i = 1; i <= 4; ++i) {
      std::string name = "backbone.extra." + std::to_string(i) + ".";
      bool strided = i <= 2;
      x = ConvRelu(g, x, name + "0", {.out_channels = Width(i == 1 ? 256 : 128)}, true);
      x = ConvRelu(g, x, name + "2",
                   {.out_channels = Width(i == 1 ? 512 : 256),
                    .kernel = 3,
                    .stride = strided ? 2 : 1,
                    .pad = strided ? 1 : 0},
                   true);
      maps.push_back(x);
    }
    return maps;
  }

  // L2 normalisation with a learned scale, for the head only.
  static TensorId ScaledConv43(Graph& g, TensorId x) {
    TensorId scale = g.AddParam({.name = "backbone.scale_weight",
                                 .shape = {g.tensor(x).shape.back()},
                                 .init = {InitKind::kConstant, 20},
                                 .is_norm = true},
                                false);
    TensorId y = g.AddTemp("backbone.scaled", g.tensor(x).shape);
    g.AddOp(OpType::kL2Norm, {x, scale}, {y}, graph::NoAttrs{}, "backbone.scaled");
    return y;
  }

  Heads BuildHeads(Graph& g, const BatchShape& shape) const {
    Heads h;
    TensorId images = g.AddInput("images", {shape.n, shape.height, shape.width, 3}, DType::kU8);
    h.sizes = g.AddInput("sizes", {shape.n, 2}, DType::kI32);
    std::vector<TensorId> maps = Maps(g, graph::ImageNormalize(g, images, h.sizes, o_.normalize)),
                          boxes;
    h.attrs = o_.head;
    for (size_t level = 0; level < maps.size(); ++level) {
      int per_cell = BoxesPerCell(level);
      auto head = [&](const char* kind, int outputs) {
        graph::ConvOptions c{
            .out_channels = per_cell * outputs, .kernel = 3, .pad = 1, .bias = true};
        c.init = Xavier(g, maps[level], c);
        return graph::Conv2d(
            g, maps[level],
            std::string("head.") + kind + "_head.module_list." + std::to_string(level), c);
      };
      h.outputs.push_back(head("classification", o_.num_classes + 1));
      boxes.push_back(head("regression", 4));
      const graph::Shape& map = g.tensor(maps[level]).shape;
      h.attrs.levels.push_back({static_cast<int>(map[1]), static_cast<int>(map[2]), per_cell});
    }
    h.outputs.insert(h.outputs.end(), boxes.begin(), boxes.end());
    h.attrs.boxes = SsdDefaultBoxes(h.attrs.levels, shape.height, shape.width);
    return h;
  }

  SsdOptions o_;
};

}  // namespace

std::vector<float> SsdDefaultBoxes(const std::vector<graph::SsdLevel>& levels, int height,
                                   int width) {
  std::vector<float> boxes;
  for (size_t level = 0; level < levels.size(); ++level) {
    double rows = height / kSteps[level], columns = width / kSteps[level];
    for (int y = 0; y < levels[level].height; ++y) {
      for (int x = 0; x < levels[level].width; ++x) {
        double cx = (x + 0.5) / columns, cy = (y + 0.5) / rows;
        for (auto [w, h] : Sizes(level)) {
          for (double v : {(cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width,
                           (cy + h / 2) * height}) {
            boxes.push_back(static_cast<float>(v));
          }
        }
      }
    }
  }
  return boxes;
}

std::unique_ptr<Model> MakeSsd300(const SsdOptions& options) {
  return std::make_unique<Ssd300>(options);
}

}  // namespace xp::models
