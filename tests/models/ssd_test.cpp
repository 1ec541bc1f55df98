#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "catch.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/models/model.h"
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

TEST_CASE("SSD300's options are where they belong") {
  const config::Resolved resolved = config::Load(
      EXP_SOURCE_DIR "/configs/ssd300_bccd.yaml",
      std::vector<std::string>{
          "model.bbox_head.bbox_coder.target_stds=[1, 0.5, 0.25, 0.2]",
          "model.train_cfg.assigner.pos_iou_thr=0.6", "model.train_cfg.assigner.neg_iou_thr=0.3",
          "model.train_cfg.neg_pos_ratio=2", "model.train_cfg.smoothl1_beta=0.5",
          "model.test_cfg.score_thr=0.2", "model.test_cfg.nms.iou_threshold=0.35",
          "model.test_cfg.nms_pre=44", "model.test_cfg.max_per_img=33"});
  graph::Graph train(std::make_shared<graph::ParamLayout>()),
      eval(std::make_shared<graph::ParamLayout>());
  const auto model = models::CreateModel(config::Reader(resolved.root).Child("model"));
  model->BuildTraining(train, {1, 300, 300, 4});
  model->BuildEvaluation(eval, {1, 300, 300, 0});
  for (const graph::Op& op : train.ops()) {
    if (op.type != graph::OpType::kSsdTargets && op.type != graph::OpType::kSsdLoss) continue;
    const auto& a = std::get<graph::SsdAttrs>(op.attrs);
    CHECK(a.num_classes == 3);
    CHECK(a.coder.weights == std::array<float, 4>{1, 2, 4, 5});
    CHECK(a.matcher.positive == 0.6f);
    CHECK(a.matcher.negative == 0.3f);
    CHECK(a.negative_ratio == 2);
    CHECK(a.beta == 0.5f);
  }
  const auto& a = std::get<graph::SsdAttrs>(eval.ops().back().attrs);
  CHECK(a.coder.weights == std::array<float, 4>{1, 2, 4, 5});
  CHECK(a.min_score == 0.2f);
  CHECK(a.nms_iou == 0.35f);
  CHECK(a.candidates == 44);
  CHECK(a.max_detections == 33);
}
