// The training loop: steps, epochs, evaluation, checkpoints, and a clean end whatever happens.
#include "exp/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <future>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/resources.h"
#include "exp/config/lr_check.h"
#include "exp/config/reader.h"
#include "exp/train/checkpoint.h"
#include "src/train/checkpoint_io.h"
#include "src/train/setup.h"
#include "src/train/starvation.h"
#include "src/train/step_group.h"
#include "src/train/triage.h"

namespace xp::train {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// A step whose losses are still on the device.
struct InFlight {
  StepEvent event;
  StepGroup group;
};

}  // namespace

class Training::Impl {
 public:
  Impl(const config::Node& resolved, const TrainOptions& options, Observer& observer)
      : options_(options), observer_(observer), config_(resolved) {
    const SetupObserver told{[&](const std::string& code, const std::string& message) {
                               observer_.OnWarning({code, message, -1});
                             },
                             [&](const std::string& phase) { observer_.OnPreparing(phase); }};
    setup_ = PrepareTraining(config_, options, told);
    const config::LrCheck lr = config::CheckLr(resolved, 1);
    // Under the policy `scale` the rate has been scaled already.
    if (!lr.fits && lr.policy != config::LrPolicy::kScale) {
      setup_->scaled_lr = lr.lr_scaled;
      setup_->lr_misfit = lr.message;
    }
    if (!options.resume_checkpoint.empty()) Resume();
  }

  int epochs_left() const { return std::max(0, setup_->settings.max_epochs - first_epoch_); }

  void Run() {
    EmitStart();
    // A process that was killed behind its last checkpoint didn't come to this.
    if (!options_.resume_checkpoint.empty()) ApplyKeepPolicy();
    try {
      RunEpochs();
    } catch (...) {
      // What is being written is there all the same: it shall not be missing from the record.
      try {
        FinishSaving();
      } catch (const std::exception&) {  // the first reason is the one to tell
      }
      throw;
    }
  }

 private:
  void RunEpochs() {
    bool stopped = false;
    if (!traced_) trace_.start = setup_->ReadState();
    for (epoch_ = first_epoch_; epoch_ < setup_->settings.max_epochs && !stopped;) {
      Outcome outcome = RunEpoch();
      stopped = outcome == Outcome::kStopped;
      if (outcome == Outcome::kAgain) continue;  // from trace_.start, as first_batch_ says
      ++epoch_;
      first_batch_ = 0;
    }
    FinishSaving();
    observer_.OnEnd({stopped ? EndState::kInterrupted : EndState::kFinished,
                     stopped ? "stopped by a signal" : ""});
  }

  void Resume() {
    Checkpoint checkpoint = OpenResumed();
    ResumePoint point = RestoreCheckpoint(checkpoint, *setup_, options_.seed);
    RequireWithin(point, *setup_, checkpoint.file->path());
    first_epoch_ = point.epoch;
    first_batch_ = point.batch;
    step_ = point.step;
    sums_ = point.sums;
    lr_scale_ = point.lr_scale;
    incidents_ = point.incidents;
    metrics_.assign(point.metrics.begin(), point.metrics.end());
    if (point.epoch_begin) TraceFromBegin(std::move(*point.epoch_begin), point.epoch_begin_step);
  }

  // What is resumed in the middle of an epoch rolls back to its begin, as if it hadn't been
  // stopped.
  void TraceFromBegin(FlatState state, int64_t step) {
    traced_ = true;
    trace_.epoch = first_epoch_;
    trace_.start = std::move(state);
    trace_.start_step = step;
    for (; step < step_; ++step)
      trace_.steps.push_back(
          {.losses = {}, .lr = setup_->schedule->LrAt(step) * lr_scale_, .reported = false});
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
    e.max_epochs = setup_->settings.max_epochs;
    e.start_epoch = first_epoch_;
    e.steps_per_epoch = setup_->steps_per_epoch();
    e.start_step = step_;
    e.train_images = setup_->train->images();
    e.val_images = setup_->val ? setup_->val->images() : 0;
    for (const graph::Param& p : setup_->params->layout().params()) e.parameters += p.elements();
    e.planned_bytes = setup_->params->TotalBytes() + setup_->steps->planned_bytes();
    e.device = setup_->backend->name() + " (" + setup_->backend->description() + ")";
    e.phases = setup_->phases;
    e.plans = setup_->backend->PlanNotes();
    observer_.OnStart(e);
  }

  bool Stopping() const { return Stopped(options_.stop); }

  enum class Outcome { kDone, kStopped, kAgain };

