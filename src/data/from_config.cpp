#include "exp/data/from_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_set>
#include <utility>

#include "exp/base/error.h"
#include "exp/config/reader.h"
#include "src/data/text_lines.h"

namespace xp::data {
namespace {

using config::Reader;

Reader Part(const Reader& config, const std::string& part) { return config.Child("data." + part); }

// [1333, 800] or [[1333, 640], [1333, 800]].
std::vector<ImageScale> ReadScales(const Reader& part) {
  const config::Node* node = part.Raw("img_scale");
  if (node == nullptr)
    part.Bad("img_scale", "is missing", "[long side, short side], such as [1333, 800]");
  auto bad = [&] {
    part.Bad("img_scale", "is not a size", "[long side, short side] or a list of them");
  };
  auto one = [&](const config::Node& n) {
    if (!n.IsList() || n.size() != 2 || !n[0].IsInt() || !n[1].IsInt()) bad();
    for (const config::Node& side : n.items()) {
      if (side.AsInt() < 1 || side.AsInt() > 65535)
        part.Bad("img_scale", "has a side out of range", "sides from 1 to 65535 pixels");
    }
    return ImageScale{static_cast<int>(n[0].AsInt()), static_cast<int>(n[1].AsInt())};
  };
  if (!node->IsList() || node->size() == 0) bad();
  if (!(*node)[0].IsList()) return {one(*node)};
  std::vector<ImageScale> scales;
  for (const config::Node& n : node->items()) scales.push_back(one(n));
  return scales;
}

double ReadRatio(const Reader& reader, const char* key, double fallback) {
  return reader.DoubleWithin(key, fallback, 0, 1);
}

// Names as they are given, or of one file with a name a line.
std::vector<std::string> GivenClasses(const Reader& part) {
  std::vector<std::string> names = part.Strings("classes");
  if (names.size() != 1) return names;
  const std::filesystem::path file = names[0];
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    if (file.extension() != ".txt") return names;
    part.Bad("classes", "is a file that isn't there",
             "names of classes, or a file with a name a line",
             "paths are relative to the folder in which exp runs");
  }
  names.clear();
  for (TextLine& line : ReadTextLines(file, "a name a line")) names.push_back(std::move(line.text));
  if (names.empty()) {
    throw UsageError({.what = "the file of class names is empty",
                      .where = file.string(),
                      .expected = "a name a line",
                      .next = "check the path (`classes`)"});
  }
  return names;
}

std::vector<std::string> ReadClasses(const Reader& part) {
  if (!part.Has("classes")) return {};
  std::vector<std::string> names = GivenClasses(part);
  std::unordered_set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second)
      part.Bad("classes", fmt::format("has `{}` twice", name), "each class once",
               "remove one of the two");
  }
  return names;
}

// [low, high], within the bounds.
void ReadRange(const Reader& reader, const char* key, double least, double most,
               std::array<double, 2>* range) {
  std::vector<double> values = reader.Doubles(key, {(*range)[0], (*range)[1]});
  if (values.size() != 2 || !(values[0] >= least && values[1] <= most && values[0] <= values[1])) {
    reader.Bad(key, "is not a range", fmt::format("[low, high] within {:g} .. {:g}", least, most));
  }
  *range = {values[0], values[1]};
}

void ReadFill(const Reader& reader, std::array<int, 3>* fill) {
  std::vector<int64_t> values = reader.Ints("fill", {(*fill)[0], (*fill)[1], (*fill)[2]});
  if (values.size() != 3 ||
      !std::all_of(values.begin(), values.end(), [](int64_t v) { return v >= 0 && v <= 255; })) {
    reader.Bad("fill", "is not a colour", "three numbers from 0 to 255: red, green, blue");
  }
  for (size_t k = 0; k < 3; ++k) (*fill)[k] = static_cast<int>(values[k]);
}

void ReadMinIouCrop(const Reader& r, MinIouCrop* o) {
  o->probability = ReadRatio(r, "probability", 1);
  o->min_ious = r.Doubles("min_ious", o->min_ious);
  std::array<double, 2> scale = {o->min_scale, o->max_scale},
                        aspect = {o->min_aspect, o->max_aspect};
  ReadRange(r, "scale", 0.01, 1, &scale);
  ReadRange(r, "aspect", 0.01, 100, &aspect);
  o->min_scale = scale[0], o->max_scale = scale[1];
  o->min_aspect = aspect[0], o->max_aspect = aspect[1];
  o->trials = r.IntWithin("trials", o->trials, 1, 1000);
}

