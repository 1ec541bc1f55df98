#include "src/data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "src/data/png_webp.h"

namespace xp::data {
namespace {

double Area(const SampleBox& b) { return (b.x2 - b.x1) * (b.y2 - b.y1); }

SampleBox Clip(SampleBox b, double w, double h) {
  b.x1 = std::clamp(b.x1, 0.0, w);
  b.x2 = std::clamp(b.x2, 0.0, w);
  b.y1 = std::clamp(b.y1, 0.0, h);
  b.y2 = std::clamp(b.y2, 0.0, h);
  return b;
}

SampleBox Moved(SampleBox b, double dx, double dy) {
  b.x1 += dx;
  b.x2 += dx;
  b.y1 += dy;
  b.y2 += dy;
  return b;
}

// Moves, clips to w x h and keeps what has area left, at least `min_share` of what it had.
void MoveBoxes(double dx, double dy, double w, double h, double min_share,
               std::vector<SampleBox>* boxes) {
  std::vector<SampleBox> kept;
  for (const SampleBox& box : *boxes) {
    SampleBox inside = Clip(Moved(box, dx, dy), w, h);
    if (Area(inside) > 0 && Area(inside) >= min_share * Area(box)) kept.push_back(inside);
  }
  *boxes = std::move(kept);
}

double Iou(const SampleBox& a, const SampleBox& b) {
  double w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1),
         h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (w <= 0 || h <= 0) return 0;
  return w * h / (Area(a) + Area(b) - w * h);
}

void CutImage(const Rect& part, RgbImage* image) {
  RgbImage cut;
  cut.Reset(part.x2 - part.x1, part.y2 - part.y1);
  for (int y = 0; y < cut.height; ++y) {
    std::memcpy(cut.Row(y), image->Row(part.y1 + y) + 3 * static_cast<size_t>(part.x1),
                static_cast<size_t>(cut.width) * 3);
  }
  *image = std::move(cut);
}

RgbImage Canvas(int width, int height, const std::array<int, 3>& fill) {
  RgbImage canvas;
  canvas.Reset(width, height);
  const size_t row = static_cast<size_t>(width) * 3;
  for (size_t i = 0; i < row; ++i) canvas.pixels[i] = static_cast<uint8_t>(fill[i % 3]);
  for (int y = 1; y < height; ++y) std::memcpy(canvas.Row(y), canvas.Row(0), row);
  return canvas;
}

// Copies `from` so that its top left corner is at (x, y) of `to`, as far as it lies within `limit`.
void Paste(const RgbImage& from, int x, int y, const Rect& limit, RgbImage* to) {
  int x1 = std::max(x, limit.x1), x2 = std::min(x + from.width, limit.x2);
  int y1 = std::max(y, limit.y1), y2 = std::min(y + from.height, limit.y2);
  if (x1 >= x2) return;
  for (int row = y1; row < y2; ++row) {
    std::memcpy(to->Row(row) + 3 * static_cast<size_t>(x1),
                from.Row(row - y) + 3 * static_cast<size_t>(x1 - x),
                static_cast<size_t>(x2 - x1) * 3);
  }
}

// Boxes whose centre is inside the part.
std::vector<SampleBox> Inside(const Rect& part, const std::vector<SampleBox>& boxes) {
  std::vector<SampleBox> inside;
  for (const SampleBox& b : boxes) {
    double cx = (b.x1 + b.x2) / 2, cy = (b.y1 + b.y2) / 2;
    if (part.x1 < cx && cx < part.x2 && part.y1 < cy && cy < part.y2) inside.push_back(b);
  }
  return inside;
}

// One trial of RandomIoUCrop: a part of a fitting aspect that overlaps a box by `min_iou`.
std::optional<Rect> DrawPart(const MinIouCrop& o, double min_iou, RandomStream* stream,
                             const Sample& sample) {
  int w = sample.image.width, h = sample.image.height;
  int part_w = static_cast<int>(w * stream->Uniform(o.min_scale, o.max_scale));
  int part_h = static_cast<int>(h * stream->Uniform(o.min_scale, o.max_scale));
  double rx = stream->NextDouble(), ry = stream->NextDouble();
  if (part_w < 1 || part_h < 1) return std::nullopt;
  double aspect = static_cast<double>(part_w) / part_h;
  if (aspect < o.min_aspect || aspect > o.max_aspect) return std::nullopt;
  int left = static_cast<int>((w - part_w) * rx), top = static_cast<int>((h - part_h) * ry);
  Rect part{left, top, left + part_w, top + part_h};
  SampleBox whole{double(part.x1), double(part.y1), double(part.x2), double(part.y2), 0};
  double best = -1;
  for (const SampleBox& b : Inside(part, sample.boxes)) best = std::max(best, Iou(b, whole));
  if (best < min_iou) return std::nullopt;  // also when no box is inside
  return part;
}

}  // namespace

