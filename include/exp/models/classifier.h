// Image classification with a ResNet, ResNeXt or SE-ResNeXt; parameters carry torchvision's names.
#pragma once

#include "exp/models/model.h"
#include "exp/models/resnet.h"

namespace xp::models {

struct ClassifierOptions {
  ResNetOptions backbone;
  graph::NormalizeAttrs normalize{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  int num_classes = 1000;
  float label_smoothing = 0;
};

std::unique_ptr<Model> MakeClassifier(const ClassifierOptions& options);

}  // namespace xp::models
