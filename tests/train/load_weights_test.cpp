// load_from, reset and a backbone's weights, on a layout with the names of a small detector.
#include "src/train/load_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/load.h"
#include "exp/train/safetensors.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;

namespace {

// A detector of 2 classes with one convolution, one batch norm and a box head of one input.
struct Model {
  graph::ParamLayout layout;
  FlatState state;

  Model() {
    layout.AddParam({.name = "backbone.body.conv1.weight",
                     .shape = {2, 1, 1, 1},
                     .layout = graph::WeightLayout::kConv});
    layout.AddParam({.name = "backbone.body.bn1.weight", .shape = {2}, .is_norm = true});
    layout.AddState({"backbone.body.bn1.running_mean", {2}, 0});
    layout.AddState({"loss_scale", {1}, 1});
    layout.AddParam(
        {.name = "roi_heads.box_predictor.cls_score.bias", .shape = {3}, .is_bias = true});
    layout.AddParam(
        {.name = "roi_heads.box_predictor.bbox_pred.bias", .shape = {12}, .is_bias = true});
    state.params.resize(static_cast<size_t>(layout.param_elements()), -1);
    state.states.resize(static_cast<size_t>(layout.state_elements()), -1);
  }
  std::vector<float> Param(const std::string& name) const {
    const graph::Param& p = layout.params()[static_cast<size_t>(layout.FindParam(name))];
    return {state.params.begin() + p.offset, state.params.begin() + p.offset + p.elements()};
  }
};

void Write(const std::filesystem::path& path,
           const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
  std::vector<TensorView> views;
  for (const auto& [name, values] : tensors) {
    std::vector<int64_t> shape{static_cast<int64_t>(values.size())};
    if (name.ends_with("conv1.weight")) shape = {2, 1, 1, 1};
    views.push_back({{name, ElementType::kF32, shape}, values.data()});
  }
  WriteSafetensors(path, views, {});
}

const std::vector<std::pair<std::string, std::vector<float>>> kMmdetection = {
    {"backbone.conv1.weight", {5, 6}},
    {"backbone.bn1.weight", {7, 8}},
    {"backbone.bn1.running_mean", {1, 2}},
    {"roi_head.bbox_head.fc_cls.bias", {1, 2, 9}},
    {"roi_head.bbox_head.fc_reg.bias", {10, 11, 12, 13, 20, 21, 22, 23}}};

std::string Refusal(const WeightSource& source) {
  Model model;
  try {
    LoadWeights(source, model.layout, &model.state);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kUsage);
    return e.what();
  }
  return "loaded";
}

}  // namespace

TEST_CASE("another program's weights fill the model") {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  Write(path, kMmdetection);
  Model model;
  CHECK(LoadWeights({.path = path}, model.layout, &model.state).initial.empty());
  CHECK(model.Param("backbone.body.conv1.weight") == std::vector<float>{5, 6});
  CHECK(model.Param("roi_heads.box_predictor.cls_score.bias") == std::vector<float>{9, 1, 2});
  CHECK(std::vector<float>(model.state.states.begin(), model.state.states.begin() + 2) ==
        std::vector<float>{1, 2});
  Model last;
  LoadWeights({.path = path, .background = Background::kLast}, last.layout, &last.state);
  CHECK(last.Param("roi_heads.box_predictor.cls_score.bias") == std::vector<float>{1, 2, 9});
}

TEST_CASE("what doesn't fit is listed, unless it is to start anew") {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  auto tensors = kMmdetection;
  tensors[3].second = std::vector<float>(81, 1);  // COCO's head
  tensors[4].second = std::vector<float>(320, 1);
  Write(path, tensors);
  std::string refusal = Refusal({.path = path});
  CHECK_THAT(
      refusal,
      ContainsSubstring("roi_heads.box_predictor.cls_score.bias has shape [81], the model's [3]"));
  CHECK_THAT(refusal,
             ContainsSubstring(
                 "roi_heads.box_predictor.bbox_pred.bias has shape [324], the model's [12]"));
  for (const char* pattern : {"roi_heads.box_predictor.*", "roi_head.bbox_head.*"}) {
    Model model;
    std::vector<std::string> left =
        LoadWeights({.path = path, .reset = {pattern}}, model.layout, &model.state).initial;
    CHECK(left == std::vector<std::string>{"roi_heads.box_predictor.bbox_pred.bias",
                                           "roi_heads.box_predictor.cls_score.bias"});
    CHECK(model.Param("roi_heads.box_predictor.cls_score.bias") == std::vector<float>{-1, -1, -1});
    CHECK(model.Param("backbone.body.conv1.weight") == std::vector<float>{5, 6});
  }
  tensors.erase(tensors.begin() + 1);
  Write(path, tensors);
  CHECK_THAT(Refusal({.path = path, .reset = {"roi_heads.*"}}),
             ContainsSubstring("lacks 1 tensors") && ContainsSubstring("backbone.body.bn1.weight"));
}

