#include "exp/data/from_config.h"

#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/config/schema.h"
#include "exp/data/shapes.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::TempDir;

namespace {

config::Reader Read(const std::string& yaml) {
  config::Resolved resolved = config::LoadText(yaml, "test.yaml");
  CHECK(config::Validate(resolved.root).empty());
  return config::Reader(resolved.root);
}

}  // namespace

TEST_CASE("a config's data part becomes loader options") {
  TempDir dir("config");
  DrawShapes(dir.path, {.images = 5, .val = 3, .width = 64, .height = 64});
  std::string classes = dir.Write("classes.txt", "square\r\ncircle\n");
  std::string yaml = R"(
data:
  samples_per_gpu: 3
  workers_per_gpu: 0
  train:
    ann_file: DIR/instances_train.json
    img_prefix: DIR/images
    classes: [triangle, circle]
    img_scale: [[96, 64], [128, 96]]
    multiscale_mode: range
    range_steps: 2
    size_rounding: nearest
    vertical_flip_ratio: 0.25
    last_batch: repeat
    min_box_size: 1
    on_error: skip
    limit: 4
    augment:
      photometric: {hue: [-0.1, 0.1]}
      mosaic: {probability: 0.25, fill: [1, 2, 3]}
      min_iou_crop: {min_ious: [0.5], scale: [0.5, 0.9]}
  val:
    ann_file: DIR/instances_val.json
    img_prefix: DIR/images
    classes: DIR/classes.txt
    img_scale: [96, 64]
)";
  for (size_t at; (at = yaml.find("DIR")) != std::string::npos;)
    yaml.replace(at, 3, dir.path.string());
  config::Reader config = Read(yaml);
  auto train = OpenLoader(config, "train", 5);
  const LoaderOptions& o = train->options();
  CHECK(o.seed == 5);
  CHECK(o.samples_per_gpu == 3);
  CHECK(o.workers == 1);
  CHECK(o.scales == std::vector<ImageScale>{{96, 64}, {128, 96}});
  CHECK(o.multiscale == MultiscaleMode::kRange);
  CHECK(o.rounding == SizeRounding::kNearest);
  CHECK(o.flip_ratio == 0.5);
  CHECK(o.vertical_flip_ratio == 0.25);
  CHECK(o.last_batch == LastBatch::kRepeat);
  CHECK(o.min_box_side == 1);
  CHECK(o.image_policy == Policy::kDrop);
  CHECK(o.augment.photometric.probability == 0.5);
  CHECK(o.augment.photometric.hue == std::array<double, 2>{-0.1, 0.1});
  CHECK(o.augment.mosaic.probability == 0.25);
  CHECK(o.augment.mosaic.fill == std::array<int, 3>{1, 2, 3});
  CHECK(o.augment.min_iou_crop.max_scale == 0.9);
  CHECK(o.augment.min_iou_crop.probability == 1);
  CHECK(o.augment.mixup.probability == 0);
  CHECK(o.filter_empty_gt);
  CHECK(o.shuffle);
  CHECK(train->dataset().images.size() == 4);
  CHECK(train->dataset().categories[0].name == "triangle");
  auto val = OpenLoader(config, "val", 5);
  CHECK(val->dataset().categories[0].name == "square");
  CHECK(val->options().flip_ratio == 0);
  CHECK_FALSE(val->options().filter_empty_gt);
  CHECK_FALSE(val->options().shuffle);
  CHECK(val->images() == 3);
  CHECK(config.UnusedKeys().empty());
}

TEST_CASE("class names may stand in a file as editors of Windows leave it") {
  TempDir dir("names");
  DrawShapes(dir.path, {.images = 2, .val = 1, .width = 64, .height = 64});
  const std::string part = "data: {train: {ann_file: " + dir.path.string() +
                           "/instances_train.json, img_scale: [9, 9], classes: ";
  auto open = [&](const std::string& classes) {
    return OpenDataset(config::Reader(config::LoadText(part + classes + "}}", "t.yaml").root),
                       "train");
  };
  auto file = [&](const std::string& text) { return dir.Write("c.txt", text); };
  CocoDataset d = open(file("\xef\xbb\xbfsquare \r\n\r\n\tcircle"));
  REQUIRE(d.categories.size() == 2);
  CHECK(d.categories[0].name == "square");
  CHECK(d.categories[1].name == "circle");
  CHECK_THROWS_WITH(open(file("\xff\xfes\0q\0")), ContainsSubstring("UTF-16"));
  CHECK_THROWS_WITH(open(file("\n \n")), ContainsSubstring("is empty"));
  // A name that no file can have is a class's.
  CHECK_THROWS_WITH(open("'" + std::string(5000, 'x') + "'"), ContainsSubstring("no category"));
}

