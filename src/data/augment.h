// The augmentations of exp/data/augment.h, as functions of a sample and a stream. Each draws the
// same number of values for the decision whether it runs, whatever its probability.
#pragma once

#include <functional>
#include <vector>

#include "exp/base/philox.h"
#include "exp/data/augment.h"
#include "exp/data/resize.h"
#include "src/data/sample.h"

namespace xp::data {

// Loads some other image of the data set, drawn from the stream.
using LoadOther = std::function<Sample(RandomStream*)>;

// The whole chain. `canvas` is the size that a mosaic gets.
void Augment(const AugmentOptions& options, Size canvas, const LoadOther& load_other,
             RandomStream* stream, Sample* sample);

// The parts, for tests.
void ApplyPhotometric(const Photometric& options, RandomStream* stream, RgbImage* image);
void ApplyExpand(const Expand& options, RandomStream* stream, Sample* sample);
void ApplyMinIouCrop(const MinIouCrop& options, RandomStream* stream, Sample* sample);
void ApplyRandomCrop(const RandomCrop& options, RandomStream* stream, Sample* sample);
void ApplyMosaic(const Mosaic& options, Size canvas, std::vector<Sample> four, RandomStream* stream,
                 Sample* sample);
void ApplyMixup(const Mixup& options, const Sample& other, RandomStream* stream, Sample* sample);

// Colours, in place. Factors as in torchvision.transforms.functional.adjust_*; results rounded to
// nearest.
void AdjustBrightness(double factor, RgbImage* image);
void AdjustContrast(double factor, RgbImage* image);
void AdjustSaturation(double factor, RgbImage* image);
void AdjustHue(double turns, RgbImage* image);

// A rectangle of pixels, right and bottom exclusive.
struct Rect {
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

// Cuts the image; boxes are shifted and clipped, and stay when at least `min_share` of their area
// is inside.
void Crop(const Rect& part, double min_share, Sample* sample);

// What `expand` makes of an image: at most as many pixels as an image may have, and no less than
// it.
Size ExpandedSize(Size image, double ratio);

// Resizes image and boxes.
void ResizeSample(Size size, Sample* sample);

}  // namespace xp::data