  // kStopped: on the way, and the state is saved. kAgain: rolled back.
  Outcome RunEpoch() {
    Clock::time_point start = Clock::now();
    BatchSource& loader = *setup_->train;
    if (prefetched_epoch_ != epoch_ || first_batch_ != 0)
      loader.StartEpoch(static_cast<uint32_t>(epoch_), first_batch_);
    prefetched_epoch_ = -1;
    batch_number_ = first_batch_;
    epoch_data_seconds_ = 0;
    first_wait_seconds_ = -1;
    loader.TakeStages();
    epoch_images_ = 0;
    if (first_batch_ == 0) sums_ = {};
    BeginTrace();
    for (bool more = true; more;) {
      more = batch_number_ < loader.batches_per_epoch();
      if (more && Stopping()) return StopHere();
      if (more) more = TrainStep();
      if (batch_number_ >= loader.batches_per_epoch() && EvaluationDue())
        setup_->evaluator->Prefetch();
      if (!Drain(more ? kLag : 0)) return Outcome::kAgain;
      // A step that was left out may have been the last but one: then there are more to come.
      more = more || batch_number_ < loader.batches_per_epoch();
    }
    setup_->backend->Synchronize();
    double seconds = Seconds(start);
    EmitWarnings(loader, seconds);
    return FinishEpoch(seconds);
  }

  // Saves what resuming in the middle of an epoch needs.
  Outcome StopHere() {
    if (!Drain(0)) return Outcome::kAgain;
    FlatState state = setup_->ReadState();
    if (!KeepFinite(&state, 0)) return Outcome::kAgain;
    SaveState(state, epoch_, batch_number_);
    FinishSaving();
    return Outcome::kStopped;
  }

  // Begins with the epoch, unless a checkpoint of its middle told how that began.
  void BeginTrace() {
    if (std::exchange(traced_, false)) return;
    trace_.epoch = epoch_;
    trace_.start_step = step_;
    trace_.start_batch = first_batch_;
    trace_.steps.clear();
    trace_.skipped.clear();
    trace_sums_ = sums_;
  }