void ReadPhotometric(const Reader& r, Photometric* o) {
  o->probability = ReadRatio(r, "probability", 0.5);
  ReadRange(r, "brightness", 0, 10, &o->brightness);
  ReadRange(r, "contrast", 0, 10, &o->contrast);
  ReadRange(r, "saturation", 0, 10, &o->saturation);
  ReadRange(r, "hue", -0.5, 0.5, &o->hue);
  o->swap_channels = r.Bool("swap_channels", o->swap_channels);
}

// Scales or aspects of anchors.
void ReadPositive(const Reader& reader, const std::string& key, std::vector<double>* values) {
  constexpr double kLeast = 1e-6, kMost = 1e6;
  *values = reader.Doubles(key, *values);
  if (values->empty() || !std::all_of(values->begin(), values->end(),
                                      [](double v) { return v >= kLeast && v <= kMost; }))
    reader.Bad(key, "has one out of range, or none",
               fmt::format("numbers from {:g} to {:g}", kLeast, kMost));
}

AugmentOptions ReadAugment(const Reader& part) {
  AugmentOptions o;
  if (part.Has("augment.photometric"))
    ReadPhotometric(part.Child("augment.photometric"), &o.photometric);
  if (part.Has("augment.min_iou_crop"))
    ReadMinIouCrop(part.Child("augment.min_iou_crop"), &o.min_iou_crop);
  if (part.Has("augment.expand")) {
    Reader r = part.Child("augment.expand");
    o.expand.probability = ReadRatio(r, "probability", 0.5);
    ReadRange(r, "ratio", 1, 16, &o.expand.ratio);
    ReadFill(r, &o.expand.fill);
  }
  if (part.Has("augment.random_crop")) {
    Reader r = part.Child("augment.random_crop");
    o.random_crop.probability = ReadRatio(r, "probability", 1);
    ReadRange(r, "share", 0.01, 1, &o.random_crop.share);
    o.random_crop.min_box_share = ReadRatio(r, "min_box_share", o.random_crop.min_box_share);
    o.random_crop.allow_empty = r.Bool("allow_empty", o.random_crop.allow_empty);
    o.random_crop.trials = r.IntWithin("trials", o.random_crop.trials, 1, 1000);
  }
  if (part.Has("augment.mosaic")) {
    Reader r = part.Child("augment.mosaic");
    o.mosaic.probability = ReadRatio(r, "probability", 1);
    ReadRange(r, "centre", 0.05, 0.95, &o.mosaic.centre);
    ReadRange(r, "scale", 0.05, 1, &o.mosaic.scale);
    o.mosaic.min_box_share = ReadRatio(r, "min_box_share", o.mosaic.min_box_share);
    ReadFill(r, &o.mosaic.fill);
  }
  if (part.Has("augment.mixup")) {
    Reader r = part.Child("augment.mixup");
    o.mixup.probability = ReadRatio(r, "probability", 0.5);
    ReadRange(r, "weight", 0, 1, &o.mixup.weight);
  }
  return o;
}

Policy ReadImagePolicy(const Reader& part) {
  return part.Choice("on_error", {"error", "skip"}, "error") == "error" ? Policy::kStrict
                                                                        : Policy::kDrop;
}

Policy ReadPolicy(const Reader& part) {
  return ParsePolicy(part.Choice("policy", {"strict", "drop", "ignore"}, "drop"),
                     part.Where("policy"));
}

LastBatch ReadLastBatch(const Reader& part) {
  std::string text = part.Choice("last_batch", {"smaller", "drop", "repeat"}, "smaller");
  return text == "smaller" ? LastBatch::kSmaller
         : text == "drop"  ? LastBatch::kDrop
                           : LastBatch::kRepeat;
}

}  // namespace

