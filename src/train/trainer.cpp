// The training loop: steps, epochs, evaluation, checkpoints, and a clean end whatever happens.
#include "exp/train/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <optional>

#include "exp/base/error.h"
#include "exp/config/reader.h"
#include "exp/train/checkpoint.h"
#include "src/train/checkpoint_io.h"
#include "src/train/setup.h"

namespace xp::train {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// A step whose losses are still on the device.
struct InFlight {
  StepEvent event;
  std::vector<PendingLosses> parts;  // a micro-step each
  std::vector<int64_t> image_ids;
};

class Trainer {
 public:
  Trainer(const config::Node& resolved, const TrainOptions& options, Observer& observer)
      : options_(options), observer_(observer), config_(resolved) {
    setup_ =
        PrepareTraining(config_, options, [&](const std::string& code, const std::string& message) {
          observer_.OnWarning({code, message, -1});
        });
    if (!options.resume_checkpoint.empty()) Resume();
  }

  void Run() {
    EmitStart();
    bool stopped = false;
    for (epoch_ = first_epoch_; epoch_ < setup_->max_epochs && !stopped; ++epoch_) {
      stopped = !RunEpoch();
      first_batch_ = 0;
    }
    observer_.OnEnd({stopped ? EndState::kInterrupted : EndState::kFinished,
                     stopped ? "stopped by a signal" : ""});
  }

 private:
  void Resume() {
    Checkpoint checkpoint = OpenResumed();
    ResumePoint point = RestoreCheckpoint(checkpoint, *setup_, options_.seed);
    first_epoch_ = point.epoch;
    first_batch_ = point.batch;
    step_ = point.step;
    sums_ = point.sums;
  }

  // Of a folder the newest checkpoint that is intact.
  Checkpoint OpenResumed() {
    const std::filesystem::path& path = options_.resume_checkpoint;
    if (!std::filesystem::is_directory(path)) return LoadCheckpoint(path);
    auto warn = [&](const std::filesystem::path& damaged, const std::string& problem) {
      observer_.OnWarning({"checkpoint.damaged", damaged.string() + ": " + problem, -1});
    };
    std::optional<Checkpoint> newest = LoadNewestCheckpoint(path, warn);
    if (newest) return std::move(*newest);
    throw UsageError({.what = "has no checkpoint",
                      .where = path.string(),
                      .expected = "epoch_N.safetensors or iter_N.safetensors",
                      .next = "run without resuming"});
  }

  void EmitStart() {
    StartEvent e;
    e.max_epochs = setup_->max_epochs;
    e.start_epoch = first_epoch_;
    e.steps_per_epoch = setup_->steps_per_epoch();
    e.start_step = step_;
    e.train_images = setup_->train->images();
    e.val_images = setup_->val ? setup_->val->images() : 0;
    for (const graph::Param& p : setup_->params->layout().params()) e.parameters += p.elements();
    e.planned_bytes = setup_->params->TotalBytes() + setup_->steps->planned_bytes();
    e.device = setup_->backend->name() + " (" + setup_->backend->description() + ")";
    e.plans = setup_->backend->PlanNotes();
    observer_.OnStart(e);
  }

  bool Stopping() const { return options_.stop != nullptr && options_.stop->load(); }

  // False when it was stopped on the way; the state is saved then.
  bool RunEpoch() {
    Clock::time_point start = Clock::now();
    BatchSource& loader = *setup_->train;
    loader.StartEpoch(static_cast<uint32_t>(epoch_), first_batch_);
    int64_t batch = first_batch_;
    epoch_data_seconds_ = 0;
    epoch_images_ = 0;
    if (first_batch_ == 0) sums_ = {};
    bool more = true;
    while (more && batch < loader.batches_per_epoch()) {
      if (Stopping()) {
        Drain(0);
        SaveCheckpointNow(epoch_, batch);
        return false;
      }
      more = TrainStep(loader, &batch);
      Drain(kLag);
    }
    Drain(0);
    setup_->backend->Synchronize();
    EmitWarnings(loader);
    return FinishEpoch(Seconds(start));
  }

  // One optimizer step: cumulative_iters batches, fewer at the end of an epoch. False when the
  // loader has no more.
  bool TrainStep(BatchSource& loader, int64_t* batch) {
    InFlight step;
    step.event.step = step_;
    step.event.epoch = epoch_;
    step.event.step_in_epoch = *batch / setup_->optimizer.cumulative_iters;
    step.event.lr = setup_->schedule->LrAt(step_);
    Clock::time_point start = Clock::now();
    int iters = setup_->optimizer.cumulative_iters;
    for (int i = 0; i < iters; ++i) {
      Clock::time_point waiting = Clock::now();
      if (!loader.Next(&batch_)) return false;
      step.event.data_seconds += Seconds(waiting);
      ++*batch;
      bool last = i + 1 == iters || *batch == loader.batches_per_epoch();
      step.parts.push_back(setup_->steps->Run(batch_, step.event.lr, options_.seed,
                                              step_ * iters + i, i == 0, last));
      step.event.images += batch_.n;
      step.image_ids.insert(step.image_ids.end(), batch_.image_ids.begin(), batch_.image_ids.end());
      if (last) break;
    }
    step.event.step_seconds = Seconds(start);
    epoch_data_seconds_ += step.event.data_seconds;
    epoch_images_ += step.event.images;
    in_flight_.push_back(std::move(step));
    ++step_;
    return true;
  }

