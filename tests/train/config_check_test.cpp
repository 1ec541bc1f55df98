// What a config asks of its model that the model doesn't have is told before any data is there, and
// refused by a run in the same words.
#include "exp/train/config_check.h"

#include <algorithm>

#include "catch.h"
#include "exp/config/load.h"
#include "exp/train/safetensors.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;
using config::Finding;
using config::Level;

namespace {

std::vector<Finding> CheckOf(const std::string& config, const std::vector<std::string>& set) {
  return CheckConfig(config::Load(EXP_SOURCE_DIR "/configs/" + config, set).root);
}

// "error rule message" a line.
std::string Told(const std::string& config, const std::vector<std::string>& set) {
  std::string lines;
  for (const Finding& f : CheckOf(config, set))
    lines += std::string(config::LevelName(f.level)) + " " + f.rule + " " + f.message + "\n";
  return lines;
}

}  // namespace

TEST_CASE("configs that are fine have no findings") {
  for (const char* config :
       {"quickstart.yaml", "faster_rcnn_bccd.yaml", "faster_rcnn_mmdet_bccd.yaml",
        "ssd300_bccd.yaml", "resnet50_bccd_cells.yaml", "seresnext101_32x4d_imagenet.yaml"}) {
    CAPTURE(config);
    CHECK(Told(config, {}) == "");
  }
}

TEST_CASE("parameter groups that fit no parameter are all named, with the names that there are") {
  std::vector<Finding> found =
      CheckOf("quickstart.yaml",
              {"+optimizer.paramwise_cfg.custom_keys={bakcbone: {lr_mult: 0.1}, rpn: {lr_mult: 2}, "
               "'absolute_pos_embed': {decay_mult: 0}}"});
  REQUIRE(found.size() == 1);
  CHECK(found[0].level == Level::kError);
  CHECK(found[0].rule == "optimizer");
  CHECK(found[0].where == "--set #1");
  CHECK_THAT(found[0].message,
             ContainsSubstring("`bakcbone`, `absolute_pos_embed` fit no parameter") &&
                 ContainsSubstring("`backbone.body`") && ContainsSubstring("`backbone.fpn`") &&
                 ContainsSubstring("`roi_heads.box_head`"));
  CHECK_THAT(
      Told("ssd300_bccd.yaml", {"+optimizer.paramwise_cfg.custom_keys={fpn: {lr_mult: 0.1}}"}),
      ContainsSubstring("error optimizer `fpn` fits no parameter"));
  CHECK_THAT(
      Told("quickstart.yaml", {"+optimizer.paramwise_cfg.custom_keys={conv1: {lr_mult: 0.1}}",
                               "model.backbone.frozen_stages=4"}),
      ContainsSubstring("warning param-groups `conv1` fits only parameters that are frozen"));
}

TEST_CASE("layers to start anew must be there, and a file for the others") {
  TempFolder folder;
  const float value = 1;
  WriteSafetensors(
      folder / "w.safetensors",
      std::vector<TensorView>{{{"backbone.body.conv1.weight", ElementType::kF32, {1}}, &value}},
      {});
  const std::string load = "load_from=" + (folder / "w.safetensors").string();
  CHECK_THAT(Told("quickstart.yaml", {load, "+reset=[roi_heads.box_predictor]"}),
             ContainsSubstring(
                 "error weights `reset` names `roi_heads.box_predictor`, which fits no layer") &&
                 ContainsSubstring("`roi_heads.box_predictor.*`"));
  // A shape is found by the file's header alone, before what is missing.
  CHECK_THAT(Told("quickstart.yaml", {load}),
             ContainsSubstring("error weights 1 of the file's tensors don't fit the model") &&
                 ContainsSubstring("backbone.body.conv1.weight has shape [1]"));
  CHECK_THAT(Told("quickstart.yaml", {load, "+reset=[backbone.body.*]"}),
             ContainsSubstring("error weights lacks"));
  CHECK(Told("quickstart.yaml", {load, "+reset=['*']"}) == "");
  // A file of another machine is `missing-path`'s business.
  CHECK(Told("quickstart.yaml", {"load_from=/nowhere/a.pth"}) == "");
  CHECK_THAT(Told("quickstart.yaml", {"load_from=/nowhere/a.pth", "+reset=[fc.*]"}),
             ContainsSubstring("`fc.*`, which fits no layer"));
  CHECK_THAT(Told("quickstart.yaml", {"+reset=[roi_heads.*]"}),
             ContainsSubstring("warning unused-key") && ContainsSubstring("`reset`"));
  CHECK_THAT(
      Told("faster_rcnn_bccd.yaml",
           {"model.backbone.init_cfg={type: Pretrained, checkpoint: 'torchvision://resnet50'}"}),
      ContainsSubstring("is the address"));
}