  // One optimizer step: cumulative_iters batches, fewer at the end of an epoch. False when the
  // loader has no more.
  bool TrainStep() {
    InFlight step;
    StepEvent& e = step.event;
    e.step = step_;
    e.epoch = epoch_;
    e.step_in_epoch = batch_number_ / setup_->optimizer.cumulative_iters;
    e.lr = setup_->schedule->LrAt(step_) * lr_scale_;
    step.group.step = step_;
    step.group.lr = e.lr;
    Clock::time_point start = Clock::now();
    if (!RunGroup(*setup_, options_.seed, &batch_number_, &batch_, &step.group)) return false;
    e.data_seconds = step.group.data_seconds;
    e.images = step.group.images;
    e.step_seconds = Seconds(start);
    epoch_data_seconds_ += e.data_seconds;
    if (first_wait_seconds_ < 0) first_wait_seconds_ = e.data_seconds;
    epoch_images_ += e.images;
    trace_.steps.push_back({.losses = {}, .lr = e.lr, .reported = false});
    in_flight_.push_back(std::move(step));
    ++step_;
    if (saving_.valid() && saving_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      FinishSaving();
    return true;
  }

  // Reports steps until only `keep` are in flight: the host never waits for the newest ones. False
  // when the epoch begins anew.
  bool Drain(size_t keep) {
    while (in_flight_.size() > keep) {
      InFlight step = std::move(in_flight_.front());
      in_flight_.pop_front();
      StepEvent& e = step.event;
      StepLosses losses = WaitForLosses(*setup_, step.group);
      e.losses = losses.mean;
      e.total = losses.total;
      e.grad_norm = losses.grad_norm;
      bool finite = Finite(losses);
      EpochTrace::Step& traced = trace_.steps[static_cast<size_t>(e.step - trace_.start_step)];
      traced.losses = std::move(losses);
      traced.reported = true;
      if (!finite) {
        observer_.OnStep(e);
        if (!Handle(e.step, false)) return false;
        continue;
      }
      sums_.Add(e.losses);
      observer_.OnStep(e);
    }
    return true;
  }

  // In fp16 an overflowing gradient is the loss scale's business.
  bool Finite(const StepLosses& losses) const {
    for (const auto& [name, value] : losses.mean) {
      if (!std::isfinite(value)) return false;
    }
    return setup_->compute == graph::DType::kF16 || std::isfinite(losses.grad_norm);
  }

  // Looks into what happened up to step `suspect` and does what the config says. False: the epoch
  // begins anew. Throws JobError where training stops.
  bool Handle(int64_t suspect, bool every_step) {
    in_flight_.clear();
    setup_->backend->Synchronize();
    observer_.OnWarning(
        {"nonfinite",
         fmt::format(
             "a number isn't finite any more at step {}: running the epoch's {} steps again "
             "to see where it began",
             suspect, suspect - trace_.start_step + 1),
         suspect});
    Incident incident = Investigate(*setup_, options_, trace_, suspect, every_step);
    SaveIncident(incident, *setup_, options_);
    observer_.OnWarning({"nonfinite.report", IncidentText(incident), incident.step});
    using Action = NonFinitePolicy::Action;
    const NonFinitePolicy& policy = setup_->settings.non_finite;
    if (policy.action == Action::kStop || ++incidents_ > policy.max_events) Stop(incident);
    return policy.action == Action::kSkip ? Skip(incident) : RollBack(incident);
  }

  [[noreturn]] void Stop(const Incident& incident) {
    auto run = options_.record_metadata.find("exp.run");
    std::string first = incident.causes.empty() ? "" : incident.causes[0].advice;
    const NonFinitePolicy& policy = setup_->settings.non_finite;
    const bool allowed = policy.action != NonFinitePolicy::Action::kStop;
    throw JobError(
        {.what = incident.What() +
                 (allowed ? fmt::format(", after the {} times that non_finite.max_events allows",
                                        policy.max_events)
                          : ""),
         .where = "image ids " + incident.ImageIds(),
         .expected = "finite losses, gradients and weights",
         .next = fmt::format(
             "{}{}; `exp replay {} {}` runs the step again; the report is {}",
             incident.causes.empty() ? "" : "likeliest " + incident.causes[0].name + ": ", first,
             run == options_.record_metadata.end() ? "RUN" : run->second, incident.step,
             (incident.folder / "report.txt").string())});
  }

  // The state is the one before the step already: training goes on behind its batches.
  bool Skip(const Incident& incident) {
    trace_.skipped.insert(incident.step);
    trace_.steps.resize(static_cast<size_t>(incident.step - trace_.start_step) + 1);
    step_ = incident.step + 1;
    batch_number_ = incident.next_batch;
    observer_.OnWarning({"nonfinite.skipped",
                         fmt::format("the update of step {} is left out", incident.step),
                         incident.step});
    return true;
  }

  bool RollBack(const Incident& incident) {
    lr_scale_ *= setup_->settings.non_finite.lr_factor;
    setup_->WriteState(trace_.start);
    step_ = trace_.start_step;
    first_batch_ = trace_.start_batch;
    sums_ = trace_sums_;
    observer_.OnWarning(
        {"nonfinite.rolled_back",
         fmt::format("back to step {}, with {:g} of the schedule's learning rate from there on",
                     step_, lr_scale_),
         incident.step});
    return false;
  }

  void EmitWarnings(BatchSource& loader, double train_seconds) {
    for (const std::string& warning : loader.TakeWarnings())
      observer_.OnWarning({"data.image_replaced", warning, step_});
    double first = std::max(first_wait_seconds_, 0.0);
    std::optional<Starvation> starved =
        FindStarvation({train_seconds - first, epoch_data_seconds_ - first, loader.workers(),
                        UsableCpus(), loader.TakeStages()});
    // Once is enough for each bottleneck: an epoch's wait is in its record anyway.
    if (starved && told_bottlenecks_.insert(starved->bottleneck).second)
      observer_.OnWarning({"data.starved", starved->message, step_});
  }

  Outcome FinishEpoch(double train_seconds) {
    FinishSaving();
    FlatState state = std::move(spare_);
    setup_->ReadState(&state);
    if (!KeepFinite(&state, setup_->train->batches_per_epoch())) return Outcome::kAgain;
    auto hashes = std::async(std::launch::async, [&state] {
      return std::pair{WeightsHash(state), OptimizerHash(state)};
    });
    bool last = epoch_ + 1 == setup_->settings.max_epochs;
    if (!last && !Stopping()) {
      prefetched_epoch_ = epoch_ + 1;
      setup_->train->StartEpoch(static_cast<uint32_t>(prefetched_epoch_), 0);
    }
    EpochEvent e;
    e.epoch = epoch_;
    e.step = step_;
    e.losses = sums_.Means();
    for (const auto& [name, value] : e.losses) e.total += value;
    e.train_seconds = train_seconds;
    e.data_seconds = epoch_data_seconds_;
    e.images_per_second =
        train_seconds > 0 ? static_cast<double>(epoch_images_) / train_seconds : 0;
    e.lr = step_ > 0 ? setup_->schedule->LrAt(step_ - 1) * lr_scale_ : 0;
    if (EvaluationDue()) Evaluate(&e);
    std::tie(e.weights_hash, e.optimizer_hash) = hashes.get();
    if (EvaluationDue() && Stopping() && e.metrics.empty()) {
      // Resuming begins behind the epoch's last batch, with its evaluation.
      observer_.OnWarning({"eval.interrupted",
                           "the evaluation was cut short by a signal: resuming begins with it",
                           step_});
      SaveState(state, epoch_, batch_number_);
      FinishSaving();
      return Outcome::kStopped;
    }
    observer_.OnEpoch(e);
    metrics_ = e.metrics;
    bool due = setup_->settings.checkpoint_interval > 0 &&
               ((epoch_ + 1) % setup_->settings.checkpoint_interval == 0 || last);
    spare_ = std::move(trace_.start);
    trace_.start = std::move(state);
    if (due || Stopping()) SaveState(trace_.start, epoch_ + 1, 0);
    return Stopping() && !last ? Outcome::kStopped : Outcome::kDone;
  }

  // Weights may break without any loss showing it. Where a step is left out for that, those behind
  // it are trained again up to batch `until`. False: the epoch begins anew.
  bool KeepFinite(FlatState* state, int64_t until) {
    while (!AllFinite(state->params) || !AllFinite(state->states)) {
      if (!Handle(step_ - 1, true)) return false;
      while (batch_number_ < until && TrainStep()) {
        if (!Drain(0)) return false;
      }
      setup_->ReadState(state);
    }
    return true;
  }

  bool EvaluationDue() const {
    const int interval = setup_->settings.eval_interval;
    return setup_->evaluator && interval > 0 &&
           ((epoch_ + 1) % interval == 0 || epoch_ + 1 == setup_->settings.max_epochs);
  }

  void Evaluate(EpochEvent* e) {
    Clock::time_point start = Clock::now();
    bool averaged = setup_->optimizer.ema_momentum > 0;
    std::vector<float> weights;
    if (averaged) weights = setup_->UseAverages();
    const int64_t images = setup_->val->images();
    e->metrics = setup_->evaluator->Run({options_.stop, [&](int64_t done) {
                                           observer_.OnEvaluation({epoch_, done, images});
                                         }});
    if (averaged) setup_->UseWeights(weights);
    e->eval_seconds = Seconds(start);
    for (const std::string& line : setup_->val->TakeWarnings()) {
      if (told_left_out_.insert(line).second)
        observer_.OnWarning({"data.image_left_out", line, step_});
    }
  }

  // Begins to write; training goes on meanwhile, which leaves `state` alone up to FinishSaving.
  void SaveState(const FlatState& state, int epoch, int64_t batch) {
    FinishSaving();
    CheckpointInfo info;
    info.epoch = epoch;
    info.step = step_;
    info.batch = batch;
    info.seed = options_.seed;
    info.metadata = options_.record_metadata;
    if (lr_scale_ != 1) info.metadata["exp.lr_scale"] = fmt::format("{:a}", lr_scale_);
    if (incidents_ > 0) info.metadata["exp.nonfinite_events"] = std::to_string(incidents_);
    CheckpointExtras extras;
    if (batch == 0) {
      for (const auto& [name, value] : metrics_) info.metrics[name] = value;
    } else {
      info.metadata["exp.loss_sums"] = sums_.Text();
      if (setup_->settings.non_finite.action == NonFinitePolicy::Action::kRollBack) {
        extras.epoch_begin = &trace_.start;
        extras.epoch_begin_step = trace_.start_step;
      }
    }
    saving_ = std::async(std::launch::async, [this, info = std::move(info), &state, extras] {
      return WriteRunCheckpoint(options_.work_dir, info, state, *setup_, extras);
    });
  }

  // Waits for the checkpoint under way, if there is one; throws what writing it threw.
  void FinishSaving() {
    if (!saving_.valid()) return;
    observer_.OnCheckpoint(saving_.get());
    ApplyKeepPolicy();
  }

  void ApplyKeepPolicy() const {
    auto run = options_.record_metadata.find("exp.run");
    RemoveSuperfluous(options_.work_dir, setup_->settings.keep,
                      run == options_.record_metadata.end() ? "" : run->second);
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
  int64_t first_batch_ = 0, batch_number_ = 0, step_ = 0;
  int prefetched_epoch_ = -1;  // the train loader has begun with it
  EpochTrace trace_;
  bool traced_ = false;  // the epoch to be resumed is in trace_ from its begin
  FlatState spare_;      // memory for the next epoch's state
  LossSums trace_sums_;  // when the epoch's trace began
  std::future<CheckpointEvent> saving_;
  double lr_scale_ = 1;
  int incidents_ = 0;
  double epoch_data_seconds_ = 0;
  double first_wait_seconds_ = -1;  // for the epoch's first batch; -1: none yet
  std::set<std::string> told_bottlenecks_;
  std::set<std::string> told_left_out_;  // images of the validation, each once a run
  int64_t epoch_images_ = 0;
};

Training::Training(const config::Node& resolved, const TrainOptions& options, Observer& observer)
    : impl_(std::make_unique<Impl>(resolved, options, observer)) {}
Training::~Training() = default;
int Training::epochs_left() const { return impl_->epochs_left(); }
void Training::Run() { impl_->Run(); }

void Train(const config::Node& resolved, const TrainOptions& options, Observer& observer) {
  Training(resolved, options, observer).Run();
}

}  // namespace xp::train