TEST_CASE("a tensor of a kind that isn't read is an error only where the model needs it") {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  // What is named becomes an 8-bit float: the header says so, and the bytes are four times as many
  // elements.
  auto with_type = [&](const std::string& name) {
    auto tensors = kMmdetection;
    tensors.emplace_back("other.thing", std::vector<float>{1, 2});
    Write(path, tensors);
    std::string file = ReadFile(path);
    size_t at = file.find("\"" + name + "\"");
    REQUIRE(at != std::string::npos);
    size_t end = file.find('}', at);
    std::string entry = file.substr(at, end - at);
    std::string changed = entry;
    changed.replace(changed.find("F32"), 3, "F8_E4M3");
    for (int64_t size : {1, 2, 3, 8}) {
      const std::string shape = fmt::format("\"shape\":[{}]", size);
      if (size_t s = changed.find(shape); s != std::string::npos) {
        changed.replace(s, shape.size(), fmt::format("\"shape\":[{}]", 4 * size));
        break;
      }
    }
    std::string header = file.substr(8, file.rfind('}', file.find("}}", 8) + 1) - 7);
    header.replace(header.find(entry), entry.size(), changed);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    std::string data = file.substr(8 + length);
    length = header.size();
    std::string out(reinterpret_cast<const char*>(&length), 8);
    WriteFileAtomic(path, out + header + data);
  };
  with_type("other.thing");
  Model model;
  LoadedWeights loaded = LoadWeights({.path = path}, model.layout, &model.state);
  CHECK(loaded.passed_over ==
        "1 tensor is of kinds that aren't read: `other.thing` (has dtype F8_E4M3)");
  CHECK(model.Param("backbone.body.conv1.weight") == std::vector<float>{5, 6});
  // Under the name that it has in the file.
  with_type("roi_head.bbox_head.fc_cls.bias");
  CHECK_THAT(Refusal({.path = path}),
             ContainsSubstring("tensor `roi_head.bbox_head.fc_cls.bias`: has dtype F8_E4M3"));
  // Not where it is to start anew.
  Model reset;
  loaded = LoadWeights({.path = path, .reset = {"roi_heads.*"}}, reset.layout, &reset.state);
  CHECK(loaded.initial.size() == 2);
  CHECK_FALSE(loaded.passed_over.empty());
}

TEST_CASE("a classifier's weights start the backbone alone") {
  TempFolder folder;
  const std::string path = folder / "r.safetensors";
  Write(path, {{"conv1.weight", {5, 6}},
               {"bn1.weight", {7, 8}},
               {"bn1.running_mean", {1, 2}},
               {"fc.bias", {1, 2, 3}}});
  auto load = [&](const std::string& checkpoint) {
    Model model;
    std::vector<std::string> warnings;
    LoadInitialWeights(
        config::Reader(
            config::LoadText("model: {backbone: {init_cfg: {type: Pretrained, checkpoint: \"" +
                                 checkpoint + "\"}}}",
                             "a.yaml")
                .root),
        model.layout, {"a", "b"},
        [&](const std::string& code, const std::string&) { warnings.push_back(code); },
        &model.state);
    CHECK(warnings.empty());
    return model;
  };
  Model model = load(path);
  CHECK(model.Param("backbone.body.bn1.weight") == std::vector<float>{7, 8});
  CHECK(model.Param("roi_heads.box_predictor.cls_score.bias") == std::vector<float>{-1, -1, -1});
  CHECK_THROWS_WITH(load("torchvision://resnet50"),
                    ContainsSubstring("a.yaml:1") && ContainsSubstring("address"));
  Write(path, {{"conv1.weight", {5, 6}}});
  CHECK_THROWS_WITH(load(path), ContainsSubstring("lacks 2 tensors"));
}