void Crop(const Rect& part, double min_share, Sample* sample) {
  CutImage(part, &sample->image);
  for (auto* boxes : {&sample->boxes, &sample->ignore}) {
    MoveBoxes(-part.x1, -part.y1, sample->image.width, sample->image.height, min_share, boxes);
  }
}

void ResizeSample(Size size, Sample* sample) {
  const RgbImage& from = sample->image;
  double sx = static_cast<double>(size.width) / from.width,
         sy = static_cast<double>(size.height) / from.height;
  RgbImage to;
  to.Reset(size.width, size.height);
  ResizeBilinear(from.pixels.data(), from.width, from.height, static_cast<size_t>(from.width) * 3,
                 to.pixels.data(), to.width, to.height, static_cast<size_t>(to.width) * 3);
  sample->image = std::move(to);
  for (auto* boxes : {&sample->boxes, &sample->ignore}) {
    for (SampleBox& b : *boxes) b = {b.x1 * sx, b.y1 * sy, b.x2 * sx, b.y2 * sy, b.label};
  }
}

Size ExpandedSize(Size image, double ratio) {
  const double pixels = static_cast<double>(image.width) * image.height;
  ratio = std::min(ratio, std::sqrt(static_cast<double>(kMaxPixels) / pixels));
  return {std::max(image.width, static_cast<int>(image.width * ratio)),
          std::max(image.height, static_cast<int>(image.height * ratio))};
}

void ApplyExpand(const Expand& o, RandomStream* stream, Sample* sample) {
  double ratio = stream->Uniform(o.ratio[0], o.ratio[1]), rx = stream->NextDouble(),
         ry = stream->NextDouble();
  const auto [w, h] = ExpandedSize({sample->image.width, sample->image.height}, ratio);
  int left = static_cast<int>((w - sample->image.width) * rx),
      top = static_cast<int>((h - sample->image.height) * ry);
  RgbImage canvas = Canvas(w, h, o.fill);
  Paste(sample->image, left, top, {0, 0, w, h}, &canvas);
  sample->image = std::move(canvas);
  for (auto* boxes : {&sample->boxes, &sample->ignore}) {
    for (SampleBox& b : *boxes) b = Moved(b, left, top);
  }
}

void ApplyMinIouCrop(const MinIouCrop& o, RandomStream* stream, Sample* sample) {
  if (o.min_ious.empty() || sample->boxes.empty()) return;
  // torchvision goes on for ever; an image for which 50 thresholds fail stays whole.
  for (int round = 0; round < 50; ++round) {
    double min_iou = o.min_ious[stream->Below(static_cast<uint32_t>(o.min_ious.size()))];
    if (min_iou >= 1) return;
    for (int trial = 0; trial < o.trials; ++trial) {
      std::optional<Rect> part = DrawPart(o, min_iou, stream, *sample);
      if (!part) continue;
      sample->boxes = Inside(*part, sample->boxes);
      Crop(*part, 0, sample);
      return;
    }
  }
}

void ApplyRandomCrop(const RandomCrop& o, RandomStream* stream, Sample* sample) {
  int w = sample->image.width, h = sample->image.height;
  for (int trial = 0; trial < o.trials; ++trial) {
    int part_w = std::clamp(static_cast<int>(w * stream->Uniform(o.share[0], o.share[1])), 1, w);
    int part_h = std::clamp(static_cast<int>(h * stream->Uniform(o.share[0], o.share[1])), 1, h);
    int left = static_cast<int>(stream->Below(static_cast<uint32_t>(w - part_w + 1)));
    int top = static_cast<int>(stream->Below(static_cast<uint32_t>(h - part_h + 1)));
    std::vector<SampleBox> boxes = sample->boxes;
    MoveBoxes(-left, -top, part_w, part_h, o.min_box_share, &boxes);
    if (boxes.empty() && !o.allow_empty && !sample->boxes.empty()) continue;
    Crop({left, top, left + part_w, top + part_h}, o.min_box_share, sample);
    return;
  }
}

