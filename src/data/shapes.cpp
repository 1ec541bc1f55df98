#include "exp/data/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/philox.h"
#include "exp/base/system_advice.h"
#include "exp/data/jpeg.h"

namespace xp::data {
namespace {

constexpr std::array<const char*, 3> kNames = {"circle", "square", "triangle"};
constexpr int kQuality = 90;

// A drawn object; integer pixels so that nothing depends on a math library.
struct Shape {
  int kind;  // index into kNames
  int x, y, size;
  int apex;  // of a triangle, 0 .. size
  std::array<int, 3> colour;

  // Whether the centre of the pixel (px, py), relative to (x, y), lies inside. Doubled units keep
  // halves exact.
  bool Covers(int px, int py) const {
    int64_t u = 2 * px + 1, v = 2 * py + 1, s = 2 * size;
    if (kind == 0)
      return (u - size) * (u - size) + (v - size) * (v - size) <= static_cast<int64_t>(size) * size;
    if (kind == 1) return true;
    // Apex at (apex, 0), base from (0, size) to (size, size).
    return u * s >= 2 * apex * (s - v) && (s - u) * s >= (s - 2 * apex) * (s - v);
  }
};

struct Box {
  int x1, y1, x2, y2;  // half open
  int64_t area;        // pixels of the object
};

// Smooth noise: a random grid, interpolated; cells of `cell` pixels, values -amplitude ..
// amplitude.
void AddNoise(RandomStream* stream, int cell, int amplitude, int width, int height,
              std::vector<int>* field) {
  int columns = width / cell + 2, rows = height / cell + 2;
  std::vector<int> grid(static_cast<size_t>(columns) * rows);
  for (int& value : grid) value = static_cast<int>(stream->Below(2 * amplitude + 1)) - amplitude;
  for (int y = 0; y < height; ++y) {
    int gy = y / cell, fy = y % cell;
    for (int x = 0; x < width; ++x) {
      int gx = x / cell, fx = x % cell;
      const int* g = &grid[static_cast<size_t>(gy) * columns + gx];
      int top = g[0] * (cell - fx) + g[1] * fx;
      int bottom = g[columns] * (cell - fx) + g[columns + 1] * fx;
      (*field)[static_cast<size_t>(y) * width + x] +=
          (top * (cell - fy) + bottom * fy) / (cell * cell);
    }
  }
}

uint8_t Clip(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

void DrawBackground(RandomStream* stream, RgbImage* image, std::array<int, 3>* base) {
  for (int& c : *base) c = 60 + static_cast<int>(stream->Below(120));
  std::vector<int> field(static_cast<size_t>(image->width) * image->height, 0);
  for (auto [cell, amplitude] : {std::pair{64, 30}, {16, 20}, {4, 12}}) {
    AddNoise(stream, cell, amplitude, image->width, image->height, &field);
  }
  for (size_t i = 0; i < field.size(); ++i) {
    int grain = static_cast<int>(stream->NextU32() >> 28) - 8;
    for (size_t c = 0; c < 3; ++c) image->pixels[3 * i + c] = Clip((*base)[c] + field[i] + grain);
  }
}

Shape DrawnShape(RandomStream* stream, int width, int height, const std::array<int, 3>& base) {
  Shape shape;
  int shorter = std::min(width, height), smallest = std::max(shorter / 10, 8);
  shape.kind = static_cast<int>(stream->Below(3));
  shape.size = smallest + static_cast<int>(
                              stream->Below(static_cast<uint32_t>(shorter * 2 / 5 - smallest + 1)));
  shape.x = static_cast<int>(stream->Below(static_cast<uint32_t>(width - shape.size + 1)));
  shape.y = static_cast<int>(stream->Below(static_cast<uint32_t>(height - shape.size + 1)));
  shape.apex = static_cast<int>(stream->Below(static_cast<uint32_t>(shape.size + 1)));
  int contrast = 0;
  while (contrast < 120) {  // far enough from the background to be seen
    contrast = 0;
    for (size_t c = 0; c < 3; ++c) {
      shape.colour[c] = static_cast<int>(stream->Below(256));
      contrast += std::abs(shape.colour[c] - base[c]);
    }
  }
  return shape;
}

// At most a fifth of the smaller one may be covered.
bool Overlaps(const Shape& a, const Shape& b) {
  int64_t w = std::min(a.x + a.size, b.x + b.size) - std::max(a.x, b.x);
  int64_t h = std::min(a.y + a.size, b.y + b.size) - std::max(a.y, b.y);
  int64_t smaller = std::min(a.size, b.size);
  return w > 0 && h > 0 && w * h * 5 > smaller * smaller;
}

Box Paint(RandomStream* stream, const Shape& shape, RgbImage* image) {
  Box box{image->width, image->height, 0, 0, 0};
  for (int py = 0; py < shape.size; ++py) {
    for (int px = 0; px < shape.size; ++px) {
      int grain = static_cast<int>(stream->NextU32() >> 29) - 4;
      if (!shape.Covers(px, py)) continue;
      int x = shape.x + px, y = shape.y + py;
      uint8_t* pixel = image->Row(y) + 3 * static_cast<size_t>(x);
      for (size_t c = 0; c < 3; ++c) pixel[c] = Clip(shape.colour[c] + grain);
      box = {std::min(box.x1, x), std::min(box.y1, y), std::max(box.x2, x + 1),
             std::max(box.y2, y + 1), box.area + 1};
    }
  }
  return box;
}

// One image; appends its annotations as JSON to `annotations`.
std::string DrawImage(const ShapesOptions& options, uint32_t split, int number,
                      int* next_annotation, std::string* annotations) {
  RandomStream stream(options.seed, RandomPurpose::kSynthesize, split,
                      static_cast<uint32_t>(number));
  RgbImage image;
  image.Reset(options.width, options.height);
  std::array<int, 3> base;
  DrawBackground(&stream, &image, &base);
  int wanted = 1 + static_cast<int>(stream.Below(6));
  std::vector<Shape> placed;
  for (int tries = 0; static_cast<int>(placed.size()) < wanted && tries < 20 * wanted; ++tries) {
    Shape shape = DrawnShape(&stream, options.width, options.height, base);
    if (std::any_of(placed.begin(), placed.end(),
                    [&](const Shape& other) { return Overlaps(shape, other); }))
      continue;
    placed.push_back(shape);
    Box box = Paint(&stream, shape, &image);
    *annotations += fmt::format(
        "{}\n{{\"id\":{},\"image_id\":{},\"category_id\":{},\"bbox\":[{},{},{},{}],\"area\":{},"
        "\"iscrowd\":0}}",
        annotations->empty() ? "" : ",", (*next_annotation)++, number, shape.kind + 1, box.x1,
        box.y1, box.x2 - box.x1, box.y2 - box.y1, box.area);
  }
  return EncodeJpeg(image, kQuality);
}

void DrawSplit(const std::filesystem::path& dir, const ShapesOptions& options, const char* name,
               uint32_t split, int count) {
  std::string images, annotations;
  int next_annotation = 1;
  for (int i = 1; i <= count; ++i) {
    std::string file = fmt::format("{}_{:06}.jpg", name, i);
    WriteFileAtomic(dir / "images" / file,
                    DrawImage(options, split, i, &next_annotation, &annotations));
    images += fmt::format("{}\n{{\"id\":{},\"file_name\":\"{}\",\"width\":{},\"height\":{}}}",
                          i == 1 ? "" : ",", i, file, options.width, options.height);
  }
  std::string categories;
  for (size_t k = 0; k < kNames.size(); ++k) {
    categories +=
        fmt::format("{}{{\"id\":{},\"name\":\"{}\"}}", k == 0 ? "" : ",", k + 1, kNames[k]);
  }
  WriteFileAtomic(
      dir / fmt::format("instances_{}.json", name),
      fmt::format(
          "{{\"info\":{{\"description\":\"drawn shapes, {} split, seed {}\"}},\n\"images\":[{}],\n"
          "\"annotations\":[{}],\n\"categories\":[{}]}}\n",
          name, options.seed, images, annotations, categories));
}

void Check(bool good, const char* what, const char* expected) {
  if (!good) throw UsageError({.what = what, .where = "data shapes", .expected = expected});
}

}  // namespace

void DrawShapes(const std::filesystem::path& dir, const ShapesOptions& options) {
  Check(options.images >= 1 && options.images <= 1000000, "the number of images is out of range",
        "1 .. 1000000");
  Check(options.val >= 0 && options.val <= 1000000,
        "the number of validation images is out of range", "0 .. 1000000");
  Check(options.width >= 32 && options.width <= 8192 && options.height >= 32 &&
            options.height <= 8192,
        "the size is out of range", "sides of 32 .. 8192 pixels");
  std::error_code error;
  std::filesystem::create_directories(dir / "images", error);
  if (error) {
    throw JobError({.what = "the folder can't be made: " + error.message(),
                    .where = (dir / "images").string(),
                    .next = WriteAdvice(error.value())});
  }
  DrawSplit(dir, options, "train", 0, options.images);
  if (options.val > 0) DrawSplit(dir, options, "val", 1, options.val);
}

}  // namespace xp::data
