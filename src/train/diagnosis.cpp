// What may lie behind a number that isn't finite, by what the step's inputs, state and repetitions
// show. Sources of the rules: mmdetection#1710, #4616, #1411 (learning rate against batch),
// vision#2144, #2740 (boxes), Micikevicius et al. 2018 (fp16).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/train/triage.h"

namespace xp::train {
namespace {

void Hardware(const Incident& i, std::vector<Cause>* causes) {
  if (i.repeats) return;
  causes->push_back({i.fault == Fault::kNotRepeated ? 98 : 95, "hardware",
                     "the same step from the same state on the same inputs gave other bits",
                     "check the device (`exp doctor`), its memory errors, temperature and clocks; "
                     "run on another"});
}

// Boxes that no loader should let through, and images without any content.
std::string DataProblem(const Incident& i, const Setup& setup) {
  int classes = setup.model->num_classes();
  bool detector = setup.model->task() == models::Task::kDetection;
  for (const data::Batch& b : i.batches) {
    for (int k = 0; k < b.n; ++k) {
      int64_t id = b.image_ids[static_cast<size_t>(k)];
      int count = detector ? b.box_counts[static_cast<size_t>(k)] : 0;
      for (int j = 0; j < count; ++j) {
        auto at = static_cast<size_t>(k * b.max_boxes + j);
        const float* box = b.boxes.data() + 4 * at;
        bool finite = std::isfinite(box[0] + box[1] + box[2] + box[3]);
        if (!finite || !(box[2] > box[0]) || !(box[3] > box[1])) {
          return fmt::format("image {} has the box [{}, {}, {}, {}]", id, box[0], box[1], box[2],
                             box[3]);
        }
        int label = b.labels[at];
        if (label < 0 || label >= classes)
          return fmt::format("image {} has the label {} of {} classes", id, label, classes);
      }
      if (!detector &&
          (b.labels[static_cast<size_t>(k)] < 0 || b.labels[static_cast<size_t>(k)] >= classes)) {
        return fmt::format("image {} has the label {} of {} classes", id,
                           b.labels[static_cast<size_t>(k)], classes);
      }
    }
  }
  return "";
}

void Data(const Incident& i, const Setup& setup, std::vector<Cause>* causes) {
  std::string problem = DataProblem(i, setup);
  if (!problem.empty())
    causes->push_back({90, "data", problem, "`exp data check` on the config lists such records"});
}

void StartingWeights(const EpochTrace& trace, std::vector<Cause>* causes) {
  auto bad = [](float v) { return !std::isfinite(v); };
  bool broken = std::any_of(trace.start.params.begin(), trace.start.params.end(), bad) ||
                std::any_of(trace.start.states.begin(), trace.start.states.end(), bad);
  if (!broken) return;
  causes->push_back({97, "starting weights", "the weights that this began with aren't finite",
                     "look at load_from's file with `exp weights show`"});
}

void LearningRate(const Incident& i, const Setup& setup, std::vector<Cause>* causes) {
  int score = 40;
  std::string why = fmt::format("the learning rate is {:g}", i.lr);
  double largest = 0;
  for (const ParamReport& w : i.weights) largest = std::max(largest, w.largest);
  if (i.recent.size() >= 3) {
    std::vector<double> sorted = i.recent;
    std::sort(sorted.begin(), sorted.end());
    double median = sorted[sorted.size() / 2], last = i.recent.back();
    if (last > 2 * median) {
      score += 30;
      why += fmt::format(
          ", and the loss rose to {:.3g} from a median of {:.3g} over the {} steps "
          "before",
          last, median, i.recent.size());
    }
  }
  if (largest > 1e4) {
    score += 20;
    why += fmt::format(", and weights have grown to {:.3g}", largest);
  }
  if (i.step < 50 && setup.schedule->config().warmup == WarmupKind::kNone) {
    score += 15;
    why += ", from the first step on without warm-up";
  }
  std::string advice = "lower optimizer.lr";
  if (!setup.lr_misfit.empty()) {
    score += 20;
    why += ": " + setup.lr_misfit;
    advice = fmt::format("scale it to the batch: --set optimizer.lr={:g}", setup.scaled_lr);
  }
  causes->push_back({std::min(score, 89), "learning rate", why,
                     advice + "; warm up (lr_config.warmup); or clip with "
                              "optimizer_config.grad_clip.max_norm"});
}

void BatchNorm(const Incident& i, const Setup& setup, std::vector<Cause>* causes) {
  int least = 1 << 30;
  for (const data::Batch& b : i.batches) least = std::min(least, b.n);
  if (!setup.trains_batch_norm || least > 4) return;
  causes->push_back({least <= 2 ? 55 : 35, "batch norm",
                     fmt::format("batch norms are trained on {} images at a time", least),
                     "freeze them (model.backbone.norm_eval: true, or norm_cfg: {type: FrozenBN}), "
                     "or take larger batches"});
}

void Fp16(const Incident& i, const Setup& setup, std::vector<Cause>* causes) {
  if (setup.compute != graph::DType::kF16) return;
  bool finite_weights = i.weights.empty() || i.weights[0].non_finite == 0;
  causes->push_back(
      {i.fault == Fault::kLoss && finite_weights ? 75 : 45, "fp16 overflow",
       fmt::format("the step computes in fp16, whose largest number is 65504 (loss scale {:g})",
                   i.loss_scale),
       "use precision: bf16, which has fp32's range"});
}

}  // namespace

std::vector<Cause> Diagnose(const Incident& incident, const Setup& setup, const EpochTrace& trace) {
  std::vector<Cause> causes;
  Hardware(incident, &causes);
  StartingWeights(trace, &causes);
  Data(incident, setup, &causes);
  Fp16(incident, setup, &causes);
  LearningRate(incident, setup, &causes);
  BatchNorm(incident, setup, &causes);
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.likelihood > b.likelihood; });
  return causes;
}

}  // namespace xp::train
