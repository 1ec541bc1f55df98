// The first number that isn't finite stops training with a report that names step, term and images
// (mmdetection#1710, #4616, #1411), or is skipped, or rolled back; and the step can be run again.
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
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;

namespace {

// 10 images in batches of 2: 5 steps an epoch.
class Work {
 public:
  Work() {
    data::DrawShapes(folder / "shapes",
                     {.images = 10, .val = 0, .seed = 3, .width = 96, .height = 64});
  }
  config::Node Config(std::vector<std::string> set) const {
    std::vector<std::string> all = {"data_root=" + (folder / "shapes").string(),
                                    "data.samples_per_gpu=2",
                                    "data.train.img_scale=[96, 64]",
                                    "data.train.times=1",
                                    "model.backbone.base_channels=8",
                                    "model.neck.out_channels=16",
                                    "model.roi_head.bbox_head.fc_out_channels=32",
                                    "runner.max_epochs=2",
                                    "model.train_cfg.rpn_proposal.nms_pre=50",
                                    "model.train_cfg.rpn_proposal.max_per_img=40",
                                    "evaluation.interval=0",
                                    "lr_config.policy=fixed",
                                    "~lr_config.warmup"};
    all.insert(all.end(), set.begin(), set.end());
    return config::Load(EXP_SOURCE_DIR "/configs/quickstart.yaml", all).root;
  }
  TempFolder folder;
};

struct Diary : Observer {
  std::vector<int64_t> steps;
  std::vector<double> rates;
  std::vector<std::string> codes, epochs;
  std::string report;
  bool ended = false;

  void OnStep(const StepEvent& e) override {
    steps.push_back(e.step);
    rates.push_back(e.lr);
  }
  void OnEpoch(const EpochEvent& e) override { epochs.push_back(e.weights_hash.Hex()); }
  void OnWarning(const WarningEvent& e) override {
    codes.push_back(e.code);
    if (e.code == "nonfinite.report") report = e.message;
  }
  void OnEnd(const EndEvent&) override { ended = true; }
  int Count(const std::string& code) const {
    return static_cast<int>(std::count(codes.begin(), codes.end(), code));
  }
};

void RunTraining(const config::Node& config, const std::filesystem::path& work_dir, Diary* diary) {
  TrainOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.seed = 11;
  options.work_dir = work_dir;
  options.record_metadata = {{"exp.run", "abc"}};
  Train(config, options, *diary);
}

// A rate at which a step or two suffice.
constexpr const char* kTooHigh = "optimizer.lr=1e18";

}  // namespace

TEST_CASE("a loss that isn't finite stops training with a report, and the step runs again") {
  Work work;
  Diary diary;
  config::Node config = work.Config({kTooHigh});
  try {
    RunTraining(config, work.folder / "run", &diary);
    FAIL("it went on");
  } catch (const Error& e) {
    CHECK_THAT(e.text().what, ContainsSubstring("step"));
    CHECK_THAT(e.text().where, ContainsSubstring("image ids"));
    CHECK_THAT(e.text().next,
               ContainsSubstring("exp replay abc") && ContainsSubstring("learning rate"));
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

TEST_CASE("a gradient that isn't finite is found although the loss is") {
  Work work;
  Diary diary;
  // Momentum and decay make weights infinite in one step: the loss before it was fine.
  config::Node config = work.Config({"optimizer.lr=1e38", "optimizer.weight_decay=1e3"});
  CHECK_THROWS_AS(RunTraining(config, work.folder / "run", &diary), Error);
  CHECK_THAT(diary.report, ContainsSubstring("step 0"));
}

TEST_CASE("a faulty step is left out, and training goes on as if it hadn't been") {
  Work work;
  Diary diary;
  config::Node config =
      work.Config({kTooHigh, "+non_finite={policy: skip, max_events: 100}", "runner.max_epochs=1"});
  RunTraining(config, work.folder / "run", &diary);
  CHECK(diary.ended);
  CHECK(diary.Count("nonfinite.skipped") > 0);
  REQUIRE(diary.epochs.size() == 1);
  Checkpoint last = LoadCheckpoint(work.folder / "run" / "epoch_1.safetensors");
  for (const TensorInfo& t : last.file->tensors()) {
    std::vector<float> values = last.file->ReadFloats(t.name);
    CHECK(AllFinite(values));
  }
  Diary again;  // and it does so again
  RunTraining(config, work.folder / "again", &again);
  CHECK(again.epochs == diary.epochs);
}

TEST_CASE("a roll back goes to the epoch's begin with a smaller rate, and is in the checkpoint") {
  Work work;
  Diary diary;
  config::Node config =
      work.Config({kTooHigh, "+non_finite={policy: roll_back, lr_factor: 1e-20, max_events: 3}"});
  RunTraining(config, work.folder / "run", &diary);
  CHECK(diary.ended);
  CHECK(diary.Count("nonfinite.rolled_back") == 1);
  CHECK(diary.rates.front() == 1e18);
  CHECK(diary.rates.back() == Approx(1e-2));
  CHECK(diary.epochs.size() == 2);
  Checkpoint last = LoadCheckpoint(work.folder / "run" / "epoch_2.safetensors");
  CHECK(std::strtod(last.info.metadata.at("exp.lr_scale").c_str(), nullptr) == Approx(1e-20));

  // The same as having begun with the smaller rate.
  Diary small;
  RunTraining(work.Config({"optimizer.lr=0.01"}), work.folder / "small", &small);
  CHECK(small.epochs.size() == 2);
  CHECK(small.rates.back() == Approx(diary.rates.back()));
}

TEST_CASE("without end it stops") {
  Work work;
  Diary diary;
  config::Node config =
      work.Config({kTooHigh, "+non_finite={policy: roll_back, lr_factor: 0.9, max_events: 2}"});
  CHECK_THROWS_AS(RunTraining(config, work.folder / "run", &diary), Error);
  CHECK(diary.Count("nonfinite.rolled_back") == 2);
}
