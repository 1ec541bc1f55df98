#include "src/data/augment.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "catch.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::Fixture;
using data::test::ReadPpm;

namespace {

RandomStream Stream(uint32_t seed) { return RandomStream(seed, RandomPurpose::kTest, 0, 0); }

// Grey, with one filled rectangle of a colour of its own a box: where its pixels are tells where
// the box must be.
Sample Drawn(int width, int height, std::vector<SampleBox> boxes) {
  Sample sample;
  sample.image.Reset(width, height);
  std::fill(sample.image.pixels.begin(), sample.image.pixels.end(), 10);
  for (const SampleBox& b : boxes) {
    for (int y = int(b.y1); y < int(b.y2); ++y) {
      for (int x = int(b.x1); x < int(b.x2); ++x) sample.image.Row(y)[3 * x + b.label] = 250;
    }
  }
  sample.boxes = std::move(boxes);
  return sample;
}

// The smallest box around pixels of a channel over 130; empty when there are none.
SampleBox Found(const RgbImage& image, int channel) {
  SampleBox box{1e9, 1e9, 0, 0, channel};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      if (image.Row(y)[3 * x + channel] <= 130) continue;
      box = {std::min(box.x1, double(x)), std::min(box.y1, double(y)), std::max(box.x2, x + 1.0),
             std::max(box.y2, y + 1.0), channel};
    }
  }
  return box;
}

void CheckBoxes(const Sample& sample, double tolerance) {
  for (const SampleBox& b : sample.boxes) {
    SampleBox found = Found(sample.image, b.label);
    CHECK(std::abs(found.x1 - b.x1) <= tolerance);
    CHECK(std::abs(found.y1 - b.y1) <= tolerance);
    CHECK(std::abs(found.x2 - b.x2) <= tolerance);
    CHECK(std::abs(found.y2 - b.y2) <= tolerance);
    CHECK(b.x1 >= 0);
    CHECK(b.y1 >= 0);
    CHECK(b.x2 <= sample.image.width);
    CHECK(b.y2 <= sample.image.height);
  }
}

Sample Three() {
  return Drawn(100, 80, {{10, 12, 40, 40, 0}, {50, 30, 90, 70, 1}, {5, 60, 25, 75, 2}});
}

}  // namespace

TEST_CASE("colours are what Pillow and colorsys make of them") {
  const std::pair<const char*, std::function<void(RgbImage*)>> cases[] = {
      {"brightness", [](RgbImage* i) { AdjustBrightness(1.3, i); }},
      {"contrast", [](RgbImage* i) { AdjustContrast(0.6, i); }},
      {"saturation", [](RgbImage* i) { AdjustSaturation(1.4, i); }},
      {"hue", [](RgbImage* i) { AdjustHue(0.1, i); }},
  };
  for (const auto& [name, adjust] : cases) {
    INFO(name);
    RgbImage image = ReadPpm(Fixture("rgb444.ppm")),
             expected = ReadPpm(Fixture(std::string("colour_") + name + ".ppm"));
    RgbImage before = image;
    adjust(&image);
    CHECK(image.pixels != before.pixels);
    int worst = 0;
    for (size_t i = 0; i < image.pixels.size(); ++i)
      worst = std::max(worst, std::abs(int(image.pixels[i]) - int(expected.pixels[i])));
    CHECK(worst <= 1);  // Pillow works in whole numbers on the way
  }
  RgbImage image = ReadPpm(Fixture("rgb444.ppm")), same = image;
  AdjustHue(1, &same);
  AdjustBrightness(1, &same);
  AdjustContrast(1, &same);
  AdjustSaturation(1, &same);
  CHECK(same.pixels == image.pixels);
  // Hues are a circle: back by a part of it is forward by the rest.
  for (double turns : {-0.05, -0.25, -0.45}) {
    RgbImage back = image, forward = image;
    AdjustHue(turns, &back);
    AdjustHue(1 + turns, &forward);
    int worst = 0;
    for (size_t i = 0; i < image.pixels.size(); ++i)
      worst = std::max(worst, std::abs(int(back.pixels[i]) - int(forward.pixels[i])));
    CHECK(worst <= 1);
    CHECK(back.pixels != image.pixels);
  }
}

TEST_CASE("photometric changes pixels, sometimes, and nothing else") {
  Photometric options;
  options.probability = 0.5;
  int changed = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    RgbImage image = ReadPpm(Fixture("rgb.ppm")), before = image;
    RandomStream stream = Stream(seed), again = Stream(seed);
    ApplyPhotometric(options, &stream, &image);
    ApplyPhotometric(options, &again, &before);
    CHECK(image.pixels == before.pixels);
    changed += image.pixels != ReadPpm(Fixture("rgb.ppm")).pixels;
  }
  CHECK(changed > 30);
}

TEST_CASE("expand moves boxes with the image") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Sample sample = Three();
    RandomStream stream = Stream(seed);
    ApplyExpand({.probability = 1, .ratio = {1, 3}, .fill = {1, 2, 3}}, &stream, &sample);
    CHECK(sample.image.width >= 100);
    CHECK(sample.image.width <= 300);
    CHECK(sample.boxes.size() == 3);
    CHECK(sample.boxes[0].x2 - sample.boxes[0].x1 == 30);
    CheckBoxes(sample, 0);
  }
}

