// ResNet, ResNeXt and SE-ResNeXt (He et al. 2015; Xie et al. 2016; Hu et al. 2017), with
// torchvision's parameter names; the squeeze-and-excitation blocks carry timm's (`se.fc1`,
// `se.fc2`).
#pragma once

#include <string>
#include <vector>

#include "exp/graph/builder.h"

namespace xp::models {

struct ResNetOptions {
  int depth = 50;            // 18, 34, 50, 101, 152
  int groups = 1;            // ResNeXt: 32
  int width_per_group = 64;  // ResNeXt 32x4d: 4
  bool squeeze_excite = false;
  int frozen_stages = 0;  // 0: all trained; 1: stem; 2: stem and layer1; ...
  graph::NormMode norm = graph::NormMode::kTrain;
  float norm_eps = 1e-5f;
  float norm_momentum = 0.1f;
  // Caffe's bottleneck ("style: caffe", Detectron's weights): the stride sits on the first 1x1
  // convolution instead of the 3x3.
  bool stride_in_first = false;
  // From random weights each block begins as its shortcut: the scale of its last norm is 0
  // (Goyal et al. 2017; what mmdetection's ResNet does unless told otherwise).
  bool zero_init_residual = false;
  // Of each block only the result is kept for the gradients, the rest made again: less memory,
  // about a third more time. mmdetection's with_cp.
  bool checkpoint_blocks = false;
  int base_channels = 64;   // of the stem and of layer1; smaller in tests
  std::vector<int> blocks;  // a stage; empty: those of the depth
  bool bottleneck() const { return depth >= 50; }
};

// The outputs of layer1 .. layer4, strides 4, 8, 16, 32. Parameters are named <prefix>conv1.weight
// ...
std::vector<graph::TensorId> ResNet(graph::Graph& g, graph::TensorId image,
                                    const std::string& prefix, const ResNetOptions& options,
                                    bool training);

}  // namespace xp::models
