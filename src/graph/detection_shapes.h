// What the detection operations read off their tensors and attributes, checked once for both
// backends: sizes by name, levels, and attributes in the form in which kernels take them.
#pragma once

#include <cstdint>
#include <vector>

#include "exp/graph/graph.h"
#include "kernels/anchors.h"
#include "kernels/matching.h"
#include "kernels/roi_geometry.h"

namespace xp::graph {

kernels::CoderParams ToParams(const BoxCoder& coder);
kernels::MatchParams ToParams(const Matcher& matcher);

// The anchors of all levels; `bases` owns what grid().base points to on the host.
struct Anchors {
  kernels::AnchorGrid grid;
  std::vector<kernels::Box> bases;
};
// Throws JobError where a level is empty or there are more than kernels::kMaxLevels.
Anchors MakeAnchors(const Op& op, const std::vector<AnchorLevel>& levels);

// How many at most are positive: int(samples * fraction), as torchvision.
int MaxPositives(int samples, float fraction);

// The column of class `label` among K + 1.
inline int ClassColumn(int label, int background) { return background == 0 ? label + 1 : label; }

// kRpnTargets, kRoiTargets, kSsdTargets
struct TargetShapes {
  int images = 0;     // N
  int boxes = 0;      // G
  int proposals = 0;  // P (kRoiTargets)
  int samples = 0;    // S or R
};
TargetShapes RpnTargetShapes(const Graph& g, const Op& op);
TargetShapes RoiTargetShapes(const Graph& g, const Op& op);

// kRpnLoss, kRpnProposals: N, with the maps' shapes checked against the levels.
int CheckRpnMaps(const Graph& g, const Op& op, const std::vector<AnchorLevel>& levels);

// kRoiAlign, kRoiAlignGrad
struct RoiAlignShapes {
  int images = 0;        // N
  int rois = 0;          // R, of an image
  int channels = 0;      // C
  int count_stride = 1;  // counts are [N] or [N,2]
  kernels::RoiParams params{};
};
RoiAlignShapes MakeRoiAlignShapes(const Graph& g, const Op& op);

// kRoiLoss, kDetections
struct RoiHeadShapes {
  int images = 0;   // N
  int rois = 0;     // R, of an image
  int columns = 0;  // K + 1
  int delta_columns = 0;
};
RoiHeadShapes RoiLossShapes(const Graph& g, const Op& op);
RoiHeadShapes DetectionShapes(const Graph& g, const Op& op);

// kSsd*: levels as an anchor grid whose per_cell counts the default boxes (it has no base anchors).
struct SsdShapes {
  int images = 0;    // N
  int boxes = 0;     // B, default boxes of an image
  int gt_boxes = 0;  // G (targets, loss)
  int columns = 0;   // K + 1
  kernels::AnchorGrid grid;
};
SsdShapes MakeSsdShapes(const Graph& g, const Op& op);

}  // namespace xp::graph