TEST_CASE("stages, metrics and parts that the model doesn't have are refused") {
  auto error = [](const std::string& config, const std::string& set, const std::string& text) {
    CAPTURE(config, set);
    CHECK_THAT(Told(config, {set}), ContainsSubstring("error ") && ContainsSubstring(text));
  };
  error("quickstart.yaml", "model.backbone.frozen_stages=5", "-1 to 4");
  error("quickstart.yaml", "model.backbone.frozen_stages=-2", "-1 to 4");
  // ResNeXt's first stage has base_channels x 4 / 64 channels in each group.
  error("resnext50_32x4d_imagenet.yaml", "+model.backbone.base_channels=15", "at least 16");
  error("resnext50_32x4d_imagenet.yaml", "model.backbone.base_width=1000000", "wider than any");
  error("seresnext50_32x4d_imagenet.yaml", "model.backbone={base_channels: 3, base_width: 64}",
        "at least 4");
  CHECK(Told("resnext50_32x4d_imagenet.yaml", {"+model.backbone.base_channels=16"}) == "");
  error("ssd300_bccd.yaml", "model.backbone.frozen_stages=6", "5 stages");
  error("ssd300_bccd.yaml", "model.backbone.frozen_stages=-3", "5 stages");
  error("quickstart.yaml", "evaluation.metric=accuracy", "gives no `accuracy`");
  error("quickstart.yaml", "+evaluation.save_best=top1", "gives no `top1`");
  error("quickstart.yaml", "+evaluation.save_best=bbox_map", "bbox_mAP, bbox_mAP_50");
  error("quickstart.yaml", "+evaluation.save_best=segm_mAP", "gives no `segm_mAP`");
  error("resnet50_bccd_cells.yaml", "+evaluation.save_best=top5", "expected auto, top1 or");
  CHECK(Told("resnet50_imagenet.yaml", {"+evaluation.save_best=top5"}) == "");
  CHECK(Told("quickstart.yaml", {"+evaluation.save_best=bbox_AP/circle"}) == "");
  error("quickstart.yaml", "data.train.multiscale_mode=range", "two scales");
  CHECK_THAT(Told("quickstart.yaml", {"+evaluation.save_best=auto", "~data.val", "~data.test"}),
             ContainsSubstring("although nothing is evaluated"));
  // A detector's boxes aren't in a folder of classes.
  error("quickstart.yaml", "data.train.type=ImageFolder", "CocoDataset");
}

TEST_CASE("keys that a run of this config doesn't read are told, whatever part they are in") {
  auto unread = [](const std::string& config, const std::string& set, const std::string& key) {
    CAPTURE(config, set);
    CHECK_THAT(Told(config, {set}),
               ContainsSubstring("warning unused-key") && ContainsSubstring("`" + key + "`"));
  };
  unread("resnet50_bccd_cells.yaml", "+data.train.limit=10", "data.train.limit");
  unread("resnet50_bccd_cells.yaml", "+data.train.size_divisor=32", "data.train.size_divisor");
  unread("quickstart.yaml", "+data.train.crop_size=224", "data.train.crop_size");
  unread("ssd300_bccd.yaml", "model.neck={type: FPN}", "model.neck");
}
