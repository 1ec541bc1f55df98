// Under `on_error: skip` an image of the validation that can't be used is left out, once and said:
// no other is scored in its place, which would count twice.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/train/inference.h"
#include "small_detector.h"

using namespace xp;
using namespace xp::train;

namespace {

struct Diary : StoppingObserver {
  std::vector<std::pair<int64_t, int64_t>> evaluated;
  std::vector<std::string> left_out;
  std::vector<double> maps;
  void OnWarning(const WarningEvent& e) override {
    if (e.code == "data.image_left_out") left_out.push_back(e.message);
  }
  void OnEvaluation(const EvaluationEvent& e) override {
    evaluated.emplace_back(e.images, e.of_all);
  }
  void OnEpoch(const EpochEvent& e) override {
    for (const auto& [name, value] : e.metrics) {
      if (name == "bbox_mAP") maps.push_back(value);
    }
  }
};

// Detections of each image, as text.
std::map<int64_t, std::vector<std::string>> ByImage(const Detections& found) {
  std::map<int64_t, std::vector<std::string>> images;
  for (size_t i = 0; i < found.size(); ++i) {
    images[found.image_ids[i]].push_back(fmt::format("{:a} {:a} {:a} {}", found.boxes[4 * i],
                                                     found.boxes[4 * i + 3], found.scores[i],
                                                     found.category_ids[i]));
  }
  return images;
}

}  // namespace

TEST_CASE("an image of the validation that can't be used is left out, not replaced") {
  SmallDetector work({"data.train.times=1", "model.backbone.base_channels=8", "runner.max_epochs=2",
                      "lr_config.policy=fixed", "~lr_config.warmup", "evaluation.interval=1",
                      "data.val=${data.train}", "data.train.flip_ratio=0.0",
                      "+data.train.on_error=skip"});
  config::Node config = work.Config({});
  Diary whole;
  SmallDetector::Run(config, work.folder / "run", {}, &whole);
  CHECK(whole.left_out.empty());
  // Two epochs' evaluations of ten images, two at a time.
  REQUIRE(whole.evaluated.size() == 10);
  CHECK(whole.evaluated[0] == std::pair<int64_t, int64_t>{2, 10});
  CHECK(whole.evaluated[9] == std::pair<int64_t, int64_t>{10, 10});
  InferenceOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.weights = work.folder / "run" / "epoch_2.safetensors";
  auto detect = [&](const TestTimeAugmentation& tta, size_t warnings) {
    std::vector<std::pair<int64_t, int64_t>> told;
    InferenceOptions now = options;
    now.tta = tta;
    now.progress = [&](int64_t done, int64_t total) { told.emplace_back(done, total); };
    Inference model(config, now);
    std::string images;
    auto dataset = model.OpenDetectionPart(&images);
    Detections found = model.Detect(dataset, images);
    CHECK(model.TakeWarnings().size() == warnings);
    const int64_t all = 10 * tta.views();
    REQUIRE(static_cast<int64_t>(told.size()) == all / 2);
    for (int64_t i = 0; i < all / 2; ++i)
      CHECK(told[static_cast<size_t>(i)] == std::pair{2 * (i + 1), all});
    return ByImage(found);
  };
  auto before = detect({}, 0);
  const std::filesystem::path broken = work.folder / "shapes/images/train_000003.jpg";
  REQUIRE(std::filesystem::exists(broken));
  WriteFileAtomic(broken, "no image any more");
  auto after = detect({}, 1);
  CHECK(before.size() - after.size() <= 1);  // the broken one has none, if it had any
  for (const auto& [image, boxes] : after) CHECK(boxes == before[image]);
  detect({.flip = true}, 1);  // in each of its views, said once

  // In training the next one takes its place; each epoch's evaluation leaves it out, said once.
  Diary skipping;
  SmallDetector::Run(config, work.folder / "skip", {}, &skipping);
  CHECK(skipping.maps.size() == 2);
  REQUIRE(skipping.left_out.size() == 1);
  CHECK_THAT(skipping.left_out[0], ContainsSubstring("train_000003.jpg"));

  for (const auto& entry : std::filesystem::directory_iterator(broken.parent_path()))
    WriteFileAtomic(entry.path(), "");
  Inference model(config, options);
  std::string images;
  auto dataset = model.OpenDetectionPart(&images);
  CHECK_THROWS_WITH(model.Detect(dataset, images),
                    ContainsSubstring("not one image of the evaluation can be used"));
}