LoaderOptions ReadLoaderOptions(const Reader& config, const std::string& name, uint64_t seed) {
  Reader data = config.Child("data"), part = Part(config, name);
  bool train = name == "train";
  if (part.String("type", "") == "ImageFolder") {
    part.Bad("type", "is of a classifier, and this model is a detector",
             "CocoDataset, with boxes in `ann_file`",
             "give a COCO file with boxes, or use the model ImageClassifier");
  }
  part.Choice("type", {"CocoDataset"}, "CocoDataset");
  LoaderOptions o;
  o.seed = seed;
  o.samples_per_gpu = data.IntWithin("samples_per_gpu", 2, 1, 65536);
  o.workers = std::max(1, data.IntWithin("workers_per_gpu", 2, 0, 1024));
  o.prefetch = data.IntWithin("prefetch", 3, 1, 1024);
  o.aspect_grouping = data.Bool("group_by_aspect", true);
  o.shuffle = train;
  o.img_prefix = part.String("img_prefix", "");
  o.scales = ReadScales(part);
  o.multiscale = part.Choice("multiscale_mode", {"value", "range"}, "value") == "range"
                     ? MultiscaleMode::kRange
                     : MultiscaleMode::kValue;
  if (o.multiscale == MultiscaleMode::kRange && o.scales.size() != 2) {
    part.Bad("multiscale_mode", "needs two scales", "`img_scale` with the two ends of the range");
  }
  o.range_steps = part.IntWithin("range_steps", 4, 1, 64);
  o.keep_ratio = part.Bool("keep_ratio", true);
  o.rounding = part.Choice("size_rounding", {"floor", "nearest"}, "floor") == "floor"
                   ? SizeRounding::kFloor
                   : SizeRounding::kNearest;
  o.size_divisor = part.IntWithin("size_divisor", 32, 1, 4096);
  o.flip_ratio = ReadRatio(part, "flip_ratio", train ? 0.5 : 0.0);
  o.vertical_flip_ratio = ReadRatio(part, "vertical_flip_ratio", 0.0);
  o.augment = ReadAugment(part);
  o.last_batch = ReadLastBatch(part);
  o.filter_empty_gt = part.Bool("filter_empty_gt", train);
  o.min_image_side = part.IntWithin("min_size", 0, 0, 65535);
  o.min_box_side = part.Double("min_box_size", 0.0);
  o.image_policy = ReadImagePolicy(part);
  o.leave_out = !train;
  return o;
}

CocoDataset OpenDataset(const Reader& config, const std::string& name, std::optional<Policy> policy,
                        bool for_audit) {
  Reader part = Part(config, name);
  part.Choice("type", {"CocoDataset"}, "CocoDataset");
  CocoOptions options;
  options.classes = ReadClasses(part);
  options.policy = policy ? *policy : ReadPolicy(part);
  if (for_audit) options = ForAudit(options);
  options.limit = part.IntWithin("limit", 0, 0, 1 << 30);
  return LoadCoco(part.String("ann_file"), options);
}

AuditPart OpenPart(const Reader& config, const std::string& name, std::optional<Policy> policy,
                   bool for_audit) {
  Reader part = Part(config, name);
  AuditPart opened;
  opened.name = name;
  opened.img_prefix = part.String("img_prefix", "");
  opened.policy = policy ? *policy : ReadPolicy(part);
  if (part.String("type", "CocoDataset") == "ImageFolder") {
    auto list = std::make_shared<ImageList>(OpenImageList(config, name));
    opened.dataset = std::make_shared<CocoDataset>(DatasetOf(*list));
    opened.list = std::move(list);
  } else {
    opened.dataset = std::make_shared<CocoDataset>(OpenDataset(config, name, policy, for_audit));
  }
  return opened;
}

void ReadModelForAudit(const Reader& config, AuditOptions* o) {
  Reader part = Part(config, o->parts[0].name);
  if (o->parts[0].list == nullptr) {
    o->anchors.img_scale = ReadScales(part).back();
    o->anchors.keep_ratio = part.Bool("keep_ratio", true);
    const std::string anchors = "model.rpn_head.anchor_generator.";
    ReadPositive(config, anchors + "scales", &o->anchors.scales);
    ReadPositive(config, anchors + "ratios", &o->anchors.ratios);
    constexpr int64_t kLargestStride = 65536;
    std::vector<int64_t> strides = config.Ints(anchors + "strides", {4, 8, 16, 32, 64});
    if (strides.empty() || !std::all_of(strides.begin(), strides.end(),
                                        [](int64_t s) { return s >= 1 && s <= kLargestStride; })) {
      config.Bad(anchors + "strides", "has one out of range, or none",
                 fmt::format("ints from 1 to {}", kLargestStride));
    }
    o->anchors.strides.assign(strides.begin(), strides.end());
  }
  for (const char* key : {"model.roi_head.bbox_head.num_classes", "model.bbox_head.num_classes",
                          "model.head.num_classes"}) {
    if (!config.Has(key)) continue;
    o->num_classes = config.IntWithin(key, 0, 1, 1000000);
    o->num_classes_where = config.Where(key);
  }
}

