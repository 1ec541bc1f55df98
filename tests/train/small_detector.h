// A Faster R-CNN so small that a test trains it: the quickstart's, on drawn shapes, 10 images in
// batches of 2, so 5 batches an epoch.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "exp/config/load.h"
#include "exp/data/shapes.h"
#include "exp/train/trainer.h"
#include "temp_folder.h"

// Can stop the run that it observes, as a signal would: behind a step, or whenever it says so.
struct StoppingObserver : xp::train::Observer {
  int64_t stop_at = -1;
  std::atomic<bool> stop{false};

  void OnStep(const xp::train::StepEvent& e) override {
    if (e.step == stop_at) stop = true;
  }
};

class SmallDetector {
 public:
  // What every config of this test has, besides what makes the model small.
  explicit SmallDetector(std::vector<std::string> always) : always_(std::move(always)) {
    xp::data::DrawShapes(folder / "shapes",
                         {.images = 10, .val = 0, .seed = 3, .width = 96, .height = 64});
  }

  xp::config::Node Config(const std::vector<std::string>& set) const {
    std::vector<std::string> all = {"data_root=" + (folder / "shapes").string(),
                                    "data.samples_per_gpu=2",
                                    "data.train.img_scale=[96, 64]",
                                    "model.neck.out_channels=16",
                                    "model.roi_head.bbox_head.fc_out_channels=32",
                                    "model.train_cfg.rpn_proposal.nms_pre=50",
                                    "model.train_cfg.rpn_proposal.max_per_img=40",
                                    "evaluation.interval=0"};
    all.insert(all.end(), always_.begin(), always_.end());
    all.insert(all.end(), set.begin(), set.end());
    return xp::config::Load(EXP_SOURCE_DIR "/configs/quickstart.yaml", all).root;
  }

  // One thread, a seed of its own; the rest is the caller's.
  static xp::train::TrainOptions Options(const std::filesystem::path& work_dir) {
    xp::train::TrainOptions options;
    options.device = "cpu";
    options.threads = 1;
    options.seed = 11;
    options.work_dir = work_dir;
    return options;
  }

  // Trains until its end, or until the observer stops it.
  static void Run(const xp::config::Node& config, const std::filesystem::path& work_dir,
                  const std::filesystem::path& resume, StoppingObserver* observer) {
    xp::train::TrainOptions options = Options(work_dir);
    options.resume_checkpoint = resume;
    options.stop = &observer->stop;
    options.record_metadata = {{"exp.run", "abc"}};
    xp::train::Train(config, options, *observer);
  }

  TempFolder folder;

 private:
  std::vector<std::string> always_;
};