void ApplyMosaic(const Mosaic& o, Size canvas, std::vector<Sample> four, RandomStream* stream,
                 Sample* sample) {
  int cx = static_cast<int>(canvas.width * stream->Uniform(o.centre[0], o.centre[1]));
  int cy = static_cast<int>(canvas.height * stream->Uniform(o.centre[0], o.centre[1]));
  Sample out;
  out.image = Canvas(canvas.width, canvas.height, o.fill);
  for (size_t k = 0; k < four.size() && k < 4; ++k) {
    Sample& part = four[k];
    double fit = std::min(static_cast<double>(canvas.width) / part.image.width,
                          static_cast<double>(canvas.height) / part.image.height);
    fit *= stream->Uniform(o.scale[0], o.scale[1]);
    ResizeSample({std::max(1, static_cast<int>(part.image.width * fit)),
                  std::max(1, static_cast<int>(part.image.height * fit))},
                 &part);
    bool right = (k & 1) != 0, low = (k & 2) != 0;
    // Each image touches the centre with one corner and stays in its quarter.
    int x = right ? cx : cx - part.image.width, y = low ? cy : cy - part.image.height;
    Rect quarter{right ? cx : 0, low ? cy : 0, right ? canvas.width : cx, low ? canvas.height : cy};
    Paste(part.image, x, y, quarter, &out.image);
    std::pair<std::vector<SampleBox>*, std::vector<SampleBox>*> lists[] = {
        {&part.boxes, &out.boxes}, {&part.ignore, &out.ignore}};
    for (auto [from, to] : lists) {
      MoveBoxes(x - quarter.x1, y - quarter.y1, quarter.x2 - quarter.x1, quarter.y2 - quarter.y1,
                o.min_box_share, from);
      for (const SampleBox& b : *from) to->push_back(Moved(b, quarter.x1, quarter.y1));
    }
  }
  *sample = std::move(out);
}

void ApplyMixup(const Mixup& o, const Sample& other, RandomStream* stream, Sample* sample) {
  float weight = static_cast<float>(stream->Uniform(o.weight[0], o.weight[1]));
  Sample second = other;
  double fit = std::min(static_cast<double>(sample->image.width) / second.image.width,
                        static_cast<double>(sample->image.height) / second.image.height);
  ResizeSample(
      {std::clamp(static_cast<int>(std::lround(second.image.width * fit)), 1, sample->image.width),
       std::clamp(static_cast<int>(std::lround(second.image.height * fit)), 1,
                  sample->image.height)},
      &second);
  for (int y = 0; y < second.image.height; ++y) {
    uint8_t* to = sample->image.Row(y);
    const uint8_t* from = second.image.Row(y);
    for (int i = 0; i < second.image.width * 3; ++i) {
      // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative, and it vectorizes
      to[i] = static_cast<uint8_t>(to[i] * weight + from[i] * (1 - weight) + 0.5f);
    }
  }
  sample->boxes.insert(sample->boxes.end(), second.boxes.begin(), second.boxes.end());
  sample->ignore.insert(sample->ignore.end(), second.ignore.begin(), second.ignore.end());
}

void Augment(const AugmentOptions& o, Size canvas, const LoadOther& load_other,
             RandomStream* stream, Sample* sample) {
  auto chosen = [&](double probability) {
    return probability > 0 && stream->NextDouble() < probability;
  };
  if (chosen(o.mosaic.probability)) {
    std::vector<Sample> four;
    four.push_back(std::move(*sample));
    for (int k = 0; k < 3; ++k) four.push_back(load_other(stream));
    ApplyMosaic(o.mosaic, canvas, std::move(four), stream, sample);
  }
  if (chosen(o.mixup.probability)) ApplyMixup(o.mixup, load_other(stream), stream, sample);
  if (o.photometric.probability > 0) ApplyPhotometric(o.photometric, stream, &sample->image);
  if (chosen(o.expand.probability)) ApplyExpand(o.expand, stream, sample);
  if (chosen(o.min_iou_crop.probability)) ApplyMinIouCrop(o.min_iou_crop, stream, sample);
  if (chosen(o.random_crop.probability)) ApplyRandomCrop(o.random_crop, stream, sample);
}

}  // namespace xp::data
