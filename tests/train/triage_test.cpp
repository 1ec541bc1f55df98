// The first number that isn't finite stops training with a report that names step, term and images
// (report 1: mmdetection#1710, #4616, #1411), or is skipped, or rolled back; and the step can be
// run again.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/load.h"
#include "exp/data/shapes.h"
#include "exp/train/checkpoint.h"
#include "exp/train/flat_state.h"
#include "exp/train/replay.h"
#include "exp/train/trainer.h"
#include "small_detector.h"

using namespace xp;
using namespace xp::train;

namespace {

class Work : public SmallDetector {
 public:
  Work()
      : SmallDetector({"data.train.times=1", "model.backbone.base_channels=8",
                       "runner.max_epochs=2", "lr_config.policy=fixed", "~lr_config.warmup"}) {}
};

struct Diary : StoppingObserver {
  std::vector<int64_t> steps;
  std::vector<double> rates;
  std::vector<std::string> codes, epochs;
  std::string report, rolled_back;
  bool ended = false, stop_at_start = false;
  size_t stop_epochs = 0;
  int stop_events = -1;

  void OnStart(const StartEvent&) override {
    if (stop_at_start) stop = true;
  }
  void OnStep(const StepEvent& e) override {
    steps.push_back(e.step);
    rates.push_back(e.lr);
    StoppingObserver::OnStep(e);
  }
  void OnEpoch(const EpochEvent& e) override {
    epochs.push_back(e.weights_hash.Hex());
    if (epochs.size() == stop_epochs) stop = true;
  }
  void OnWarning(const WarningEvent& e) override {
    codes.push_back(e.code);
    if (e.code == "nonfinite.report") report = e.message;
    if (e.code == "nonfinite.rolled_back") rolled_back = e.message;
    if (Count("nonfinite.report") == stop_events) stop = true;
  }
  void OnEnd(const EndEvent&) override { ended = true; }
  int Count(const std::string& code) const {
    return static_cast<int>(std::count(codes.begin(), codes.end(), code));
  }
};

// A rate at which a step or two suffice.
constexpr const char* kTooHigh = "optimizer.lr=1e18";

}  // namespace

TEST_CASE("a loss that isn't finite stops training with a report, and the step runs again") {
  Work work;
  Diary diary;
  config::Node config = work.Config({kTooHigh});
  try {
    SmallDetector::Run(config, work.folder / "run", {}, &diary);
    FAIL("it went on");
  } catch (const Error& e) {
    CHECK_THAT(e.text().what, ContainsSubstring("step"));
    CHECK_THAT(e.text().where, ContainsSubstring("image ids"));
    CHECK_THAT(e.text().next,
               ContainsSubstring("exp replay abc") && ContainsSubstring("learning rate"));
    // Report 1: the rate that goes with the batch is offered (the quickstart's is for 4 images).
    CHECK_THAT(e.text().next, ContainsSubstring("--set optimizer.lr=5e+17"));
  }
  CHECK_FALSE(diary.ended);
  CHECK_THAT(diary.report, ContainsSubstring("the same bits") &&
                               ContainsSubstring("gradients by layer") &&
                               ContainsSubstring("boxes"));
  std::filesystem::path folder;
  for (const auto& entry : std::filesystem::directory_iterator(work.folder / "run")) {
    if (entry.path().filename().string().starts_with("nonfinite_step_")) folder = entry.path();
  }
  REQUIRE(!folder.empty());
  nlohmann::json report = nlohmann::json::parse(ReadFile(folder / "report.json"));
  CHECK(report["repeats"] == true);
  CHECK(report["images"].size() == 2);
  CHECK(report["images"][0].contains("boxes"));
  CHECK(report["lr"] == 1e18);
  CHECK(report["causes"][0]["name"] == "learning rate");
  CHECK(report["gradients"].size() > 20);

  ReplayOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.folder = folder;
  ReplayResult again = ReplayStep(config, options);
  INFO(again.text << again.difference);
  CHECK(again.same);

  // A changed input is seen.
  report["losses"][0].begin().value()["bits"] = "0000000000000001";
  report["losses"][0].begin().value()["value"] = 1.0;
  WriteFileAtomic(folder / "report.json", report.dump());
  CHECK_FALSE(ReplayStep(config, options).same);
}

