// Parts of images for classification, as torchvision draws and places them.
#pragma once

#include <array>

#include "exp/base/philox.h"
#include "exp/data/jpeg.h"
#include "exp/data/resize.h"

namespace xp::data {

// RandomResizedCrop.get_params: a part of a drawn area and aspect; after ten misses the largest
// centre part within the range of aspects. Exponentials are computed in a fixed order, so that no
// math library decides a pixel.
JpegRegion DrawResizedCrop(Size image, const std::array<double, 2>& scale,
                           const std::array<double, 2>& ratio, RandomStream* stream);

// Resize(shorter) and CenterCrop(size) of torchvision, size <= shorter: the other side is cut to an
// integer. The sides of the whole may be far larger than an image can be.
ResizeWindow CentreOfResized(Size image, int shorter, int size);

}  // namespace xp::data
