#include "exp/data/crops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/parallel.h"
#include "exp/base/system_advice.h"
#include "exp/base/utf8.h"
#include "exp/data/image_io.h"
#include "exp/data/jpeg.h"

namespace xp::data {
namespace {

namespace fs = std::filesystem;

std::string FolderName(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  std::replace(name.begin(), name.end(), '\0', '_');
  return name.empty() || name == "." || name == ".." ? "_" + name : name;
}

struct Rectangle {
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

// Whole pixels around the box and its margin, inside of the image.
Rectangle Around(const CocoAnnotation& a, const RgbImage& image, double margin) {
  double dx = a.w * margin, dy = a.h * margin;
  auto clamp = [](double v, int most) {
    return static_cast<int>(std::clamp(v, 0.0, static_cast<double>(most)));
  };
  return {clamp(std::floor(a.x - dx), image.width), clamp(std::floor(a.y - dy), image.height),
          clamp(std::ceil(a.x + a.w + dx), image.width),
          clamp(std::ceil(a.y + a.h + dy), image.height)};
}

RgbImage Cut(const RgbImage& image, const Rectangle& r) {
  RgbImage part;
  part.Reset(r.x2 - r.x1, r.y2 - r.y1);
  for (int y = r.y1; y < r.y2; ++y) {
    std::memcpy(part.Row(y - r.y1), image.Row(y) + static_cast<size_t>(3) * r.x1,
                static_cast<size_t>(3) * part.width);
  }
  return part;
}

class Cutter {
 public:
  Cutter(const CocoDataset& dataset, const fs::path& images, const fs::path& out,
         const CropOptions& options)
      : dataset_(dataset), images_(images), out_(out), o_(options) {}

  CropReport Run() {
    std::map<std::string, std::string> taken;  // by folder: the class
    for (const Category& c : dataset_.categories) {
      const auto [other, fresh] = taken.emplace(FolderName(c.name), c.name);
      if (!fresh && other->second != c.name) {
        throw UsageError({.what = fmt::format("the classes `{}` and `{}` would share the folder {}",
                                              other->second, c.name, other->first),
                          .where = dataset_.path,
                          .expected = "names that stay apart when `/` is written as `_`",
                          .next = "rename one of them"});
      }
      std::error_code error;
      fs::create_directories(out_ / FolderName(c.name), error);
      if (error) {
        throw JobError({.what = "can't be made: " + error.message(),
                        .where = (out_ / FolderName(c.name)).string(),
                        .next = WriteAdvice(error.value())});
      }
      report_.cut[c.name] = 0;
    }
    ForEachInParallel(dataset_.images.size(), o_.threads,
                      [this](size_t i) { One(static_cast<int>(i)); });
    return report_;
  }

 private:
  void One(int index) {
    if (dataset_.Of(index).empty()) return;
    const CocoImage& info = dataset_.images[static_cast<size_t>(index)];
    const std::string path = (images_ / info.file_name).string();
    RgbImage image = ReadImage(path);
    if (info.width > 0 && (image.width != info.width || image.height != info.height)) {
      // Boxes were drawn on the stored image where that one has the size of the annotation file.
      image = ReadImage(path, false);
    }
    for (const CocoAnnotation& a : dataset_.Of(index)) {
      Rectangle r = Around(a, image, o_.margin);
      bool usable = a.trainable && !a.crowd && std::min(a.w, a.h) >= o_.min_side && r.x2 > r.x1 &&
                    r.y2 > r.y1;
      const std::string& name = dataset_.categories[static_cast<size_t>(a.category)].name;
      if (usable) {
        // Room for the id and the ending, within what a name may have (255 bytes).
        constexpr size_t kLongest = 200;
        const std::string stem = FolderName(fs::path(info.file_name).stem().string());
        std::string file = fmt::format("{}_{}.jpg", Utf8Head(stem, kLongest), a.id);
        WriteFileAtomic(out_ / FolderName(name) / file, EncodeJpeg(Cut(image, r), o_.quality));
      }
      std::lock_guard lock(mutex_);
      usable ? ++report_.cut[name] : ++report_.left_out;
    }
  }

  const CocoDataset& dataset_;
  const fs::path &images_, &out_;
  const CropOptions& o_;
  std::mutex mutex_;
  CropReport report_;
};

}  // namespace

CropReport CutBoxes(const CocoDataset& dataset, const fs::path& images, const fs::path& out,
                    const CropOptions& options) {
  return Cutter(dataset, images, out, options).Run();
}

}  // namespace xp::data
