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

TEST_CASE("the model's names are found behind any prefix") {
  TempFolder folder;
  auto names = [&](std::vector<std::string> in) {
    std::vector<Source> sources;
    for (std::string& name : in) sources.push_back({std::move(name), {1}, {}});
    return Names(*Rename(Make(folder, sources), {}));
  };
  using Expected = std::vector<std::string>;
  CHECK(names({"student.layer1.0.conv1.weight", "student.fc.bias"}) ==
        Expected{"fc.bias", "layer1.0.conv1.weight"});
  // What another model or no model has goes; of a model and its average the model stays.
  CHECK(names({"net.rpn.head.cls_logits.bias", "criterion.weight", "n_averaged"}) ==
        Expected{"rpn.head.cls_logits.bias"});
  CHECK(names({"ema_model.module.fc.bias", "model.fc.bias"}) == Expected{"fc.bias"});
  CHECK(names({"ema.module.fc.bias"}) == Expected{"fc.bias"});
  CHECK(names({"schema.fc.bias", "teacher.fc.bias"}) == Expected{"fc.bias"});
  // A checkpoint of ours: the weights are bare, the rest of it isn't.
  CHECK(names({"fc.bias", "ema.fc.bias", "optimizer.momentum.fc.bias"}) ==
        Expected{"ema.fc.bias", "fc.bias", "optimizer.momentum.fc.bias"});
  CHECK(names({"strange.weight", "names.bias"}) == Expected{"names.bias", "strange.weight"});
  CHECK_THROWS_WITH(names({"encoder_k.fc.bias", "encoder_q.fc.bias"}),
                    ContainsSubstring("behind `encoder_k.` and `encoder_q.`"));
}

// mmdetection 3.3.0's own state dict, loaded so into torchvision's ssd300_vgg16, gives its outputs
// to 3e-9; with backgrounds' rows at the other end.
TEST_CASE("names of SSD300's parts") {
  const std::pair<const char*, const char*> pairs[] = {
      {"backbone.features.0.weight", "backbone.features.0.weight"},
      {"backbone.features.21.bias", "backbone.features.21.bias"},
      {"backbone.features.24.weight", "backbone.extra.0.1.weight"},
      {"backbone.features.28.bias", "backbone.extra.0.5.bias"},
      {"backbone.features.31.weight", "backbone.extra.0.7.1.weight"},
      {"backbone.features.33.weight", "backbone.extra.0.7.3.weight"},
      {"neck.l2_norm.weight", "backbone.scale_weight"},
      {"neck.extra_layers.0.0.conv.weight", "backbone.extra.1.0.weight"},
      {"neck.extra_layers.3.1.conv.bias", "backbone.extra.4.2.bias"},
      {"bbox_head.cls_convs.5.0.bias", "head.classification_head.module_list.5.bias"},
      {"bbox_head.reg_convs.0.0.weight", "head.regression_head.module_list.0.weight"}};
  for (const auto& [theirs, ours] : pairs) {
    CHECK(ToOurName(NameStyle::kMmdetection, theirs) == ours);
    CHECK(FromOurName(NameStyle::kMmdetection, ours) == theirs);
  }
  // Before mmdetection 2.14.
  CHECK(ToOurName(NameStyle::kMmdetection, "backbone.l2_norm.weight") == "backbone.scale_weight");
  CHECK(ToOurName(NameStyle::kMmdetection, "backbone.extra.3.weight") ==
        "backbone.extra.2.2.weight");
  CHECK(ToOurName(NameStyle::kMmdetection, "bbox_head.cls_convs.2.bias") ==
        "head.classification_head.module_list.2.bias");
}

TEST_CASE("each anchor of SSD's classifiers gets background's row where torchvision has it") {
  TempFolder folder;
  // Two anchors of two classes and background (9).
  const std::vector<Source> head = {{"bbox_head.cls_convs.0.0.bias", {6}, {1, 2, 9, 3, 4, 8}},
                                    {"bbox_head.reg_convs.0.0.bias", {8}, {}}};
  const std::string name = "head.classification_head.module_list.0.bias";
  auto renamed = Rename(Make(folder, head), {});
  CHECK(renamed->ReadFloats(name) == std::vector<float>{9, 1, 2, 8, 3, 4});
  auto back = Rename(Rename(Make(folder, head), {}), {.to = NameStyle::kMmdetection});
  CHECK(back->ReadFloats("bbox_head.cls_convs.0.0.bias") == std::vector<float>{1, 2, 9, 3, 4, 8});
}

// mmpretrain 1.x's SEResNeXt-50, loaded so into timm's seresnext50_32x4d, gives the same features.
TEST_CASE("a classifier of mmpretrain's, with squeeze-and-excitation") {
  TempFolder folder;
  const std::vector<Source> sources = {{"backbone.conv1.weight", {1}, {}},
                                       {"backbone.layer1.0.se_layer.conv1.conv.weight", {1}, {}},
                                       {"backbone.layer1.0.se_layer.conv2.conv.bias", {1}, {}},
                                       {"head.fc.weight", {1}, {}}};
  CHECK(Names(*Rename(Make(folder, sources), {})) ==
        std::vector<std::string>{"conv1.weight", "fc.weight", "layer1.0.se.fc1.weight",
                                 "layer1.0.se.fc2.bias"});
  CHECK(Names(*Rename(Make(folder, sources), {.as_backbone = true})) ==
        std::vector<std::string>{"backbone.body.conv1.weight",
                                 "backbone.body.layer1.0.se.fc1.weight",
                                 "backbone.body.layer1.0.se.fc2.bias"});
  CHECK(FromOurName(NameStyle::kMmdetection, "backbone.body.layer1.0.se.fc1.weight") ==
        "backbone.layer1.0.se_layer.conv1.conv.weight");
}

TEST_CASE("two names that would become one are refused") {
  TempFolder folder;
  CHECK_THROWS_WITH(Rename(Make(folder, {{"rpn.head.conv.weight", {1}, {}},
                                         {"rpn.head.conv.0.0.weight", {1}, {}}}),
                           {}),
                    ContainsSubstring("would both be"));
}
