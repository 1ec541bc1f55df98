// SSD300 on VGG-16 (Liu et al. 2016) as torchvision builds it, with torchvision's parameter names.
#pragma once

#include "exp/models/model.h"

namespace xp::models {

struct SsdOptions {
  // Blue channel last; in [0, 1]. torchvision's std of 1/255 keeps values in 0..255.
  graph::NormalizeAttrs normalize{{0.48235f, 0.45882f, 0.40784f},
                                  {1 / 255.0f, 1 / 255.0f, 1 / 255.0f}};
  graph::SsdAttrs head;    // levels and boxes are filled in by the model
  int num_classes = 0;     // without background
  int frozen_stages = 0;   // of VGG, from the front (0-5); torchvision freezes 1 with its weights
  int base_channels = 64;  // of the first stage; all widths go with it; smaller in tests
};

std::unique_ptr<Model> MakeSsd300(const SsdOptions& options);

// The default boxes of SSD300 for an image of height x width, x1 y1 x2 y2 in pixels, [8732 x 4] at
// 300 x 300. `levels` gives the maps' sizes. torchvision clips widths and heights to the image, not
// places.
std::vector<float> SsdDefaultBoxes(const std::vector<graph::SsdLevel>& levels, int height,
                                   int width);

}  // namespace xp::models
