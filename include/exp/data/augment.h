// Random changes of training images and of their boxes. Off unless asked for; each sample draws
// from its own stream (seed, epoch, image), so a sample looks the same however many workers there
// are.
//
// They run in this order: mosaic, mixup, photometric, expand, min_iou_crop, random_crop, then
// resize and mirrors.
#pragma once

#include <array>
#include <vector>

namespace xp::data {

// torchvision's RandomPhotometricDistort (SSD): brightness, contrast (before or after the others,
// by a coin), saturation, hue and an exchange of channels, each with `probability`. Factors are
// drawn from the ranges.
struct Photometric {
  double probability = 0;  // 0: off
  std::array<double, 2> brightness = {0.875, 1.125};
  std::array<double, 2> contrast = {0.5, 1.5};
  std::array<double, 2> saturation = {0.5, 1.5};
  std::array<double, 2> hue = {-0.05, 0.05};  // turns, -0.5 .. 0.5
  bool swap_channels = true;
};

// torchvision's RandomZoomOut (SSD's expand): the image somewhere on a larger canvas of one colour.
struct Expand {
  double probability = 0;
  std::array<double, 2> ratio = {1, 4};       // sides of the canvas / sides of the image, >= 1
  std::array<int, 3> fill = {123, 117, 104};  // RGB
};

// torchvision's RandomIoUCrop (SSD): a part of the image that overlaps a box by at least a drawn
// threshold; boxes stay whose centre is inside.
struct MinIouCrop {
  double probability = 0;
  std::vector<double> min_ious = {0, 0.1, 0.3, 0.5, 0.7, 0.9, 1};  // 1 or more: no crop
  double min_scale = 0.3, max_scale = 1;    // sides of the part / sides of the image
  double min_aspect = 0.5, max_aspect = 2;  // width / height of the part
  int trials = 40;
};

// A part of a drawn size. A box stays, clipped, when at least `min_box_share` of its area is
// inside. A part without boxes is drawn again (`trials` times, then the image stays whole) unless
// `allow_empty`.
struct RandomCrop {
  double probability = 0;
  std::array<double, 2> share = {0.5, 1};  // of each side, drawn for both sides apart
  double min_box_share = 0.3;
  bool allow_empty = false;
  int trials = 20;
};

// Four images around a drawn centre, on a canvas of the size that the batch asks for; boxes as in
// RandomCrop. Source: Bochkovskiy et al., "YOLOv4", arXiv 2004.10934.
struct Mosaic {
  double probability = 0;
  std::array<double, 2> centre = {0.25, 0.75};  // share of each side
  std::array<double, 2> scale = {0.5, 1};       // of the size that each image would have alone
  double min_box_share = 0.3;
  std::array<int, 3> fill = {114, 114, 114};
};

// Another image, resized to the same size, blended in; the boxes of both count.
// Source: Zhang et al., "Bag of freebies for training object detection", arXiv 1902.04103.
struct Mixup {
  double probability = 0;
  std::array<double, 2> weight = {0.4, 0.6};  // of the first image
};

struct AugmentOptions {
  Photometric photometric;
  Expand expand;
  MinIouCrop min_iou_crop;
  RandomCrop random_crop;
  Mosaic mosaic;
  Mixup mixup;

  // Whether images may change their shape, so that the padded shapes can't follow the annotation
  // file.
  bool changes_shape() const {
    return expand.probability > 0 || min_iou_crop.probability > 0 || random_crop.probability > 0 ||
           mosaic.probability > 0;
  }
  // How many images' boxes one sample may hold.
  int images_per_sample() const {
    return (mosaic.probability > 0 ? 4 : 1) * (mixup.probability > 0 ? 2 : 1);
  }
};

}  // namespace xp::data