  // Reports steps until only `keep` are in flight: the host never waits for the newest ones.
  void Drain(size_t keep) {
    while (in_flight_.size() > keep) {
      InFlight step = std::move(in_flight_.front());
      in_flight_.pop_front();
      StepEvent& e = step.event;
      for (PendingLosses& part : step.parts) {
        NamedValues losses = setup_->steps->Losses(part);
        if (e.losses.empty()) {
          e.losses = losses;
        } else {
          for (size_t i = 0; i < losses.size(); ++i) e.losses[i].second += losses[i].second;
        }
      }
      for (auto& [name, value] : e.losses) {
        value /= static_cast<double>(step.parts.size());
        e.total += value;
      }
      CheckFinite(step);
      sums_.Add(e.losses);
      observer_.OnStep(e);
    }
  }

  void CheckFinite(const InFlight& step) {
    for (const auto& [name, value] : step.event.losses) {
      if (std::isfinite(value)) continue;
      observer_.OnStep(step.event);
      std::string ids;
      for (int64_t id : step.image_ids) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
      throw JobError(
          {.what = fmt::format("{} is {} at step {} (epoch {})", name, value, step.event.step,
                               step.event.epoch + 1),
           .where = "image ids " + ids,
           .expected = "finite losses",
           .next = fmt::format(
               "lower optimizer.lr (now {:g}); after a change of the batch size scale it "
               "in proportion: `exp check` says to what; or clip gradients with "
               "optimizer_config.grad_clip.max_norm",
               step.event.lr)});
    }
  }

  void EmitWarnings(BatchSource& loader) {
    for (const std::string& warning : loader.TakeWarnings())
      observer_.OnWarning({"data.image_replaced", warning, step_});
  }

  bool FinishEpoch(double train_seconds) {
    EpochEvent e;
    e.epoch = epoch_;
    e.step = step_;
    e.losses = sums_.Means();
    for (const auto& [name, value] : e.losses) e.total += value;
    e.train_seconds = train_seconds;
    e.data_seconds = epoch_data_seconds_;
    e.images_per_second =
        train_seconds > 0 ? static_cast<double>(epoch_images_) / train_seconds : 0;
    e.lr = step_ > 0 ? setup_->schedule->LrAt(step_ - 1) : 0;
    FlatState state = setup_->ReadState();
    e.weights_hash = WeightsHash(state);
    e.optimizer_hash = OptimizerHash(state);
    bool last = epoch_ + 1 == setup_->max_epochs;
    int interval = setup_->eval_interval;
    if (setup_->evaluator && interval > 0 && ((epoch_ + 1) % interval == 0 || last)) Evaluate(&e);
    if (Stopping() && e.metrics.empty() && setup_->evaluator && interval > 0) {
      // Interrupted while evaluating: the epoch's training is done and kept.
      observer_.OnWarning({"eval.interrupted", "the evaluation was cut short by a signal", step_});
    }
    observer_.OnEpoch(e);
    metrics_ = e.metrics;
    bool due = setup_->checkpoint_interval > 0 &&
               ((epoch_ + 1) % setup_->checkpoint_interval == 0 || last);
    if (due || Stopping()) SaveState(state, epoch_ + 1, 0);
    return !Stopping() || last;
  }

  void Evaluate(EpochEvent* e) {
    Clock::time_point start = Clock::now();
    bool averaged = setup_->optimizer.ema_momentum > 0;
    std::vector<float> weights;
    if (averaged) weights = setup_->UseAverages();
    e->metrics = setup_->evaluator->Run(options_.stop);
    if (averaged) setup_->UseWeights(weights);
    e->eval_seconds = Seconds(start);
  }

  void SaveCheckpointNow(int epoch, int64_t batch) { SaveState(setup_->ReadState(), epoch, batch); }

  void SaveState(const FlatState& state, int epoch, int64_t batch) {
    CheckpointInfo info;
    info.epoch = epoch;
    info.step = step_;
    info.batch = batch;
    info.seed = options_.seed;
    info.metadata = options_.record_metadata;
    if (batch == 0) {
      for (const auto& [name, value] : metrics_) info.metrics[name] = value;
    } else {
      info.metadata["exp.loss_sums"] = sums_.Text();
    }
    observer_.OnCheckpoint(WriteRunCheckpoint(options_.work_dir, info, state, *setup_));
    RemoveSuperfluous(options_.work_dir, setup_->keep);
  }

  static constexpr size_t kLag = 2;

  TrainOptions options_;
  Observer& observer_;
  config::Reader config_;
  std::unique_ptr<Setup> setup_;
  data::Batch batch_;
  std::deque<InFlight> in_flight_;
  LossSums sums_;
  NamedValues metrics_;
  int epoch_ = 0, first_epoch_ = 0;
  int64_t first_batch_ = 0, step_ = 0;
  double epoch_data_seconds_ = 0;
  int64_t epoch_images_ = 0;
};

}  // namespace

void Train(const config::Node& resolved, const TrainOptions& options, Observer& observer) {
  Trainer(resolved, options, observer).Run();
}

}  // namespace xp::train
