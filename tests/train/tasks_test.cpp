// Classifiers and SSD trained from configs, small; resumed to the same bits; accumulation against
// the large batch; what is refused before anything is trained.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/load.h"
#include "exp/data/coco.h"
#include "exp/data/crops.h"
#include "exp/data/shapes.h"
#include "exp/train/checkpoint.h"
#include "exp/train/inference.h"
#include "exp/train/trainer.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;
namespace fs = std::filesystem;

namespace {

struct Diary : Observer {
  std::vector<std::string> epochs, codes;
  std::vector<double> totals;
  NamedValues metrics;
  void OnStep(const StepEvent& e) override { totals.push_back(e.total); }
  void OnEpoch(const EpochEvent& e) override {
    epochs.push_back(e.weights_hash.Hex() + e.optimizer_hash.Hex());
    metrics = e.metrics;
  }
  void OnWarning(const WarningEvent& e) override { codes.push_back(e.code); }
  double Metric(const std::string& name) const {
    for (const auto& [key, value] : metrics) {
      if (key == name) return value;
    }
    return -1;
  }
};

Diary Run(const config::Node& config, const fs::path& work_dir, const fs::path& resume = {}) {
  TrainOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.seed = 5;
  options.work_dir = work_dir;
  options.resume_checkpoint = resume;
  Diary diary;
  Train(config, options, diary);
  return diary;
}

config::Node Load(const std::string& name, const std::vector<std::string>& set) {
  return config::Load(EXP_SOURCE_DIR "/configs/" + name, set).root;
}

// Drawn shapes, and their boxes cut out.
class Shapes {
 public:
  explicit Shapes(int images = 24) {
    data::DrawShapes(folder / "shapes",
                     {.images = images, .val = 6, .seed = 3, .width = 96, .height = 96});
    for (const char* part : {"train", "val"}) {
      auto dataset = data::LoadCoco(folder / "shapes" / fmt::format("instances_{}.json", part));
      data::CutBoxes(dataset, folder / "shapes/images", folder / "cells" / part);
    }
  }
  config::Node Cells(std::vector<std::string> set) const {
    std::vector<std::string> all = {"data_root=" + (folder / "cells").string(),
                                    "data.samples_per_gpu=8",
                                    "data.train.crop_size=32",
                                    "data.val.crop_size=32",
                                    "data.val.resize=36",
                                    "model.backbone.depth=18",
                                    "model.backbone.base_channels=8",
                                    "lr_config.policy=fixed",
                                    "~lr_config.warmup",
                                    "optimizer.lr=0.02",
                                    "runner.max_epochs=4"};
    all.insert(all.end(), set.begin(), set.end());
    return Load("resnet50_bccd_cells.yaml", all);
  }
  TempFolder folder;
};

}  // namespace

TEST_CASE("a classifier learns to tell drawn shapes, and resumes to the same bits") {
  Shapes shapes;
  config::Node config = shapes.Cells({"evaluation.save_best=auto"});
  Diary whole = Run(config, shapes.folder / "whole");
  REQUIRE(whole.epochs.size() == 4);
  CHECK(whole.Metric("top1") > 0.5);  // a third by chance
  CHECK(whole.Metric("accuracy/circle") >= 0);
  fs::path middle = shapes.folder / "whole" / "epoch_2.safetensors";
  Diary rest = Run(config, shapes.folder / "rest", middle);
  REQUIRE(rest.epochs.size() == 2);
  CHECK(rest.epochs[1] == whole.epochs[3]);

  // The checkpoint at work outside of training says the same.
  InferenceOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.weights = shapes.folder / "whole" / "epoch_4.safetensors";
  Inference model(config, options);
  auto scores = model.Classify(model.OpenClassPart());
  const auto images = static_cast<int64_t>(scores.size());
  std::vector<std::pair<int64_t, int64_t>> told;
  InferenceOptions watched = options;
  watched.tta.flip = true;
  watched.progress = [&](int64_t done, int64_t total) { told.emplace_back(done, total); };
  Inference(config, watched).Classify(model.OpenClassPart());
  REQUIRE(!told.empty());
  CHECK(std::is_sorted(told.begin(), told.end()));
  CHECK(told.back() == std::pair{2 * images, 2 * images});  // each mirrored, too
  int right = 0;
  for (const ClassScores& s : scores) {
    size_t best = 0;
    for (size_t k = 1; k < s.scores.size(); ++k) {
      if (s.scores[k] > s.scores[best]) best = k;
    }
    right += static_cast<int>(best) == s.label ? 1 : 0;
  }
  CHECK(static_cast<double>(right) / static_cast<double>(scores.size()) ==
        Approx(whole.Metric("top1")));
  CHECK(model.categories()[0].name == "circle");
  // Folders of the same number of other classes, or in another order, are no scores to compute.
  Inference mixed(shapes.Cells({"+data.val.classes=[square, circle, triangle]"}), options);
  CHECK_THROWS_WITH(mixed.OpenClassPart(),
                    ContainsSubstring("the model has the classes circle, square, triangle, the "
                                      "data have square, circle, triangle"));
}