TEST_CASE("a backbone's weights start a classifier, whatever stands before their names") {
  TempFolder folder;
  const std::string path = folder / "r.safetensors";
  const auto load = [&](const std::string& config) {
    graph::ParamLayout layout;
    FlatState state;
    layout.AddParam(
        {.name = "conv1.weight", .shape = {2, 1, 1, 1}, .layout = graph::WeightLayout::kConv});
    layout.AddParam({.name = "bn1.weight", .shape = {2}, .is_norm = true});
    layout.AddParam({.name = "fc.bias", .shape = {3}, .is_bias = true});
    state.params.resize(static_cast<size_t>(layout.param_elements()), -1);
    LoadInitialWeights(
        config::Reader(config::LoadText(config, "a.yaml").root), layout, {},
        [](const std::string&, const std::string&) {}, &state);
    std::vector<float> values;
    for (const graph::Param& p : layout.params())
      values.insert(values.end(), state.params.begin() + p.offset,
                    state.params.begin() + p.offset + p.elements());
    return values;
  };
  const std::string backbone =
      "model: {backbone: {init_cfg: {type: Pretrained, checkpoint: \"" + path + "\"}}}";
  const std::string whole = "load_from: \"" + path + "\"\n";
  const std::vector<float> started{5, 6, 7, 8, -1, -1, -1};
  // torchvision's or timm's; mmpretrain's or a training without labels; a detector's of ours.
  for (const char* before : {"", "module.", "backbone.", "module.backbone.", "backbone.body."}) {
    INFO(before);
    Write(path, {{fmt::format("{}conv1.weight", before), {5, 6}},
                 {fmt::format("{}bn1.weight", before), {7, 8}}});
    CHECK(load(backbone) == started);
    CHECK(load(whole + "reset: ['fc.*']") == started);
    CHECK_THROWS_WITH(load(whole), ContainsSubstring("lacks 1 tensors of the model:\n    fc.bias"));
  }
  // The file's own head is left alone, of whatever shape it is.
  Write(path, {{"conv1.weight", {5, 6}}, {"bn1.weight", {7, 8}}, {"fc.bias", {1, 2, 3, 4}}});
  CHECK(load(backbone) == started);
  CHECK_THROWS_WITH(load(whole), ContainsSubstring("fc.bias has shape [4], the model's [3]") &&
                                     ContainsSubstring("`reset: [fc.*]`"));
  Write(path, {{"conv1.weight", {5, 6}}, {"bn1.weight", {7, 8, 9}}, {"fc.bias", {1, 2, 3}}});
  CHECK_THROWS_WITH(load(backbone), ContainsSubstring("bn1.weight has shape [3], the model's [2]"));
  Write(path, {{"conv1.weight", {5, 6}}});
  CHECK_THROWS_WITH(load(backbone), ContainsSubstring("lacks 1 tensors of the model:\n    bn1"));
}

TEST_CASE("a detector that is to begin with a backbone's file alone is told where that belongs") {
  TempFolder folder;
  const std::string path = folder / "r.safetensors";
  for (const char* before : {"", "backbone.", "module."}) {
    Write(path, {{fmt::format("{}conv1.weight", before), {5, 6}},
                 {fmt::format("{}bn1.weight", before), {7, 8}},
                 {fmt::format("{}bn1.running_mean", before), {1, 2}}});
    CHECK_THAT(Refusal({.path = path}), ContainsSubstring("model.backbone.init_cfg"));
  }
  // A detector's, of which something is missing.
  auto tensors = kMmdetection;
  tensors.pop_back();
  Write(path, tensors);
  CHECK_THAT(Refusal({.path = path}), ContainsSubstring("exp weights show"));
}

TEST_CASE("a head that was trained on other classes is taken over, and said") {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  std::vector<TensorView> views;
  for (const auto& [name, values] : kMmdetection) {
    std::vector<int64_t> shape{static_cast<int64_t>(values.size())};
    if (name.ends_with("conv1.weight")) shape = {2, 1, 1, 1};
    views.push_back({{name, ElementType::kF32, shape}, values.data()});
  }
  WriteSafetensors(path, views,
                   {{"exp.categories", R"([{"id": 1, "name": "ant"}, {"id": 7, "name": "bee"}])"}});
  auto warnings = [&](const std::vector<std::string>& classes, const std::string& more = "") {
    Model model;
    std::vector<std::string> said;
    LoadInitialWeights(
        config::Reader(config::LoadText("load_from: \"" + path + "\"\n" + more, "a.yaml").root),
        model.layout, classes,
        [&](const std::string& code, const std::string& text) {
          if (code == "weights.classes") said.push_back(text);
        },
        &model.state);
    return said;
  };
  CHECK(warnings({"ant", "bee"}).empty());
  CHECK(warnings({}).empty());
  const std::vector<std::string> said = warnings({"bee", "ant"});
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], ContainsSubstring("trained on ant, bee, these data have bee, ant") &&
                          ContainsSubstring("`reset: [roi_heads.box_predictor.*]`"));
  CHECK(warnings({"bee", "ant"}, "reset: [roi_heads.box_predictor.*]").empty());
}