TEST_CASE("expanding a photo never takes more memory than the largest image") {
  CHECK(ExpandedSize({640, 480}, 16) == Size{10240, 7680});
  CHECK(ExpandedSize({640, 480}, 1.999) == Size{1279, 959});
  // 24 million pixels: 2.73 times as long and as wide is the limit of 178,956,970.
  const Size photo = ExpandedSize({6000, 4000}, 16);
  CHECK(photo == Size{16383, 10922});
  CHECK(ExpandedSize({6000, 4000}, 2) == Size{12000, 8000});
  CHECK(ExpandedSize({65500, 1}, 16) == Size{1048000, 16});
  CHECK(ExpandedSize({16000, 11184}, 16) == Size{16000, 11184});  // as large as it may be
}

TEST_CASE("a min-IoU crop keeps boxes whose centre is inside and reaches its threshold") {
  int cropped = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Sample sample = Three();
    RandomStream stream = Stream(seed);
    MinIouCrop options;
    options.min_ious = {0.5};
    ApplyMinIouCrop(options, &stream, &sample);
    if (sample.image.width == 100 && sample.image.height == 80) continue;
    ++cropped;
    REQUIRE_FALSE(sample.boxes.empty());
    CheckBoxes(sample, 0);
    double best = 0;
    for (const SampleBox& b : sample.boxes) {
      // The part overlaps the unclipped box by .5, so it does the clipped one as well.
      best = std::max(best,
                      (b.x2 - b.x1) * (b.y2 - b.y1) / (sample.image.width * sample.image.height));
    }
    CHECK(best > 0.3);
    double aspect = double(sample.image.width) / sample.image.height;
    CHECK(aspect >= 0.5);
    CHECK(aspect <= 2);
  }
  CHECK(cropped > 5);
  Sample whole = Three();
  RandomStream stream = Stream(1);
  MinIouCrop never;
  never.min_ious = {1};
  ApplyMinIouCrop(never, &stream, &whole);
  CHECK(whole.image.width == 100);
  Sample empty = Drawn(50, 50, {});
  ApplyMinIouCrop(MinIouCrop(), &stream, &empty);
  CHECK(empty.image.width == 50);
}

TEST_CASE("a random crop keeps boxes by their share inside") {
  int dropped = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Sample sample = Three();
    RandomStream stream = Stream(seed);
    ApplyRandomCrop({.probability = 1, .share = {0.4, 0.8}, .min_box_share = 0.5}, &stream,
                    &sample);
    CHECK(sample.image.width <= 80);
    CHECK_FALSE(sample.boxes.empty());
    CheckBoxes(sample, 0);
    dropped += sample.boxes.size() < 3;
    const double areas[] = {30 * 28, 40 * 40, 20 * 15};
    for (const SampleBox& b : sample.boxes)
      CHECK((b.x2 - b.x1) * (b.y2 - b.y1) >= 0.5 * areas[b.label]);
  }
  CHECK(dropped > 10);
}

TEST_CASE("crowds are cropped like boxes") {
  Sample sample = Three();
  sample.ignore = {{0, 0, 100, 80, 0}, {0, 0, 5, 5, 0}};
  Crop({20, 20, 60, 60}, 0, &sample);
  REQUIRE(sample.ignore.size() == 1);
  CHECK(sample.ignore[0].x2 == 40);
  CHECK(sample.ignore[0].y2 == 40);
}

TEST_CASE("a mosaic holds four images in its quarters") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::vector<Sample> four;
    // Each image is filled by one box: in the mosaic each box is a rectangle that touches the
    // centre.
    for (int k = 0; k < 4; ++k)
      four.push_back(
          Drawn(60 + 20 * k, 90 - 10 * k, {{0, 0, 60.0 + 20 * k, 90.0 - 10 * k, k % 3}}));
    RandomStream stream = Stream(seed);
    Sample sample;
    ApplyMosaic({.probability = 1, .centre = {0.3, 0.7}, .scale = {0.5, 1}, .min_box_share = 0},
                {160, 120}, four, &stream, &sample);
    CHECK(sample.image.width == 160);
    CHECK(sample.image.height == 120);
    REQUIRE(sample.boxes.size() == 4);
    double cx = sample.boxes[0].x2, cy = sample.boxes[0].y2;
    CHECK(cx >= 48);
    CHECK(cx <= 112);
    CHECK(sample.boxes[1].x1 == Approx(cx));
    CHECK(sample.boxes[1].y2 == Approx(cy));
    CHECK(sample.boxes[2].x2 == Approx(cx));
    CHECK(sample.boxes[3].x1 == Approx(cx));
    CHECK(sample.boxes[3].y1 == Approx(cy));
    for (int k : {1, 2}) {  // whose colours occur once
      SampleBox found = Found(sample.image, k);
      CHECK(found.x1 == Approx(sample.boxes[k].x1));
      CHECK(found.y2 == Approx(sample.boxes[k].y2));
    }
  }
}

TEST_CASE("mixup blends pixels and joins boxes") {
  Sample sample = Drawn(100, 80, {{10, 10, 30, 30, 0}}),
         other = Drawn(50, 40, {{20, 20, 40, 30, 1}});
  RandomStream stream = Stream(1);
  ApplyMixup({.probability = 1, .weight = {0.5, 0.5}}, other, &stream, &sample);
  CHECK(sample.image.width == 100);
  REQUIRE(sample.boxes.size() == 2);
  CHECK(sample.boxes[1].x1 == 40);
  CHECK(sample.boxes[1].y2 == 60);
  CHECK(int(sample.image.Row(15)[3 * 15]) == 130);
  CHECK(int(sample.image.Row(50)[3 * 60 + 1]) == 130);
  CHECK(int(sample.image.Row(5)[3 * 5]) == 10);
}