TEST_CASE("a list, a COCO file and a folder of the same images train to the same bits") {
  Shapes shapes(8);
  fs::path root = shapes.folder / "cells/train";
  std::string list, images, annotations;
  int id = 0;
  data::ImageList folder = data::ListImageFolder(root);
  for (size_t i = 0; i < folder.files.size(); ++i) {
    list += folder.files[i] + " " + folder.classes[static_cast<size_t>(folder.labels[i])] + "\n";
    const char* comma = i == 0 ? "" : ",";
    images += fmt::format("{}{{\"id\":{},\"file_name\":\"{}\"}}", comma, ++id, folder.files[i]);
    annotations += fmt::format("{}{{\"id\":{},\"image_id\":{},\"category_id\":{}}}", comma, id, id,
                               folder.labels[i] + 1);
  }
  std::string categories;
  for (size_t c = 0; c < folder.classes.size(); ++c)
    categories +=
        fmt::format("{}{{\"id\":{},\"name\":\"{}\"}}", c == 0 ? "" : ",", c + 1, folder.classes[c]);
  WriteFileAtomic(shapes.folder / "list.txt", list);
  WriteFileAtomic(shapes.folder / "list.json",
                  fmt::format(R"({{"images":[{}],"annotations":[{}],"categories":[{}]}})", images,
                              annotations, categories));
  std::vector<std::string> set{"runner.max_epochs=1", "evaluation.interval=1", "~data.val"};
  Diary a = Run(shapes.Cells(set), shapes.folder / "a");
  set.push_back("+data.train.classes=[circle, square, triangle]");
  set.push_back("+data.train.ann_file=" + (shapes.folder / "list.txt").string());
  Diary b = Run(shapes.Cells(set), shapes.folder / "b");
  set.back() = "+data.train.ann_file=" + (shapes.folder / "list.json").string();
  Diary c = Run(shapes.Cells(set), shapes.folder / "c");
  CHECK(a.epochs == b.epochs);
  CHECK(a.epochs == c.epochs);
}

TEST_CASE("every family of classifiers trains a step") {
  Shapes shapes(8);
  for (const char* backbone :
       {"{type: ResNeXt, depth: 50, groups: 8, base_width: 4, base_channels: 16}",
        "{type: SEResNeXt, depth: 50, groups: 8, base_width: 4, base_channels: 16}",
        "{type: ResNet, depth: 34, base_channels: 8, norm_cfg: {type: FrozenBN}}"}) {
    INFO(backbone);
    Diary d = Run(shapes.Cells({"runner.max_epochs=1", std::string("model.backbone=") + backbone,
                                "model.head.label_smoothing=0.1", "~data.val"}),
                  shapes.folder / "run");
    CHECK(d.epochs.size() == 1);
    CHECK(std::isfinite(d.totals.back()));
  }
}

TEST_CASE("SSD300 trains, gives AP and resumes to the same bits") {
  Shapes shapes(8);
  config::Node config =
      Load("ssd300_bccd.yaml",
           {"data_root=" + (shapes.folder / "shapes").string(), "data.samples_per_gpu=4",
            "~data.test", "data.train.img_prefix=" + (shapes.folder / "shapes/images").string(),
            "data.val.img_prefix=" + (shapes.folder / "shapes/images").string(),
            "model.backbone.base_channels=4", "lr_config.policy=fixed", "~lr_config.warmup",
            "runner.max_epochs=2"});
  Diary whole = Run(config, shapes.folder / "whole");
  REQUIRE(whole.epochs.size() == 2);
  CHECK(whole.Metric("bbox_mAP") >= 0);
  CHECK(whole.totals.back() < whole.totals.front());
  Diary rest = Run(config, shapes.folder / "rest", shapes.folder / "whole/epoch_1.safetensors");
  CHECK(rest.epochs.at(0) == whole.epochs[1]);
}

