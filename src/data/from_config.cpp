#include "exp/data/from_config.h"

#include <utility>
#include <vector>

#include "exp/config/reader.h"

namespace xp::data {
namespace {

using config::Reader;

int IntIn(const Reader& r, const char* path, int64_t fallback, int64_t low, int64_t high) {
  int64_t value = r.Int(path, fallback);
  if (value < low || value > high) {
    r.Bad(path, "is out of range",
          "an int from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return static_cast<int>(value);
}

double Probability(const Reader& r, const char* path, double fallback) {
  double value = r.Double(path, fallback);
  if (!(value >= 0 && value <= 1)) r.Bad(path, "is no probability", "a number from 0 to 1");
  return value;
}

// img_scale: [1333, 800], or a list of such pairs for multi-scale training.
std::vector<ImageScale> ReadScales(const Reader& split) {
  const config::Node* node = split.Raw("img_scale");
  if (node == nullptr) return {{1333, 800}};
  auto pair = [&](const config::Node& n) -> ImageScale {
    bool fits = n.IsList() && n.size() == 2 && n[0].IsInt() && n[1].IsInt();
    int64_t width = fits ? n[0].AsInt() : 0, height = fits ? n[1].AsInt() : 0;
    if (width < 1 || height < 1 || width > 65500 || height > 65500) {
      split.Bad("img_scale", "is no image size",
                "[width, height] in pixels, or a list of such pairs");
    }
    return {static_cast<int>(width), static_cast<int>(height)};
  };
  if (node->IsList() && node->size() > 0 && (*node)[0].IsList()) {
    std::vector<ImageScale> scales;
    for (const config::Node& item : node->items()) scales.push_back(pair(item));
    return scales;
  }
  return {pair(*node)};
}

LoaderOptions ReadOptions(const Reader& config, const Reader& split, bool training, uint64_t seed) {
  LoaderOptions o;
  o.img_prefix = split.String("img_prefix", "");
  o.samples_per_gpu = IntIn(config, "data.samples_per_gpu", 2, 1, 65536);
  o.workers = IntIn(config, "data.workers_per_gpu", 2, 1, 1024);
  o.prefetch = IntIn(config, "data.prefetch", 3, 1, 1024);
  o.seed = seed;
  o.scales = ReadScales(split);
  o.multiscale = split.Choice("multiscale_mode", {"value", "range"}, "value") == "range"
                     ? MultiscaleMode::kRange
                     : MultiscaleMode::kValue;
  o.keep_ratio = split.Bool("keep_ratio", true);
  o.size_divisor = IntIn(split, "size_divisor", 32, 1, 4096);
  o.flip_ratio = Probability(split, "flip_ratio", 0);
  o.vertical_flip_ratio = Probability(split, "vertical_flip_ratio", 0);
  o.filter_empty_gt = split.Bool("filter_empty_gt", false);
  o.min_image_side = IntIn(split, "min_image_side", 0, 0, 65500);
  o.image_policy = ParsePolicy(split.String("image_policy", "strict"), split.Where("image_policy"));
  o.shuffle = training;
  std::string last = split.Choice("last_batch", {"smaller", "drop", "repeat"}, "smaller");
  o.last_batch = last == "drop"     ? LastBatch::kDrop
                 : last == "repeat" ? LastBatch::kRepeat
                                    : LastBatch::kSmaller;
  return o;
}

}  // namespace

std::unique_ptr<Loader> OpenLoader(const Reader& config, const std::string& split_name,
                                   uint64_t seed) {
  Reader split = config.Child("data." + split_name);
  CocoOptions coco;
  coco.classes = split.Strings("classes", {});
  coco.policy = ParsePolicy(split.String("policy", "drop"), split.Where("policy"));
  auto dataset = std::make_shared<const CocoDataset>(LoadCoco(split.String("ann_file"), coco));
  return std::make_unique<Loader>(std::move(dataset),
                                  ReadOptions(config, split, split_name == "train", seed));
}

}  // namespace xp::data
