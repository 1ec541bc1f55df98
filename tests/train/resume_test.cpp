// Stopping and resuming gives the same bits as never having stopped: in the middle of an epoch, of
// a warm-up, of an accumulation's group, at a milestone, with every kind of optimizer state
// (mmdetection#6572, detectron2#3381, open_clip#413). Trains a small detector on drawn shapes.
#include <fmt/format.h>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/train/checkpoint.h"
#include "exp/train/trainer.h"
#include "small_detector.h"

using namespace xp;
using namespace xp::train;

namespace {

class Work : public SmallDetector {
 public:
  Work()
      : SmallDetector({"runner.max_epochs=3", "lr_config.warmup_iters=7", "lr_config.step=[2]"}) {}

  // Evaluated, too: nothing but training images is drawn, so on those.
  config::Node Evaluated(std::vector<std::string> set) const {
    set.insert(set.end(), {"evaluation.interval=1", "data.val=${data.train}"});
    return Config(set);
  }
};

// What a run tells: each epoch's hashes, each step's rate and loss, the checkpoints.
struct Diary : StoppingObserver {
  std::vector<std::string> epochs;
  std::vector<std::string> steps;
  std::vector<std::string> checkpoints, warnings;
  EndState end = EndState::kFailed;

  void OnStep(const StepEvent& e) override {
    steps.push_back(fmt::format("{} {} {:a} {:a}", e.step, e.epoch, e.lr, e.total));
    StoppingObserver::OnStep(e);
  }
  void OnEpoch(const EpochEvent& e) override {
    epochs.push_back(fmt::format("{} {} {} {:a}", e.epoch, e.weights_hash.Hex(),
                                 e.optimizer_hash.Hex(), e.total));
    for (const auto& [name, value] : e.metrics)
      epochs.back() += fmt::format(" {}={:a}", name, value);
  }
  void OnCheckpoint(const CheckpointEvent& e) override { checkpoints.push_back(e.path); }
  void OnWarning(const WarningEvent& e) override { warnings.push_back(e.code + " " + e.message); }
  void OnEnd(const EndEvent& e) override { end = e.state; }
};

// Stops after each of the steps and resumes from the folder: the steps and epochs told must add up
// to the whole run's.
void CheckStops(const Work& work, const config::Node& config, std::vector<int64_t> stops) {
  Diary whole;
  SmallDetector::Run(config, work.folder / "whole", {}, &whole);
  REQUIRE(whole.end == EndState::kFinished);
  REQUIRE(whole.epochs.size() == 3);
  REQUIRE_THAT(whole.epochs.back(), ContainsSubstring("bbox_mAP="));
  // The last step, too: what is cut short then is the last evaluation.
  stops.push_back(static_cast<int64_t>(whole.steps.size()) - 1);
  for (int64_t stop : stops) {
    INFO("stopped at step " << stop);
    const std::filesystem::path dir = work.folder / fmt::format("stop{}", stop);
    Diary first, second;
    first.stop_at = stop;
    SmallDetector::Run(config, dir, {}, &first);
    REQUIRE(first.end == EndState::kInterrupted);
    SmallDetector::Run(config, dir, dir, &second);
    CHECK(second.end == EndState::kFinished);
    std::vector<std::string> steps = first.steps, epochs = first.epochs;
    steps.insert(steps.end(), second.steps.begin(), second.steps.end());
    epochs.insert(epochs.end(), second.epochs.begin(), second.epochs.end());
    CHECK(steps == whole.steps);
    CHECK(epochs == whole.epochs);
    std::filesystem::remove_all(dir);
  }
}

}  // namespace

TEST_CASE("SGD with a linear warm-up and a milestone resumes to the same bits") {
  Work work;
  CheckStops(work, work.Evaluated({}), {0, 4, 6, 9});
}

TEST_CASE("AdamW with averages, accumulation, clipping and a cosine resumes to the same bits") {
  Work work;
  config::Node config = work.Evaluated({"optimizer.type=AdamW", "optimizer.lr=0.001",
                                        "+ema.momentum=0.1", "optimizer_config.cumulative_iters=2",
                                        "optimizer_config.grad_clip={max_norm: 1.0}",
                                        "lr_config.policy=CosineAnnealing", "~lr_config.step"});
  CheckStops(work, config, {0, 4});
}

