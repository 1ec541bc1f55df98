// What a ResNet's parameters begin with.
#include <algorithm>
#include <set>

#include "catch.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/models/model.h"

namespace xp::models {
namespace {

// The names of norms whose scale begins with 0.
std::set<std::string> ZeroScales(const std::string& config, const std::vector<std::string>& set) {
  const config::Resolved resolved = config::Load(EXP_SOURCE_DIR "/configs/" + config, set);
  const auto layout = std::make_shared<graph::ParamLayout>();
  graph::Graph g(layout, graph::DType::kF32);
  CreateModel(config::Reader(resolved.root).Child("model"))
      ->BuildTraining(g, {.n = 1, .height = 64, .width = 64, .max_boxes = 4});
  std::set<std::string> names;
  for (const graph::Param& p : layout->params()) {
    if (p.is_norm && !p.is_bias && p.init.value == 0) names.insert(p.name);
    if (p.is_norm && !p.is_bias && p.init.value != 0) CHECK(p.init.value == 1);
  }
  return names;
}

}  // namespace

TEST_CASE("zero_init_residual: the scale of each block's last norm begins with 0, no other") {
  const char* recipe = "faster_rcnn_mmdet_bccd.yaml";
  const std::set<std::string> bottlenecks = ZeroScales(recipe, {});
  CHECK(bottlenecks.size() == 3 + 4 + 6 + 3);
  CHECK(bottlenecks.count("backbone.body.layer1.0.bn3.weight") == 1);
  CHECK(bottlenecks.count("backbone.body.layer4.2.bn3.weight") == 1);
  CHECK(ZeroScales(recipe, {"model.backbone.zero_init_residual=false"}).empty());
  CHECK(ZeroScales("faster_rcnn_bccd.yaml", {}).empty());
  const std::set<std::string> basic =
      ZeroScales("resnet18_imagenet.yaml", {"+model.backbone.zero_init_residual=true"});
  CHECK(basic.size() == 8);
  CHECK(basic.count("layer1.0.bn2.weight") == 1);
}

}  // namespace xp::models
