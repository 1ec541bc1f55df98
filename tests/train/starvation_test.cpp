// A device that waits for data is told what it waits for.
#include "src/train/starvation.h"

#include <algorithm>

#include "catch.h"
#include "exp/base/file.h"
#include "exp/config/load.h"
#include "exp/data/jpeg.h"
#include "exp/train/trainer.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;

namespace {

// 20 s of training, 8 of them waiting; `busy` of the threads' time, split into stages.
FeedFigures Figures(double busy, double read, double decode, double transform, int workers = 4,
                    int cores = 4) {
  FeedFigures f;
  f.train_seconds = 20;
  f.wait_seconds = 8;
  f.workers = workers;
  f.cores = cores;
  double all = busy * workers * f.train_seconds;
  f.stages = {read * all, decode * all, transform * all, 1000};
  return f;
}

std::string Bottleneck(const FeedFigures& f) {
  auto found = FindStarvation(f);
  return found ? found->bottleneck : "";
}

}  // namespace

TEST_CASE("the bottleneck is named") {
  CHECK(Bottleneck(Figures(0.98, 0.8, 0.1, 0.1)) == "disk");
  CHECK(Bottleneck(Figures(0.98, 0.1, 0.7, 0.2)) == "decode");
  CHECK(Bottleneck(Figures(0.98, 0.1, 0.3, 0.6)) == "resize");
  CHECK(Bottleneck(Figures(0.98, 0.1, 0.7, 0.2, 2, 16)) == "workers");
  CHECK(Bottleneck(Figures(0.98, 0.8, 0.1, 0.1, 2, 16)) == "disk");
  CHECK(Bottleneck(Figures(0.3, 0.1, 0.7, 0.2)) == "prefetch");
}

TEST_CASE("little waiting is no news") {
  FeedFigures f = Figures(0.98, 0.1, 0.7, 0.2);
  f.wait_seconds = 1.9;  // under a tenth
  CHECK(Bottleneck(f) == "");
  f = {2, 0.9, 4, 4, {0, 8, 0, 10}};  // under a second
  CHECK(Bottleneck(f) == "");
}

TEST_CASE("the message has the figures, and how many threads would do") {
  auto found = FindStarvation(Figures(1, 0.1, 0.7, 0.2, 2, 16));
  REQUIRE(found);
  CHECK_THAT(found->message,
             ContainsSubstring("waited 40 % of the epoch") &&
                 ContainsSubstring("10 % reading files, 70 % decoding, 20 %") &&
                 ContainsSubstring("data.workers_per_gpu to 4 of this machine's 16"));
  found = FindStarvation(Figures(1, 0.9, 0.1, 0));
  CHECK_THAT(found->message, ContainsSubstring("a faster disk"));
}

TEST_CASE("a run that waits for decoding is told so") {
  TempFolder folder;
  // Large photographs for a network of thumbnails.
  data::RgbImage image;
  image.Reset(4000, 3000);
  uint32_t state = 1;
  for (uint8_t& v : image.pixels)
    v = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  std::string jpeg = data::EncodeJpeg(image, 90);
  for (int i = 0; i < 12; ++i) {
    for (const char* name : {"a", "b"}) {
      std::filesystem::create_directories(folder / "set" / name);
      WriteFileAtomic(folder / "set" / name / (std::to_string(i) + ".jpg"), jpeg);
    }
  }
  config::Node config =
      config::Load(EXP_SOURCE_DIR "/configs/resnet50_bccd_cells.yaml",
                   {"data.train.img_prefix=" + (folder / "set").string(), "~data.val",
                    "data.samples_per_gpu=2", "data.workers_per_gpu=1", "data.train.crop_size=32",
                    "data.train.fast_decode=false", "model.backbone.depth=18",
                    "model.head.num_classes=2", "evaluation.interval=0", "runner.max_epochs=1"})
          .root;
  struct Diary : Observer {
    std::vector<std::string> starved;
    double wait = 0;
    void OnWarning(const WarningEvent& e) override {
      if (e.code == "data.starved") starved.push_back(e.message);
    }
    void OnEpoch(const EpochEvent& e) override { wait += e.data_seconds; }
  } diary;
  TrainOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.work_dir = folder / "run";
  Train(config, options, diary);
  CHECK(diary.wait > 1);
  REQUIRE(diary.starved.size() == 1);
  CHECK_THAT(diary.starved[0],
             ContainsSubstring("the bottleneck:") && ContainsSubstring("decoding"));
}
