#include "src/data/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "exp/base/error.h"
#include "exp/data/image_io.h"

namespace xp::data {

std::string ImagePath(const std::string& prefix, const std::string& file_name) {
  return (std::filesystem::path(prefix) / file_name).string();
}

void CollectBoxes(const CocoDataset& dataset, int image, Size size, double min_side,
                  Sample* sample) {
  sample->boxes.clear();
  sample->ignore.clear();
  for (const CocoAnnotation& a : dataset.Of(image)) {
    if (!a.trainable || a.w < min_side || a.h < min_side) continue;
    SampleBox box{std::clamp(a.x, 0.0, double(size.width)),
                  std::clamp(a.y, 0.0, double(size.height)),
                  std::clamp(a.x + a.w, 0.0, double(size.width)),
                  std::clamp(a.y + a.h, 0.0, double(size.height)), a.category};
    if (box.x2 <= box.x1 || box.y2 <= box.y1) continue;
    (a.crowd ? sample->ignore : sample->boxes).push_back(box);
  }
}

void DecodeImageOfSize(const std::string& file, const std::string& path, Size expected,
                       RgbImage* image) {
  std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  ImageInfo info = ReadImageInfo(bytes, path);
  Size stored{info.width, info.height}, upright = info.upright();
  if (expected != Size{} && upright != expected && stored != expected) {
    throw UsageError(
        {.what = fmt::format("the image is {}x{} but the annotation file says {}x{}", upright.width,
                             upright.height, expected.width, expected.height),
         .where = path,
         .expected = "the image that was annotated",
         .next = "replace the image, or mend its `width` and `height`"});
  }
  DecodeImage(bytes, path, expected == Size{} || upright == expected, image);
}

Size SizeOfImage(const std::string& file, const std::string& path) {
  return ReadImageInfo({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, path)
      .upright();
}

}  // namespace xp::data