AuditOptions ReadAuditOptions(const Reader& config, std::optional<Policy> policy) {
  AuditOptions o;
  for (const char* name : {"train", "val"}) {
    if (!config.Has(std::string("data.") + name)) continue;
    o.parts.push_back(OpenPart(config, name, policy, true));
  }
  if (o.parts.empty()) {
    throw UsageError({.what = "the config has no data to check",
                      .where = config.Where(""),
                      .expected = "`data.train` or `data.val`",
                      .next = "add one, or name an annotation file or a folder of class folders"});
  }
  ReadModelForAudit(config, &o);
  return o;
}

std::vector<std::string> NamedImages(const Reader& config, const std::string& name) {
  Reader part = Part(config, name);
  const std::string file = part.String("ann_file", "");
  if (file.empty()) return {};
  std::vector<std::string> classes;
  try {
    classes = ReadClasses(part);
  } catch (const Error&) {  // who trains with them says it
  }
  return ImageNames(file, classes);
}

std::unique_ptr<Loader> OpenLoader(const Reader& config, const std::string& part, uint64_t seed) {
  ReadLoaderOptions(config, part, seed);  // what is wrong there is said before a large file is read
  return OpenLoader(config, OpenPart(config, part), seed);
}

std::unique_ptr<Loader> OpenLoader(const Reader& config, const AuditPart& part, uint64_t seed) {
  LoaderOptions options = ReadLoaderOptions(config, part.name, seed);
  std::shared_ptr<const CocoDataset> dataset = part.dataset;
  int times = Part(config, part.name).IntWithin("times", 1, 1, 1 << 20);
  if (part.name == "train" && times > 1)
    dataset = std::make_shared<CocoDataset>(Repeated(*dataset, times));
  return std::make_unique<Loader>(std::move(dataset), std::move(options));
}

ClassLoaderOptions ReadClassLoaderOptions(const Reader& config, const std::string& name,
                                          uint64_t seed) {
  Reader data = config.Child("data"), part = Part(config, name);
  if (part.String("type") == "CocoDataset") {
    part.Bad("type", "is of a detector, and this model is a classifier",
             "ImageFolder: a folder of class folders, or of a list or COCO file in `ann_file`",
             "write `type: ImageFolder`; `ann_file` stays");
  }
  part.Choice("type", {"ImageFolder"});
  ClassLoaderOptions o;
  o.train = name == "train";
  o.seed = seed;
  o.samples_per_gpu = data.IntWithin("samples_per_gpu", 32, 1, 65536);
  o.workers = std::max(1, data.IntWithin("workers_per_gpu", 2, 0, 1024));
  o.prefetch = data.IntWithin("prefetch", 3, 1, 1024);
  o.size = part.IntWithin("crop_size", 224, 1, 8192);
  o.resize = part.IntWithin("resize", std::max(256, o.size * 8 / 7), o.size, 8192);
  ReadRange(part, "crop_scale", 1e-6, 1, &o.scale);
  ReadRange(part, "crop_ratio", 0.05, 20, &o.ratio);
  o.flip_ratio = ReadRatio(part, "flip_ratio", 0.5);
  o.fast_decode = part.Bool("fast_decode", true);
  o.last_batch = ReadLastBatch(part);
  o.image_policy = ReadImagePolicy(part);
  o.leave_out = !o.train;
  if (part.Has("augment.photometric")) {
    ReadPhotometric(part.Child("augment.photometric"), &o.photometric);
  }
  return o;
}

ImageList OpenImageList(const Reader& config, const std::string& name) {
  Reader part = Part(config, name);
  std::vector<std::string> classes = ReadClasses(part);
  std::string root = part.String("img_prefix");
  return part.Has("ann_file") ? ReadImageList(part.String("ann_file"), root, classes)
                              : ListImageFolder(root, classes);
}

std::unique_ptr<ClassLoader> OpenClassLoader(const Reader& config, const std::string& name,
                                             uint64_t seed) {
  return OpenClassLoader(config, OpenPart(config, name), seed);
}

std::unique_ptr<ClassLoader> OpenClassLoader(const Reader& config, const AuditPart& part,
                                             uint64_t seed) {
  return std::make_unique<ClassLoader>(part.list, ReadClassLoaderOptions(config, part.name, seed));
}

}  // namespace xp::data
