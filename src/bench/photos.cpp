#include "exp/bench/photos.h"

#include <algorithm>
#include <filesystem>

#include "exp/base/philox.h"
#include "exp/base/walk.h"
#include "exp/data/image_io.h"
#include "exp/data/jpeg.h"

namespace xp::bench {
namespace {

constexpr int kColumns = 32, kRows = 24, kQuality = 90;
constexpr double kNoise = 12;

data::RgbImage Draw(uint32_t number, int width, int height) {
  RandomStream random(0, RandomPurpose::kSynthesize, 1, number);
  std::vector<float> grid(static_cast<size_t>(kColumns) * kRows * 3);
  for (float& v : grid) v = static_cast<float>(random.Below(256));
  data::RgbImage image;
  image.Reset(width, height);
  for (int y = 0; y < height; ++y) {
    double gy = static_cast<double>(y) * (kRows - 1) / height;
    int y0 = static_cast<int>(gy);
    double fy = gy - y0;
    for (int x = 0; x < width; ++x) {
      double gx = static_cast<double>(x) * (kColumns - 1) / width;
      int x0 = static_cast<int>(gx);
      double fx = gx - x0;
      // Sum of four uniform numbers: near enough to a normal one, and fast.
      uint32_t bits = random.NextU32();
      double noise =
          ((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24)) / 147.8 - 3.45;
      for (int c = 0; c < 3; ++c) {
        auto at = [&](int gx2, int gy2) {
          return grid[(static_cast<size_t>(gy2) * kColumns + gx2) * 3 + c];
        };
        double top = at(x0, y0) * (1 - fx) + at(x0 + 1, y0) * fx;
        double bottom = at(x0, y0 + 1) * (1 - fx) + at(x0 + 1, y0 + 1) * fx;
        double value = top * (1 - fy) + bottom * fy + kNoise * noise;
        image.Row(y)[x * 3 + c] = static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
      }
    }
  }
  return image;
}

}  // namespace

std::vector<std::string> DrawPhotos(int count, int width, int height) {
  std::vector<std::string> photos;
  photos.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    photos.push_back(data::EncodeJpeg(Draw(static_cast<uint32_t>(i), width, height), kQuality));
  }
  return photos;
}

std::vector<std::string> FindJpegs(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  Walk walk;
  walk.file = [&](const fs::directory_entry& entry) {
    std::error_code ignored;  // a pipe of that name would be waited for
    if (data::HasJpegEnding(entry.path()) && entry.is_regular_file(ignored)) {
      names.push_back(entry.path().lexically_relative(folder).string());
    }
  };
  walk.pass_over = true;
  WalkFiles(folder, walk);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace xp::bench
