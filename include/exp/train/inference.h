// A trained model at work: scored on a part of the data, or shown images that nobody labelled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exp/data/coco.h"
#include "exp/data/image_list.h"
#include "exp/data/resize.h"
#include "exp/models/model.h"
#include "exp/train/coco_eval.h"

namespace xp::config {
class Node;
}

namespace xp::train {

// Test-time augmentation of detectors: every scale, as it is and (`flip`) mirrored; the boxes of
// all are put together by suppression a class at the model's own threshold. Of classifiers: the
// mean of the softmaxes; of a scale the shorter side is the resize's.
struct TestTimeAugmentation {
  bool flip = false;
  std::vector<data::ImageScale> scales;  // empty: the part's own

  // How often each image is looked at.
  int64_t views() const {
    return static_cast<int64_t>(scales.empty() ? 1 : scales.size()) * (flip ? 2 : 1);
  }
};

struct InferenceOptions {
  std::string device = "auto";  // auto | cpu | cuda | cuda:N
  int threads = 0;
  std::filesystem::path weights;  // .safetensors or .pth
  bool averages = true;           // a checkpoint's averaged weights, where it has them
  std::string part = "val";       // whose resize the images get: "val" or "test"
  TestTimeAugmentation tta;
  // How many images are done, each once a view of test-time augmentation; may be empty.
  std::function<void(int64_t done, int64_t total)> progress;
};

// What a classifier says of an image.
struct ClassScores {
  std::string file;
  int32_t label = -1;         // the true one; -1: unknown
  std::vector<float> scores;  // a softmax, in label order
};

// Not thread-safe.
class Inference {
 public:
  // From a whole resolved config. Throws UsageError where config, weights or device don't fit.
  Inference(const config::Node& config, const InferenceOptions& options);
  ~Inference();

  models::Task task() const;
  int num_classes() const;
  std::string device() const;
  // Why the config's precision isn't what is computed, or is slow here; empty: nothing to say.
  const std::string& precision_note() const;
  // Images left out since the last call because they can't be used (`on_error: skip`), a line each.
  std::vector<std::string> TakeWarnings();
  // The names and COCO ids of the classes: what the checkpoint says, else the config's annotations,
  // else "class 1", ... with ids from 1.
  const std::vector<data::Category>& categories() const;

  // A detector's boxes in all images of the data set, in pixels of the original images.
  Detections Detect(const std::shared_ptr<const data::CocoDataset>& dataset,
                    const std::string& img_prefix);
  std::vector<ClassScores> Classify(const std::shared_ptr<const data::ImageList>& list);

  // The part of the config that `InferenceOptions::part` names. Throws UsageError where its classes
  // are others than the model's, or in another order.
  std::shared_ptr<const data::CocoDataset> OpenDetectionPart(std::string* img_prefix) const;
  std::shared_ptr<const data::ImageList> OpenClassPart() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace xp::train