TEST_CASE("anchors that no box can have are refused, not taken to cover none") {
  TempDir dir("anchors");
  DrawShapes(dir.path, {.images = 2, .val = 1, .width = 64, .height = 64});
  const std::string text = "data: {train: {ann_file: " + dir.path.string() +
                           "/instances_train.json, img_scale: [64, 64]}}\n"
                           "model: {rpn_head: {anchor_generator: {";
  for (const char* wrong : {"strides: [0]", "strides: [4, 5000000000]", "strides: []",
                            "ratios: [1, -1]", "scales: [1.0e+300]", "scales: []"}) {
    INFO(wrong);
    const config::Reader config(config::LoadText(text + wrong + "}}}\n", "t.yaml").root);
    CHECK_THROWS_WITH(ReadAuditOptions(config),
                      ContainsSubstring("t.yaml:2:") && ContainsSubstring("out of range"));
  }
}

TEST_CASE("a mistake in a data part is named with its place") {
  auto refused = [](const std::string& line, const std::string& message) {
    INFO(line);
    std::string yaml =
        "data:\n  train:\n    ann_file: none.json\n    img_scale: [96, 64]\n    " + line + "\n";
    if (line.starts_with("img_scale"))
      yaml = "data:\n  train:\n    ann_file: none.json\n    " + line + "\n";
    config::Resolved resolved = config::LoadText(yaml, "test.yaml");
    CHECK_THROWS_WITH(OpenLoader(config::Reader(resolved.root), "train", 0),
                      ContainsSubstring("test.yaml:") && ContainsSubstring(message));
  };
  refused("img_scale: [96]", "not a size");
  refused("img_scale: 96", "not a size");
  refused("img_scale: [0, 5]", "from 1 to 65535");
  refused("img_scale: [[96, 64], 3]", "not a size");
  refused("multiscale_mode: range", "two scales");
  refused("flip_ratio: 1.5", "a number from 0 to 1");
  refused("size_divisor: 0", "an int from 1 to 4096");
  refused("last_batch: half", "half");
  refused("policy: lax", "lax");
  refused("classes: [a, a]", "`data.train.classes` has `a` twice");
  refused("classes: none.txt", "`data.train.classes` is a file that isn't there");
  refused("augment: {expand: {ratio: [3, 2]}}", "not a range");
  refused("augment: {mosaic: {fill: [1, 2]}}", "not a colour");
  refused("augment: {mixup: {probability: 2}}",
          "`data.train.augment.mixup.probability` is out of range");
  config::Resolved none =
      config::LoadText("data: {train: {ann_file: none.json, img_scale: [9, 9]}}", "test.yaml");
  CHECK_THROWS_WITH(OpenLoader(config::Reader(none.root), "train", 0),
                    ContainsSubstring("none.json"));
}

TEST_CASE("a classification part is a folder or a list") {
  TempDir dir("classes");
  DrawShapes(dir.path / "one", {.images = 3, .val = 0, .width = 64, .height = 64});
  DrawShapes(dir.path / "two", {.images = 2, .val = 0, .width = 64, .height = 64});
  dir.Write("list.txt", "one/images/train_000001.jpg two\ntwo/images/train_000002.jpg one\n");
  std::string yaml = R"(
data:
  samples_per_gpu: 2
  train: {type: ImageFolder, img_prefix: DIR, crop_size: 32, crop_scale: [0.5, 1], augment: {photometric: {}}}
  val: {type: ImageFolder, img_prefix: DIR, ann_file: DIR/list.txt, classes: [one, two], crop_size: 32, resize: 40}
)";
  for (size_t at; (at = yaml.find("DIR")) != std::string::npos;)
    yaml.replace(at, 3, dir.path.string());
  config::Reader config = Read(yaml);
  auto train = OpenClassLoader(config, "train", 1);
  CHECK(train->list().files.size() == 5);
  CHECK(train->options().photometric.probability == 0.5);
  CHECK(train->options().scale[0] == 0.5);
  auto val = OpenClassLoader(config, "val", 1);
  CHECK(val->list().labels == std::vector<int32_t>{1, 0});
  CHECK(val->options().resize == 40);
  ClassBatch batch;
  val->StartEpoch(0);
  REQUIRE(val->Next(&batch));
  CHECK(batch.images.size() == 2 * 32 * 32 * 3);
  CHECK(config.UnusedKeys().empty());
}
