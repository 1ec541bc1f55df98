// Names as mmdetection's, torchvision's and timm's state dicts have them.
#include "exp/train/weight_names.h"

#include "catch.h"
#include "exp/base/error.h"
#include "exp/train/safetensors.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;

namespace {

struct Source {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::unique_ptr<TensorFile> Make(const TempFolder& folder, std::vector<Source> sources,
                                 std::map<std::string, std::string> metadata = {}) {
  std::vector<TensorView> views;
  for (Source& s : sources) {
    size_t count = 1;
    for (int64_t d : s.shape) count *= static_cast<size_t>(d);
    s.values.resize(count);
    views.push_back({{s.name, ElementType::kF32, s.shape}, s.values.data()});
  }
  WriteSafetensors(folder / "in.safetensors", views, metadata);
  return OpenSafetensors(folder / "in.safetensors");
}

std::vector<std::string> Names(const TensorFile& file) {
  std::vector<std::string> names;
  for (const TensorInfo& t : file.tensors()) names.push_back(t.name);
  return names;
}

// Two classes: rows of the classifier are 1, 2 (classes) and 9 (background); of the deltas 10..
// and 20..
const std::vector<Source> kMmdetectionHead = {
    {"roi_head.bbox_head.fc_cls.weight", {3, 1}, {1, 2, 9}},
    {"roi_head.bbox_head.fc_cls.bias", {3}, {1, 2, 9}},
    {"roi_head.bbox_head.fc_reg.weight", {8, 1}, {10, 11, 12, 13, 20, 21, 22, 23}},
    {"roi_head.bbox_head.fc_reg.bias", {8}, {10, 11, 12, 13, 20, 21, 22, 23}}};
const std::string kPredictor = "roi_heads.box_predictor.";

}  // namespace

TEST_CASE("names of Faster R-CNN's parts") {
  const std::pair<const char*, const char*> pairs[] = {
      {"backbone.conv1.weight", "backbone.body.conv1.weight"},
      {"backbone.layer4.2.bn3.running_var", "backbone.body.layer4.2.bn3.running_var"},
      {"backbone.layer1.0.downsample.1.bias", "backbone.body.layer1.0.downsample.1.bias"},
      {"neck.lateral_convs.0.conv.weight", "backbone.fpn.inner_blocks.0.0.weight"},
      {"neck.fpn_convs.3.conv.bias", "backbone.fpn.layer_blocks.3.0.bias"},
      {"rpn_head.rpn_conv.weight", "rpn.head.conv.0.0.weight"},
      {"rpn_head.rpn_cls.bias", "rpn.head.cls_logits.bias"},
      {"rpn_head.rpn_reg.weight", "rpn.head.bbox_pred.weight"},
      {"roi_head.bbox_head.shared_fcs.0.weight", "roi_heads.box_head.fc6.weight"},
      {"roi_head.bbox_head.shared_fcs.1.bias", "roi_heads.box_head.fc7.bias"},
      {"roi_head.bbox_head.fc_cls.weight", "roi_heads.box_predictor.cls_score.weight"},
      {"roi_head.bbox_head.fc_reg.weight", "roi_heads.box_predictor.bbox_pred.weight"}};
  for (const auto& [theirs, ours] : pairs) {
    CHECK(ToOurName(NameStyle::kMmdetection, theirs) == ours);
    CHECK(FromOurName(NameStyle::kMmdetection, ours) == theirs);
  }
  CHECK_FALSE(ToOurName(NameStyle::kMmdetection, "roi_head.mask_head.convs.0.conv.weight"));
  CHECK_FALSE(ToOurName(NameStyle::kMmdetection, "neck.lateral_convs.x.conv.weight"));
  CHECK_FALSE(
      FromOurName(NameStyle::kMmdetection, "optimizer.momentum.backbone.body.conv1.weight"));
  // torchvision's own files of before 0.13 (fasterrcnn_resnet50_fpn_coco-258fb6c6.pth).
  CHECK(ToOurName(NameStyle::kTorchvision, "backbone.fpn.inner_blocks.2.weight") ==
        "backbone.fpn.inner_blocks.2.0.weight");
  CHECK(ToOurName(NameStyle::kTorchvision, "backbone.fpn.inner_blocks.2.0.weight") ==
        "backbone.fpn.inner_blocks.2.0.weight");
  CHECK(ToOurName(NameStyle::kTorchvision, "rpn.head.conv.bias") == "rpn.head.conv.0.0.bias");
  CHECK(ToOurName(NameStyle::kTimm, "layer0.conv1.weight") == "conv1.weight");
  CHECK(ToOurName(NameStyle::kTimm, "layer3.5.se_module.fc1.bias") == "layer3.5.se.fc1.bias");
  CHECK(ToOurName(NameStyle::kTimm, "last_linear.weight") == "fc.weight");
}

TEST_CASE("mmdetection's head gets background's rows where torchvision has them") {
  TempFolder folder;
  auto renamed = Rename(Make(folder, kMmdetectionHead), {});
  CHECK(renamed->ReadFloats(kPredictor + "cls_score.weight") == std::vector<float>{9, 1, 2});
  CHECK(renamed->ReadFloats(kPredictor + "cls_score.bias") == std::vector<float>{9, 1, 2});
  CHECK(renamed->Find(kPredictor + "bbox_pred.weight")->shape == std::vector<int64_t>{12, 1});
  CHECK(renamed->ReadFloats(kPredictor + "bbox_pred.weight") ==
        std::vector<float>{0, 0, 0, 0, 10, 11, 12, 13, 20, 21, 22, 23});
  // For a model that has background last.
  auto last = Rename(Make(folder, kMmdetectionHead), {.background = Background::kLast});
  CHECK(last->ReadFloats(kPredictor + "cls_score.bias") == std::vector<float>{1, 2, 9});
  CHECK(last->ReadFloats(kPredictor + "bbox_pred.bias") ==
        std::vector<float>{10, 11, 12, 13, 20, 21, 22, 23, 0, 0, 0, 0});
  CHECK(last->metadata().at("exp.background") == "last");
  // There and back.
  auto back = Rename(Rename(Make(folder, kMmdetectionHead), {}), {.to = NameStyle::kMmdetection});
  auto original = Make(folder, kMmdetectionHead);
  REQUIRE(Names(*back) == Names(*original));
  for (const std::string& name : Names(*back)) {
    CHECK(back->ReadFloats(name) == original->ReadFloats(name));
    CHECK(back->Find(name)->shape == original->Find(name)->shape);
  }
}

TEST_CASE(
    "a checkpoint's own rows are moved by what its metadata says, optimizer state with them") {
  TempFolder folder;
  std::vector<Source> head = {
      {kPredictor + "cls_score.bias", {3}, {1, 2, 9}},
      {kPredictor + "bbox_pred.bias", {12}, {10, 11, 12, 13, 20, 21, 22, 23, 7, 7, 7, 7}},
      {"optimizer.momentum." + kPredictor + "cls_score.bias", {3}, {4, 5, 6}}};
  auto moved = Rename(Make(folder, head, {{"exp.background", "last"}}), {});
  CHECK(moved->ReadFloats(kPredictor + "cls_score.bias") == std::vector<float>{9, 1, 2});
  CHECK(moved->ReadFloats(kPredictor + "bbox_pred.bias") ==
        std::vector<float>{0, 0, 0, 0, 10, 11, 12, 13, 20, 21, 22, 23});
  CHECK(moved->ReadFloats("optimizer.momentum." + kPredictor + "cls_score.bias") ==
        std::vector<float>{6, 4, 5});
  auto kept =
      Rename(Make(folder, head, {{"exp.background", "last"}}), {.background = Background::kLast});
  CHECK(kept->ReadFloats(kPredictor + "bbox_pred.bias")[8] == 7);
  auto agnostic = Rename(Make(folder, {{kPredictor + "cls_score.bias", {3}, {1, 2, 9}},
                                       {kPredictor + "bbox_pred.bias", {4}, {1, 2, 3, 4}}}),
                         {.background = Background::kLast});
  CHECK(agnostic->ReadFloats(kPredictor + "bbox_pred.bias") == std::vector<float>{1, 2, 3, 4});
  CHECK(agnostic->ReadFloats(kPredictor + "cls_score.bias") == std::vector<float>{2, 9, 1});
}

TEST_CASE("a classifier becomes a backbone") {
  TempFolder folder;
  auto backbone = Rename(Make(folder, {{"module.conv1.weight", {1}, {}},
                                       {"module.fc.weight", {1}, {}},
                                       {"module.layer1.0.bn1.bias", {1}, {}}}),
                         {.as_backbone = true});
  CHECK(Names(*backbone) ==
        std::vector<std::string>{"backbone.body.conv1.weight", "backbone.body.layer1.0.bn1.bias"});
  auto vgg = Rename(Make(folder, {{"features.21.weight", {1}, {}},
                                  {"features.24.weight", {1}, {}},
                                  {"classifier.0.weight", {1}, {}}}),
                    {.as_backbone = true});
  CHECK(Names(*vgg) ==
        std::vector<std::string>{"backbone.extra.0.1.weight", "backbone.features.21.weight"});
}

TEST_CASE("what wrappers put before every name doesn't hide whose names they are") {
  TempFolder folder;
  auto file = Rename(Make(folder, {{"module._orig_mod.neck.lateral_convs.0.conv.bias", {1}, {}},
                                   {"module._orig_mod.backbone.bn1.bias", {1}, {}}}),
                     {});
  CHECK(Names(*file) ==
        std::vector<std::string>{"backbone.body.bn1.bias", "backbone.fpn.inner_blocks.0.0.bias"});
}

TEST_CASE("two names that would become one are refused") {
  TempFolder folder;
  CHECK_THROWS_WITH(Rename(Make(folder, {{"rpn.head.conv.weight", {1}, {}},
                                         {"rpn.head.conv.0.0.weight", {1}, {}}}),
                           {}),
                    ContainsSubstring("would both be"));
}