TEST_CASE("a checkpoint is told before the next epoch is") {
  Work work;
  struct : Diary {
    std::vector<std::string> order;
    void OnEpoch(const EpochEvent& e) override {
      order.push_back(fmt::format("epoch {}", e.epoch));
    }
    void OnCheckpoint(const CheckpointEvent& e) override {
      order.push_back(fmt::format("saved {} {}", e.epoch, std::filesystem::exists(e.path)));
    }
    void OnEnd(const EndEvent&) override { order.emplace_back("end"); }
  } diary;
  SmallDetector::Run(work.Config({}), work.folder / "run", {}, &diary);
  CHECK(diary.order == std::vector<std::string>{"epoch 0", "saved 0 true", "epoch 1",
                                                "saved 1 true", "epoch 2", "saved 2 true", "end"});
}

TEST_CASE("a checkpoint that can't be written ends the run, which resumes from the one before") {
  Work work;
  config::Node config = work.Config({});
  Diary whole, refused, resumed;
  SmallDetector::Run(config, work.folder / "whole", {}, &whole);
  const std::filesystem::path dir = work.folder / "run", in_the_way = dir / "epoch_2.safetensors";
  std::filesystem::create_directories(in_the_way / "full");
  try {
    SmallDetector::Run(config, dir, {}, &refused);
    FAIL("it went on");
  } catch (const Error& e) {
    CHECK(e.exit_code() == 1);
    CHECK_THAT(e.text().where, ContainsSubstring("epoch_2.safetensors"));
  }
  CHECK(refused.checkpoints == std::vector<std::string>{(dir / "epoch_1.safetensors").string()});
  CHECK(refused.end == EndState::kFailed);
  std::filesystem::remove_all(in_the_way);
  SmallDetector::Run(config, dir, dir, &resumed);
  CHECK(resumed.epochs == std::vector<std::string>{whole.epochs[1], whole.epochs[2]});
}

TEST_CASE("a damaged checkpoint is passed over with a warning") {
  Work work;
  config::Node config = work.Config({});
  Diary whole, resumed;
  const std::filesystem::path dir = work.folder / "run";
  SmallDetector::Run(config, dir, {}, &whole);
  REQUIRE(whole.checkpoints.size() == 3);
  std::string content = ReadFile(whole.checkpoints[2]);
  content[content.size() / 2] ^= 1;
  WriteFileAtomic(whole.checkpoints[2], content);
  SmallDetector::Run(config, dir, dir, &resumed);
  REQUIRE(resumed.warnings.size() == 1);
  CHECK_THAT(resumed.warnings[0],
             ContainsSubstring("checkpoint.damaged") && ContainsSubstring("epoch_3.safetensors"));
  REQUIRE(resumed.epochs.size() == 1);
  CHECK(resumed.epochs[0] == whole.epochs[2]);
  Diary none;
  CHECK_THROWS_WITH(SmallDetector::Run(config, dir, work.folder / "shapes", &none),
                    ContainsSubstring("has no checkpoint"));
}

TEST_CASE("averages start at the first weights and follow them") {
  Work work;
  Diary diary;
  SmallDetector::Run(
      work.Config({"+ema.momentum=0.25", "runner.max_epochs=1", "lr_config.step=[1]"}),
      work.folder / "run", {}, &diary);
  Checkpoint checkpoint = LoadCheckpoint(work.folder / "run" / "epoch_1.safetensors");
  const std::string name = "backbone.body.conv1.weight";
  std::vector<float> weights = checkpoint.file->ReadFloats(name),
                     average = checkpoint.file->ReadFloats("ema." + name);
  CHECK(weights != average);
  double distance = 0, size = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    distance += std::abs(weights[i] - average[i]);
    size += std::abs(weights[i]);
  }
  CHECK(distance < 0.2 * size);  // near them after 5 steps, and not zero or noise
}

TEST_CASE("checkpoints beyond the policy are removed") {
  Work work;
  Diary diary;
  SmallDetector::Run(
      work.Config({"checkpoint_config.max_keep_ckpts=1", "+checkpoint_config.keep_every=2"}),
      work.folder / "run", {}, &diary);
  CHECK(diary.checkpoints.size() == 3);
  std::string left;
  for (const CheckpointEntry& entry : ListCheckpoints(work.folder / "run"))
    left += entry.path.filename().string() + " ";
  CHECK(left == "epoch_2.safetensors epoch_3.safetensors ");
}
