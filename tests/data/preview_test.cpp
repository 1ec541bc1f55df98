#include "exp/data/preview.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "catch.h"
#include "exp/data/image_io.h"
#include "exp/data/jpeg.h"
#include "exp/data/shapes.h"
#include "src/data/html.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;

TEST_CASE("a preview shows images, boxes and shapes") {
  data::test::TempDir dir("preview");
  DrawShapes(dir.path, {.images = 5, .val = 0, .width = 64, .height = 64});
  LoaderOptions options;
  options.img_prefix = (dir.path / "images").string();
  options.scales = {{64, 64}};
  Loader loader(std::make_shared<CocoDataset>(LoadCoco(dir.path / "instances_train.json")),
                options);
  std::string page = Preview(&loader, 3).html;
  size_t figures = 0;
  for (size_t at = 0; (at = page.find("<figure>", at)) != std::string::npos; ++at) ++figures;
  CHECK(figures == 3);
  CHECK_THAT(page, ContainsSubstring("2×64×64") && ContainsSubstring("<rect") &&
                       ContainsSubstring("train_0000"));
  CHECK(page == Preview(&loader, 3).html);
}

namespace {

// The pictures of a page, decoded again.
std::vector<RgbImage> Pictures(const std::string& page) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string begin = "base64,";
  std::vector<RgbImage> pictures;
  for (size_t at = 0; (at = page.find(begin, at)) != std::string::npos;) {
    std::vector<uint8_t> bytes;
    uint32_t bits = 0, held = 0;
    for (at += begin.size(); page[at] != '"' && page[at] != '='; ++at) {
      bits = bits << 6 | static_cast<uint32_t>(kDigits.find(page[at]));
      held += 6;
      if (held < 8) continue;
      held -= 8;
      bytes.push_back(static_cast<uint8_t>(bits >> held));
    }
    DecodeImage(bytes, "page", false, &pictures.emplace_back());
  }
  return pictures;
}

// What JPEG leaves of noise-free pictures at quality 85.
void CheckSame(const RgbImage& picture, const uint8_t* pixels) {
  double sum = 0;
  for (size_t p = 0; p < picture.pixels.size(); ++p)
    sum += std::abs(static_cast<int>(picture.pixels[p]) - pixels[p]);
  CHECK(sum / static_cast<double>(picture.pixels.size()) < 6);
}

std::string Rect(const float* box) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", box[0],
                     box[1], std::max(0.0f, box[2] - box[0]), std::max(0.0f, box[3] - box[1]));
}

}  // namespace

TEST_CASE("a preview's pictures and boxes are what the loader gives the network") {
  data::test::TempDir dir("preview_same");
  DrawShapes(dir.path, {.images = 6, .val = 0, .width = 96, .height = 80});
  auto dataset = std::make_shared<CocoDataset>(LoadCoco(dir.path / "instances_train.json"));
  LoaderOptions options;
  options.img_prefix = (dir.path / "images").string();
  options.scales = {{96, 80}};
  options.seed = 5;
  options.flip_ratio = 0.5;
  options.workers = 1;
  const std::string part = GENERATE("none", "photometric", "expand", "min_iou_crop", "random_crop",
                                    "mosaic", "mixup", "all");
  AugmentOptions& augment = options.augment;
  auto on = [&](const char* name) { return part == name || part == "all" ? 1.0 : 0.0; };
  augment.photometric.probability = on("photometric");
  augment.expand.probability = on("expand");
  augment.min_iou_crop.probability = on("min_iou_crop");
  augment.random_crop.probability = on("random_crop");
  augment.mosaic.probability = on("mosaic");
  augment.mixup.probability = on("mixup");
  INFO(part);
  Loader shown(dataset, options);
  const uint32_t epoch = 2;
  const std::string page = Preview(&shown, 6, epoch).html;
  const std::vector<RgbImage> pictures = Pictures(page);
  REQUIRE(pictures.size() == 6);
  options.workers = 3;  // what a batch holds doesn't depend on them
  Loader loader(dataset, options);
  loader.StartEpoch(epoch);
  Batch batch;
  size_t picture = 0, rects = 0, at = 0;
  while (loader.Next(&batch)) {
    for (int i = 0; i < batch.n; ++i, ++picture) {
      REQUIRE(pictures[picture].width == batch.width);
      REQUIRE(pictures[picture].height == batch.height);
      CheckSame(pictures[picture],
                &batch.images[static_cast<size_t>(i) * pictures[picture].pixels.size()]);
      for (int k = 0; k < batch.box_counts[static_cast<size_t>(i)]; ++k, ++rects) {
        at = page.find("<rect", at + 1);  // in the page's order
        const std::string rect =
            Rect(&batch.boxes[4 * (static_cast<size_t>(i) * batch.max_boxes + k)]);
        CHECK(page.substr(at, rect.size()) == rect);
      }
    }
  }
  CHECK(rects > 6);
  CHECK(page.find("<rect", at + 1) == std::string::npos);
}

TEST_CASE("a classifier's images are previewed under their classes") {
  data::test::TempDir dir("preview_classes");
  for (int label = 0; label < 2; ++label) {
    RgbImage image;
    image.Reset(60, 50);
    for (size_t p = 0; p < image.pixels.size(); ++p)
      image.pixels[p] = p % 3 == static_cast<size_t>(label) ? 200 : 20;
    const std::string name = label == 0 ? "ant" : "<bee>";
    std::filesystem::create_directories(dir.path / name);
    for (const char* file : {"0.jpg", "1.jpg"})
      WriteFileAtomic(dir.path / name / file, EncodeJpeg(image, 95));
  }
  ClassLoaderOptions options;
  options.samples_per_gpu = 3;
  options.size = 32;
  options.resize = 40;
  options.photometric.probability = 1;
  auto list = std::make_shared<ImageList>(ListImageFolder(dir.path));
  ClassLoader shown(list, options), loader(list, options);
  const std::string page = Preview(&shown, 4, 1).html;
  const std::vector<RgbImage> pictures = Pictures(page);
  REQUIRE(pictures.size() == 4);
  loader.StartEpoch(1);
  ClassBatch batch;
  size_t picture = 0;
  while (loader.Next(&batch)) {
    for (int i = 0; i < batch.n; ++i, ++picture) {
      REQUIRE(pictures[picture].width == 32);
      CheckSame(pictures[picture], &batch.images[static_cast<size_t>(i) * 32 * 32 * 3]);
    }
  }
  CHECK_THAT(page, ContainsSubstring("<h2>Batch 1</h2>") && ContainsSubstring("ant: ") &&
                       ContainsSubstring("&lt;bee&gt;: "));
}
