// Faster R-CNN with a feature pyramid (Ren et al. 2015; Lin et al. 2017): torchvision's recipe by
// default, mmdetection's by options. Parameters carry torchvision's names.
#pragma once

#include "exp/models/model.h"
#include "exp/models/resnet.h"

namespace xp::models {

// How the box head's linear layers begin.
enum class HeadInit {
  kTorchvision,  // nn.Linear's default
  kMmdetection,  // xavier_uniform, the predictors normal with 0.01 and 0.001, biases 0
};

struct FasterRcnnOptions {
  ResNetOptions backbone;
  graph::NormalizeAttrs normalize{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  int neck_channels = 256;
  bool neck_xavier = false;  // mmdetection; else kaiming_uniform(a = 1)
  std::vector<std::vector<float>> anchor_sizes = {{32}, {64}, {128}, {256}, {512}};  // a level
  std::vector<float> anchor_ratios = {0.5f, 1, 2};  // height / width
  bool round_anchors = true;
  float anchor_offset = 0;  // of the anchors' centres, in strides (mmdetection's center_offset)
  graph::RpnTargetAttrs rpn_targets;  // levels are filled in by the model
  float rpn_beta = 1.0f / 9;
  graph::RpnProposalAttrs train_proposals, test_proposals;
  graph::RoiTargetAttrs roi_targets;
  graph::RoiAlignAttrs roi_align;
  int fc_channels = 1024;
  HeadInit head_init = HeadInit::kTorchvision;
  bool class_agnostic = false;  // one box for all classes
  float roi_beta = 1.0f / 9;
  graph::DetectionAttrs detections;
  int num_classes = 0;  // without background
};

std::unique_ptr<Model> MakeFasterRcnn(const FasterRcnnOptions& options);

// torchvision's numbers for everything but the data set: 2000 / 1000 proposals and so on.
FasterRcnnOptions TorchvisionFasterRcnn(int depth, int num_classes);

}  // namespace xp::models
