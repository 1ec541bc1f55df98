#include "src/graph/detection_shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "exp/base/error.h"

namespace xp::graph {

namespace {

// These are mistakes of a model's builder, not of a user: found when a program is made.
void Expect(bool holds, const Op& op, const std::string& what) {
  if (holds) return;
  throw JobError({.what = fmt::format("{} '{}': {}", OpName(op.type), op.name, what),
                  .where = "the graph",
                  .expected = "tensors and attributes that agree",
                  .next = "report this as a bug of the model's builder"});
}

const Shape& InputShape(const Graph& g, const Op& op, size_t index) {
  Expect(index < op.inputs.size() && op.inputs[index] != kNoTensor, op,
         fmt::format("input {} is missing", index));
  return g.tensor(op.inputs[index]).shape;
}

const Shape& OutputShape(const Graph& g, const Op& op, size_t index) {
  Expect(index < op.outputs.size() && op.outputs[index] != kNoTensor, op,
         fmt::format("output {} is missing", index));
  return g.tensor(op.outputs[index]).shape;
}

void ExpectShape(const Op& op, const char* name, const Shape& is, const Shape& expected) {
  Expect(is == expected, op,
         fmt::format("{} is {}, not {}", name, ShapeText(is), ShapeText(expected)));
}

int Dim(const Op& op, const Shape& shape, size_t index) {
  Expect(index < shape.size(), op, "a shape has too few dimensions: " + ShapeText(shape));
  return static_cast<int>(shape[index]);
}

void ExpectRatio(const Op& op, float fraction) {
  Expect(fraction >= 0 && fraction <= 1, op, "positive_fraction isn't between 0 and 1");
}

}  // namespace

kernels::CoderParams ToParams(const BoxCoder& coder) {
  return {coder.weights[0], coder.weights[1], coder.weights[2], coder.weights[3], coder.clip};
}

kernels::MatchParams ToParams(const Matcher& matcher) {
  return {matcher.positive, matcher.negative, matcher.low_quality, matcher.low_quality_min,
          matcher.low_quality_to_best};
}

int MaxPositives(int samples, float fraction) {
  return std::clamp(static_cast<int>(static_cast<float>(samples) * fraction), 0, samples);
}

Anchors MakeAnchors(const Op& op, const std::vector<AnchorLevel>& levels) {
  Expect(!levels.empty() && levels.size() <= kernels::kMaxLevels, op,
         fmt::format("{} levels; 1 to {} are possible", levels.size(), kernels::kMaxLevels));
  Anchors anchors;
  kernels::AnchorGrid& grid = anchors.grid;
  grid.levels = static_cast<int>(levels.size());
  int64_t total = 0;
  for (int l = 0; l < grid.levels; ++l) {
    const AnchorLevel& level = levels[static_cast<size_t>(l)];
    Expect(level.count() > 0 && level.base.size() % 4 == 0, op,
           fmt::format("level {} is empty", l));
    grid.height[l] = level.height;
    grid.width[l] = level.width;
    grid.per_cell[l] = level.per_cell();
    grid.stride_y[l] = level.stride_y;
    grid.stride_x[l] = level.stride_x;
    grid.base_begin[l] = static_cast<int>(anchors.bases.size());
    for (size_t i = 0; i < level.base.size(); i += 4) {
      anchors.bases.push_back(
          {level.base[i], level.base[i + 1], level.base[i + 2], level.base[i + 3]});
    }
    total += level.count();
    Expect(total < (int64_t{1} << 30), op, "too many anchors");
    grid.first[l + 1] = static_cast<int>(total);
  }
  grid.base = anchors.bases.data();
  return anchors;
}

TargetShapes RpnTargetShapes(const Graph& g, const Op& op) {
  const auto& attrs = std::get<RpnTargetAttrs>(op.attrs);
  ExpectRatio(op, attrs.positive_fraction);
  const Shape& boxes = InputShape(g, op, 0);
  TargetShapes s;
  s.images = Dim(op, boxes, 0);
  s.boxes = Dim(op, boxes, 1);
  s.samples = attrs.samples;
  ExpectShape(op, "gt_boxes", boxes, {s.images, s.boxes, 4});
  ExpectShape(op, "gt_counts", InputShape(g, op, 1), {s.images});
  ExpectShape(op, "step_key", InputShape(g, op, 2), {4});
  ExpectShape(op, "sampled", OutputShape(g, op, 0), {s.images, s.samples});
  ExpectShape(op, "targets", OutputShape(g, op, 1), {s.images, s.samples, 4});
  ExpectShape(op, "counts", OutputShape(g, op, 2), {s.images, 2});
  return s;
}

TargetShapes RoiTargetShapes(const Graph& g, const Op& op) {
  const auto& attrs = std::get<RoiTargetAttrs>(op.attrs);
  ExpectRatio(op, attrs.positive_fraction);
  const Shape& proposals = InputShape(g, op, 0);
  TargetShapes s;
  s.images = Dim(op, proposals, 0);
  s.proposals = Dim(op, proposals, 1);
  s.boxes = Dim(op, InputShape(g, op, 2), 1);
  s.samples = attrs.samples;
  ExpectShape(op, "proposals", proposals, {s.images, s.proposals, 4});
  ExpectShape(op, "proposal_counts", InputShape(g, op, 1), {s.images});
  ExpectShape(op, "gt_boxes", InputShape(g, op, 2), {s.images, s.boxes, 4});
  ExpectShape(op, "gt_labels", InputShape(g, op, 3), {s.images, s.boxes});
  ExpectShape(op, "gt_counts", InputShape(g, op, 4), {s.images});
  ExpectShape(op, "step_key", InputShape(g, op, 5), {4});
  ExpectShape(op, "rois", OutputShape(g, op, 0), {s.images, s.samples, 4});
  ExpectShape(op, "labels", OutputShape(g, op, 1), {s.images, s.samples});
  ExpectShape(op, "targets", OutputShape(g, op, 2), {s.images, s.samples, 4});
  ExpectShape(op, "counts", OutputShape(g, op, 3), {s.images, 2});
  return s;
}

int CheckRpnMaps(const Graph& g, const Op& op, const std::vector<AnchorLevel>& levels) {
  int images = Dim(op, InputShape(g, op, 0), 0);
  for (size_t l = 0; l < levels.size(); ++l) {
    const AnchorLevel& level = levels[l];
    ExpectShape(op, "cls", InputShape(g, op, l),
                {images, level.height, level.width, level.per_cell()});
    ExpectShape(op, "box", InputShape(g, op, levels.size() + l),
                {images, level.height, level.width, level.per_cell() * 4});
  }
  return images;
}

RoiAlignShapes MakeRoiAlignShapes(const Graph& g, const Op& op) {
  const auto& attrs = std::get<RoiAlignAttrs>(op.attrs);
  bool forward = op.type == OpType::kRoiAlign;
  size_t levels = attrs.scales.size();
  Expect(levels >= 1 && levels <= kernels::kMaxLevels, op, "no levels, or too many");
  RoiAlignShapes s;
  kernels::RoiParams& p = s.params;
  const Shape& rois = InputShape(g, op, forward ? levels : 1);
  s.images = Dim(op, rois, 0);
  s.rois = Dim(op, rois, 1);
  ExpectShape(op, "rois", rois, {s.images, s.rois, 4});
  const Shape& counts = InputShape(g, op, forward ? levels + 1 : 2);
  Expect(Dim(op, counts, 0) == s.images && (counts.size() == 1 || counts == Shape{s.images, 2}), op,
         "counts is " + ShapeText(counts) + ", not [N] or [N, 2]");
  s.count_stride = counts.size() == 1 ? 1 : 2;
  p.levels = static_cast<int>(levels);
  for (size_t l = 0; l < levels; ++l) {
    const Shape& map = forward ? InputShape(g, op, l) : OutputShape(g, op, l);
    Expect(map.size() == 4 && map[0] == s.images, op, "a feature map is " + ShapeText(map));
    if (l == 0) s.channels = static_cast<int>(map[3]);
    Expect(map[3] == s.channels, op, "feature maps differ in channels");
    p.scale[l] = attrs.scales[l];
    p.height[l] = static_cast<int>(map[1]);
    p.width[l] = static_cast<int>(map[2]);
  }
  p.output = attrs.output;
  p.sampling_ratio = attrs.sampling_ratio;
  p.aligned = attrs.aligned;
  p.canonical_level = attrs.canonical_level;
  p.canonical_size = attrs.canonical_size;
  p.min_level = attrs.min_level;
  int64_t rows = static_cast<int64_t>(s.images) * s.rois;
  ExpectShape(op, "y", forward ? OutputShape(g, op, 0) : InputShape(g, op, 0),
              {rows, attrs.output, attrs.output, s.channels});
  return s;
}

RoiHeadShapes RoiLossShapes(const Graph& g, const Op& op) {
  const auto& attrs = std::get<RoiLossAttrs>(op.attrs);
  const Shape& labels = InputShape(g, op, 2);
  RoiHeadShapes s;
  s.images = Dim(op, labels, 0);
  s.rois = Dim(op, labels, 1);
  s.columns = attrs.num_classes + 1;
  s.delta_columns = attrs.class_agnostic ? 4 : s.columns * 4;
  int64_t rows = static_cast<int64_t>(s.images) * s.rois;
  ExpectShape(op, "logits", InputShape(g, op, 0), {rows, s.columns});
  ExpectShape(op, "deltas", InputShape(g, op, 1), {rows, s.delta_columns});
  ExpectShape(op, "targets", InputShape(g, op, 3), {s.images, s.rois, 4});
  ExpectShape(op, "counts", InputShape(g, op, 4), {s.images, 2});
  return s;
}

RoiHeadShapes DetectionShapes(const Graph& g, const Op& op) {
  const auto& attrs = std::get<DetectionAttrs>(op.attrs);
  const Shape& rois = InputShape(g, op, 2);
  RoiHeadShapes s;
  s.images = Dim(op, rois, 0);
  s.rois = Dim(op, rois, 1);
  s.columns = attrs.num_classes + 1;
  s.delta_columns = attrs.class_agnostic ? 4 : s.columns * 4;
  int64_t rows = static_cast<int64_t>(s.images) * s.rois;
  ExpectShape(op, "logits", InputShape(g, op, 0), {rows, s.columns});
  ExpectShape(op, "deltas", InputShape(g, op, 1), {rows, s.delta_columns});
  ExpectShape(op, "rois", rois, {s.images, s.rois, 4});
  ExpectShape(op, "counts", InputShape(g, op, 3), {s.images});
  ExpectShape(op, "sizes", InputShape(g, op, 4), {s.images, 2});
  ExpectShape(op, "boxes", OutputShape(g, op, 0), {s.images, attrs.max_detections, 4});
  ExpectShape(op, "counts", OutputShape(g, op, 3), {s.images});
  return s;
}

SsdShapes MakeSsdShapes(const Graph& g, const Op& op) {
  const auto& attrs = std::get<SsdAttrs>(op.attrs);
  SsdShapes s;
  s.columns = attrs.num_classes + 1;
  size_t levels = attrs.levels.size();
  Expect(levels >= 1 && levels <= kernels::kMaxLevels, op, "no levels, or too many");
  s.grid.levels = static_cast<int>(levels);
  for (size_t l = 0; l < levels; ++l) {
    const SsdLevel& level = attrs.levels[l];
    int count = level.height * level.width * level.per_cell;
    Expect(count > 0, op, fmt::format("level {} is empty", l));
    s.grid.height[l] = level.height;
    s.grid.width[l] = level.width;
    s.grid.per_cell[l] = level.per_cell;
    s.grid.first[l + 1] = s.grid.first[l] + count;
  }
  s.boxes = s.grid.total();
  Expect(attrs.boxes.size() == static_cast<size_t>(s.boxes) * 4, op,
         fmt::format("{} numbers of default boxes for {} boxes", attrs.boxes.size(), s.boxes));
  if (op.type == OpType::kSsdTargets) {
    const Shape& gt = InputShape(g, op, 0);
    s.images = Dim(op, gt, 0);
    s.gt_boxes = Dim(op, gt, 1);
    ExpectShape(op, "matched", OutputShape(g, op, 0), {s.images, s.boxes});
    return s;
  }
  s.images = Dim(op, InputShape(g, op, 0), 0);
  for (size_t l = 0; l < levels; ++l) {
    const SsdLevel& level = attrs.levels[l];
    ExpectShape(op, "cls", InputShape(g, op, l),
                {s.images, level.height, level.width, level.per_cell * s.columns});
    ExpectShape(op, "box", InputShape(g, op, levels + l),
                {s.images, level.height, level.width, level.per_cell * 4});
  }
  if (op.type == OpType::kSsdLoss) {
    const Shape& gt = InputShape(g, op, 2 * levels + 2);
    s.gt_boxes = Dim(op, gt, 1);
    ExpectShape(op, "matched", InputShape(g, op, 2 * levels), {s.images, s.boxes});
    ExpectShape(op, "gt_boxes", gt, {s.images, s.gt_boxes, 4});
  } else {
    ExpectShape(op, "boxes", OutputShape(g, op, 0), {s.images, attrs.max_detections, 4});
  }
  return s;
}

}  // namespace xp::graph