TEST_CASE("a saved step that was tampered with is refused, never run") {
  Work work;
  Diary diary;
  config::Node config = work.Config({kTooHigh});
  CHECK_THROWS_AS(SmallDetector::Run(config, work.folder / "run", {}, &diary), Error);
  ReplayOptions options;
  options.device = "cpu";
  options.threads = 1;
  for (const auto& entry : std::filesystem::directory_iterator(work.folder / "run")) {
    if (entry.path().filename().string().starts_with("nonfinite_step_"))
      options.folder = entry.path();
  }
  REQUIRE(!options.folder.empty());
  const std::string inputs = ReadFile(options.folder / "inputs.safetensors");
  const std::string report = ReadFile(options.folder / "report.json");
  auto says = [&]() -> std::string {
    try {
      ReplayStep(config, options);
    } catch (const Error& e) {
      return e.what();
    }
    return "it ran";
  };
  // Every tensor's bytes set to 0x7f: counts, labels and sizes far beyond what there is.
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<uint8_t>(inputs[i]);
  const nlohmann::json tensors = nlohmann::json::parse(inputs.substr(8, header));
  for (const char* name : {"0.box_counts", "0.labels", "0.image_sizes"}) {
    INFO(name);
    std::string bad = inputs;
    std::vector<size_t> range = tensors.at(name).at("data_offsets");
    for (size_t i = range[0]; i < range[1]; ++i) bad[8 + header + i] = 0x7f;
    WriteFileAtomic(options.folder / "inputs.safetensors", bad);
    CHECK_THAT(says(), ContainsSubstring("inputs.safetensors") &&
                           (ContainsSubstring("don't fit together") || ContainsSubstring("label")));
  }
  WriteFileAtomic(options.folder / "inputs.safetensors", inputs);
  for (const char* bad : {"", "[]", "{}", R"({"losses": 3})", R"({"losses": [[1]]})",
                          R"({"losses": [{"loss_objectness": 1}]})",
                          R"({"losses": [{"loss_objectness": {"bits": 1}}]})"}) {
    INFO(bad);
    WriteFileAtomic(options.folder / "report.json", bad);
    CHECK_THAT(says(), ContainsSubstring("is no report of this step"));
  }
  WriteFileAtomic(options.folder / "report.json", report);
  CHECK(says() == "it ran");
}

TEST_CASE("a gradient that isn't finite is found although the loss is") {
  Work work;
  Diary diary;
  // Momentum and decay make weights infinite in one step: the loss before it was fine.
  config::Node config = work.Config({"optimizer.lr=1e38", "optimizer.weight_decay=1e3"});
  CHECK_THROWS_AS(SmallDetector::Run(config, work.folder / "run", {}, &diary), Error);
  CHECK_THAT(diary.report, ContainsSubstring("step 0"));
}

TEST_CASE("a faulty step is left out, and training goes on as if it hadn't been") {
  Work work;
  Diary diary;
  config::Node config =
      work.Config({kTooHigh, "+non_finite={policy: skip, max_events: 100}", "runner.max_epochs=1"});
  SmallDetector::Run(config, work.folder / "run", {}, &diary);
  CHECK(diary.ended);
  CHECK(diary.Count("nonfinite.skipped") > 0);
  REQUIRE(diary.epochs.size() == 1);
  Checkpoint last = LoadCheckpoint(work.folder / "run" / "epoch_1.safetensors");
  for (const TensorInfo& t : last.file->tensors()) {
    std::vector<float> values = last.file->ReadFloats(t.name);
    CHECK(AllFinite(values));
  }
  Diary again;  // and it does so again
  SmallDetector::Run(config, work.folder / "again", {}, &again);
  CHECK(again.epochs == diary.epochs);
}

TEST_CASE("a roll back goes to the epoch's begin with a smaller rate, and is in the checkpoint") {
  Work work;
  Diary diary;
  config::Node config =
      work.Config({kTooHigh, "+non_finite={policy: roll_back, lr_factor: 1e-20, max_events: 3}"});
  SmallDetector::Run(config, work.folder / "run", {}, &diary);
  CHECK(diary.ended);
  CHECK(diary.Count("nonfinite.rolled_back") == 1);
  CHECK(diary.rates.front() == 1e18);
  CHECK(diary.rates.back() == Approx(1e-2));
  CHECK(diary.epochs.size() == 2);
  Checkpoint last = LoadCheckpoint(work.folder / "run" / "epoch_2.safetensors");
  CHECK(std::strtod(last.info.metadata.at("exp.lr_scale").c_str(), nullptr) == Approx(1e-20));

  // The same as having begun with the smaller rate.
  Diary small;
  SmallDetector::Run(work.Config({"optimizer.lr=0.01"}), work.folder / "small", {}, &small);
  CHECK(small.epochs.size() == 2);
  CHECK(small.rates.back() == Approx(diary.rates.back()));
}

