#include <algorithm>
#include <cmath>

#include "catch.h"
#include "exp/models/ssd.h"
#include "graph/fixture.h"

using namespace xp;

TEST_CASE("SSD300's maps, default boxes and parameters are torchvision's") {
  models::SsdOptions options;
  options.num_classes = 90;
  graph::Graph g(std::make_shared<graph::ParamLayout>());
  models::MakeSsd300(options)->BuildEvaluation(g, {1, 300, 300, 0});
  const auto& attrs = std::get<graph::SsdAttrs>(g.ops().back().attrs);
  std::vector<int> sizes;
  for (const graph::SsdLevel& level : attrs.levels) sizes.push_back(level.height);
  CHECK(sizes == std::vector<int>{38, 19, 10, 5, 3, 1});

  graph::Fixture f("ssd.safetensors");
  std::vector<float> expected = f.Floats("ssd.ssd300.default_boxes");
  REQUIRE(attrs.boxes.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(attrs.boxes[i]) - expected[i]));
  CHECK(worst < 1e-4);

  // torchvision.models.detection.ssd300_vgg16(num_classes=91): sum(p.numel()) is 35,641,826.
  int64_t parameters = 0;
  for (const graph::Param& p : g.layout().params()) parameters += p.elements();
  CHECK(parameters == 35641826);
  CHECK(g.layout().FindParam("backbone.extra.0.7.1.weight") >= 0);
  CHECK(g.layout().FindParam("head.classification_head.module_list.5.bias") >= 0);
}