// Report 4 (vision#2144, #1598).
TEST_CASE("images without boxes train, also a whole batch of them") {
  Shapes shapes(4);
  fs::path file = shapes.folder / "shapes/instances_train.json";
  nlohmann::json json = nlohmann::json::parse(ReadFile(file));
  json["annotations"] = nlohmann::json::array();
  WriteFileAtomic(file, json.dump());
  Diary d =
      Run(Load("quickstart.yaml",
               {"data_root=" + (shapes.folder / "shapes").string(), "~data.test", "~data.val",
                "data.train.img_scale=[96, 96]", "data.train.filter_empty_gt=false",
                "data.train.times=1", "data.samples_per_gpu=2", "runner.max_epochs=1",
                "lr_config.policy=fixed", "~lr_config.warmup", "model.backbone.base_channels=8",
                "model.neck.out_channels=16", "model.roi_head.bbox_head.fc_out_channels=32",
                "model.train_cfg.rpn_proposal={nms_pre: 50, max_per_img: 40}"}),
          shapes.folder / "run");
  CHECK(d.totals.size() == 2);
  for (double total : d.totals) CHECK(std::isfinite(total));
}

TEST_CASE("accumulation equals the large batch where no batch norm trains") {
  Shapes shapes(8);
  auto weights = [&](const std::vector<std::string>& set, const char* name) {
    std::vector<std::string> all{"runner.max_epochs=2", "~data.val",
                                 "model.backbone.norm_cfg={type: FrozenBN}"};
    all.insert(all.end(), set.begin(), set.end());
    Diary d = Run(shapes.Cells(all), shapes.folder / name);
    CHECK(std::count(d.codes.begin(), d.codes.end(), "accumulate.batch_norm") == 0);
    Checkpoint c = LoadCheckpoint(shapes.folder / name / "epoch_2.safetensors");
    std::map<std::string, std::vector<float>> tensors;
    for (const TensorInfo& t : c.file->tensors()) {
      bool model = !t.name.starts_with("optimizer.") && t.name != "unit_scale";
      if (model && IsFloat(t.type)) tensors[t.name] = c.file->ReadFloats(t.name);
    }
    return std::pair{tensors, c.info.step};
  };
  // One batch of 8 against several smaller ones: the last group is incomplete and holds a smaller
  // batch.
  auto [large, steps] = weights({"data.samples_per_gpu=8"}, "large");
  for (int batch : {4, 2, 1}) {
    INFO("batches of " << batch);
    auto [small, small_steps] =
        weights({fmt::format("data.samples_per_gpu={}", batch),
                 fmt::format("optimizer_config.cumulative_iters={}", 8 / batch)},
                "small");
    CHECK(small_steps == steps);
    double worst = 0;
    for (const auto& [name, values] : large) {
      REQUIRE(small[name].size() == values.size());
      double largest = 1e-3;
      for (float v : values) largest = std::max<double>(largest, std::abs(v));
      for (size_t i = 0; i < values.size(); ++i)
        worst =
            std::max(worst, std::abs(static_cast<double>(values[i]) - small[name][i]) / largest);
    }
    CHECK(worst < 1e-4);
  }
}

TEST_CASE("accumulation with trained batch norms says that it isn't the large batch") {
  Shapes shapes(4);
  Diary d =
      Run(shapes.Cells({"runner.max_epochs=1", "~data.val", "optimizer_config.cumulative_iters=2"}),
          shapes.folder / "run");
  CHECK(std::count(d.codes.begin(), d.codes.end(), "accumulate.batch_norm") == 1);
}

// Report 3 (mmdetection#5650, #3796), for both tasks; report 2 for classifiers.
TEST_CASE("what can't be is refused before the first step") {
  Shapes shapes(4);
  auto refused = [&](const std::vector<std::string>& set, const std::string& text) {
    CHECK_THROWS_WITH(Run(shapes.Cells(set), shapes.folder / "run"), ContainsSubstring(text));
  };
  refused({"evaluation.metric=bbox"}, "gives no `bbox`");
  refused({"model.head.num_classes=4"}, "circle, square, triangle");
  refused({"data.train.classes=[circle, square]", "model.head.num_classes=2"}, "num_classes is 2");
  refused({"data.train.img_prefix=/nowhere"}, "/nowhere");
  // Reports 2 and 3 for a detector: mmdetection#4327, #2896, #8734 and #5650.
  auto detector = [&](const std::string& set, const std::string& text) {
    config::Node config =
        Load("quickstart.yaml", {"data_root=" + (shapes.folder / "shapes").string(), set});
    CHECK_THROWS_WITH(Run(config, shapes.folder / "run"), ContainsSubstring(text));
  };
  detector("model.roi_head.bbox_head.num_classes=2", "has 3 categories: circle, square, triangle");
  detector("model.roi_head.bbox_head.num_classes=80", "num_classes is 80");
  detector("evaluation.metric=segm", "gives no `segm`");
}