// The rate jumps up at step 7, in the second epoch's middle (of 5 steps each).
constexpr const char* kJump = "lr_config={policy: step, by_epoch: false, step: [7], gamma: 1e20}";

TEST_CASE("a resumed epoch rolls back as if it hadn't been stopped") {
  Work work;
  const std::string policy = GENERATE(std::string("{policy: roll_back, lr_factor: 1e-20}"),
                                      std::string("{policy: skip, max_events: 100}"));
  config::Node config = work.Config({"~lr_config", "+" + std::string(kJump), "runner.max_epochs=3",
                                     "checkpoint_config.interval=2", "+non_finite=" + policy});
  Diary whole;
  SmallDetector::Run(config, work.folder / "whole", {}, &whole);
  REQUIRE(whole.ended);
  REQUIRE(whole.epochs.size() == 3);
  for (int64_t stop : {0, 5, 6, 7, 8}) {
    INFO(policy << ", stopped at step " << stop);
    const std::filesystem::path dir = work.folder / fmt::format("stop{}", stop);
    Diary first, second;
    first.stop_at = stop;
    SmallDetector::Run(config, dir, {}, &first);
    SmallDetector::Run(config, dir, dir, &second);
    CHECK(second.ended);
    std::vector<std::string> epochs = first.epochs;
    epochs.insert(epochs.end(), second.epochs.begin(), second.epochs.end());
    CHECK(epochs == whole.epochs);
    CHECK(second.rates.back() == whole.rates.back());
    CHECK(first.rolled_back + second.rolled_back == whole.rolled_back);
    CHECK(first.Count("nonfinite.report") + second.Count("nonfinite.report") ==
          whole.Count("nonfinite.report"));
    if (stop == 5) CHECK(second.Count("nonfinite.report") > 0);  // behind the middle
  }
}

TEST_CASE("events count across an interruption") {
  Work work;
  config::Node config = work.Config({"~lr_config", "+" + std::string(kJump), "runner.max_epochs=3",
                                     "+non_finite={policy: skip, max_events: 4}"});
  Diary first, second;
  first.stop_events = 2;
  SmallDetector::Run(config, work.folder / "run", {}, &first);
  CHECK_THROWS_AS(SmallDetector::Run(config, work.folder / "run", work.folder / "run", &second),
                  Error);
  CHECK(first.Count("nonfinite.report") + second.Count("nonfinite.report") == 5);
}

TEST_CASE("stopped again at once, a resumed run's checkpoint keeps its metrics") {
  Work work;
  config::Node config =
      work.Config({"evaluation.interval=1", "data.val=${data.train}", "runner.max_epochs=3"});
  Diary first, second, unready;
  first.stop_epochs = 1;
  SmallDetector::Run(config, work.folder / "run", {}, &first);
  const std::filesystem::path newest = work.folder / "run" / "epoch_1.safetensors";
  Checkpoint before = LoadCheckpoint(newest);
  CHECK(before.info.metrics.contains("bbox_mAP"));
  second.stop_at_start = true;
  SmallDetector::Run(config, work.folder / "run", work.folder / "run", &second);
  CHECK(second.steps.empty());
  CHECK(LoadCheckpoint(newest).info.metrics == before.info.metrics);

  unready.stop = true;  // while its steps are built
  CHECK_THROWS_WITH(SmallDetector::Run(config, work.folder / "run", work.folder / "run", &unready),
                    "interrupted");
  CHECK(LoadCheckpoint(newest).info.metrics == before.info.metrics);
}

TEST_CASE("without end it stops") {
  Work work;
  Diary diary;
  config::Node config =
      work.Config({kTooHigh, "+non_finite={policy: roll_back, lr_factor: 0.9, max_events: 2}"});
  CHECK_THROWS_WITH(SmallDetector::Run(config, work.folder / "run", {}, &diary),
                    ContainsSubstring("after the 2 times that non_finite.max_events allows"));
  CHECK(diary.Count("nonfinite.rolled_back") == 2);
}
