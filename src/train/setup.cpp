#include "src/train/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/data/from_config.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/train/checkpoint.h"
#include "src/train/checkpoint_io.h"
#include "src/train/data_check.h"
#include "src/train/device.h"
#include "src/train/load_weights.h"

namespace xp::train {
namespace {

using config::Reader;
using models::BatchShape;

void ChooseDevice(const Reader& config, const TrainOptions& options, const Warn& warn, Setup& s) {
  std::string precision = config.Choice("precision", {"fp32", "tf32", "bf16", "fp16"}, "fp32");
  OpenedDevice device = OpenDevice({options.device, precision, options.threads,
                                    config.Bool("deterministic", true), options.plans});
  s.backend = std::move(device.backend);
  if (options.wrap_backend) s.backend = options.wrap_backend(std::move(s.backend));
  s.backend->StopAt(options.stop);
  s.compute = device.compute;
  if (!device.precision_note.empty()) warn("precision.cpu", device.precision_note);
}

// The key of the head's number of classes.
const char* ClassesKey(const models::Model& model, const Reader& config) {
  if (model.task() == models::Task::kClassification) return "model.head.num_classes";
  return config.Has("model.bbox_head") ? "model.bbox_head.num_classes"
                                       : "model.roi_head.bbox_head.num_classes";
}

// mmdetection#4327, #2896, #8734: a head with another number of classes trains without a word, and
// the last class becomes background. Both sides are named.
void CheckClasses(const models::Model& model, const BatchSource& source, const Reader& config) {
  std::vector<std::string> found = source.classes();
  int count = static_cast<int>(found.size());
  if (model.num_classes() == count) return;
  std::vector<std::string> chosen;
  if (config.Has("data.train.classes")) chosen = config.Strings("data.train.classes");
  if (found.size() > 100) found.resize(100);
  std::string key = ClassesKey(model, config);
  throw UsageError(
      {.what = fmt::format("num_classes is {}, but {} has {} categories: {}", model.num_classes(),
                           source.path(), count, fmt::join(found, ", ")),
       .where = config.Where(key),
       .expected = fmt::format(
           "num_classes: {}{}", count,
           chosen.empty() ? "" : fmt::format(" (data.train.classes: {})", fmt::join(chosen, ", "))),
       .next = "set " + key + ", or choose categories with data.train.classes"});
}

// Label k must mean the same in both parts.
void CheckSameClasses(const BatchSource& train, const BatchSource& val) {
  std::vector<std::string> a = train.classes(), b = val.classes();
  if (a == b) return;
  throw UsageError({.what = fmt::format("{} has the classes {}, but {} has {}", val.path(),
                                        fmt::join(b, ", "), train.path(), fmt::join(a, ", ")),
                    .expected = "the same classes in the same order",
                    .next = "name them in data.train.classes and data.val.classes"});
}

void OpenData(const Reader& config, const TrainOptions& options, const Warn& warn, Setup& s) {
  const models::Task task = s.model->task();
  std::vector<data::AuditPart> parts = {data::OpenPart(config, "train")};
  if (s.settings.eval_interval > 0 && config.Has("data.val"))
    parts.push_back(data::OpenPart(config, "val"));
  s.train = OpenBatches(config, task, parts[0], options.seed);
  CheckClasses(*s.model, *s.train, config);
  nlohmann::json categories = nlohmann::json::array();
  for (const data::Category& c : s.train->categories())
    categories.push_back({{"id", c.id}, {"name", c.name}});
  s.categories = categories.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (parts.size() > 1) {
    s.val = OpenBatches(config, task, parts[1], options.seed);
    CheckClasses(*s.model, *s.val, config);
    CheckSameClasses(*s.train, *s.val);
  }
  CheckData(config, std::move(parts), warn);
  for (BatchSource* source : {s.train.get(), s.val.get()}) {
    if (source == nullptr) continue;
    for (const std::string& line : source->TakeWarnings()) warn("data.image_left_out", line);
  }
}

FlatState FirstState(const Reader& config, const TrainOptions& options, const Warn& warn,
                     const Setup& s) {
  const graph::ParamLayout& layout = s.params->layout();
  FlatState state;
  state.params.resize(static_cast<size_t>(layout.param_elements()));
  state.states.resize(static_cast<size_t>(layout.state_elements()));
  state.optimizer.resize(state.params.size() * s.slot_names.size());
  graph::InitializeParams(layout, options.seed, state.params.data());
  graph::InitializeStates(layout, state.states.data());
  if (options.resume_checkpoint.empty()) {
    const std::vector<std::string> classes =
        s.train ? s.train->classes() : std::vector<std::string>();
    LoadInitialWeights(config, layout, classes, warn, &state);
  }
  if (s.optimizer.ema_momentum > 0) {  // the average begins at the first weights
    std::copy(state.params.begin(), state.params.end(),
              state.optimizer.end() - static_cast<std::ptrdiff_t>(state.params.size()));
  }
  return state;
}

// Faster R-CNNs and classifiers have them; whether they are trained is the config's word.
bool TrainsBatchNorm(const Reader& config) {
  if (config.Has("model.bbox_head")) return false;  // VGG has none
  if (config.String("model.backbone.norm_cfg.type", "BN") == "FrozenBN") return false;
  return !config.Bool("model.backbone.norm_eval", false);
}

// Says that the phase begins, calls it and notes how long it took.
void Timed(Setup& s, const SetupObserver& observer, const char* name,
           const std::function<void()>& phase) {
  observer.preparing(name);
  auto start = std::chrono::steady_clock::now();
  phase();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  s.phases.emplace_back(name, took.count());
}

// Device, parameters with their first values, and a program a shape.
void BuildSteps(const Reader& config, const TrainOptions& options,
                const std::vector<BatchShape>& shapes, const SetupObserver& observer, Setup& s) {
  const Warn& warn = observer.warn;
  s.slot_names = OptimizerSlotNames(s.optimizer);
  s.trains_batch_norm = TrainsBatchNorm(config);
  Timed(s, observer, "device", [&] { ChooseDevice(config, options, warn, s); });
  s.background_last = BackgroundOf(config) == Background::kLast;
  std::shared_future<FlatState> first;
  Timed(s, observer, "weights", [&] {
    std::shared_ptr<graph::ParamLayout> layout =
        LayoutOf(*s.model, s.optimizer, shapes.front(), s.compute);
    s.params = std::make_unique<graph::ParamBuffers>(*s.backend, layout, s.compute, true,
                                                     OptimizerSlotCount(s.optimizer),
                                                     s.optimizer.cumulative_iters > 1);
    // Drawing them takes the better part of a second, in which the steps can be built. But what is
    // wrong with a file of weights is said at once.
    first = std::async(std::launch::async, [&] { return FirstState(config, options, warn, s); });
    if (NamesInitialWeights(config)) first.get();
  });
  Timed(s, observer, "steps", [&] {
    s.steps = std::make_unique<StepRunner>(*s.backend, *s.model, *s.params, s.compute, s.optimizer,
                                           shapes);
    s.WriteState(first.get());
  });
}

// Often left over from a base config whose model, optimizer or policy is another one.
void WarnOfUnused(const Reader& config, const Warn& warn) {
  std::vector<std::string> keys;
  for (const config::UnusedKey& key : UnusedByTraining(config)) keys.push_back(key.path);
  if (keys.empty()) return;
  warn("config.unused", fmt::format("this run never reads {}", fmt::join(keys, ", ")));
}

}  // namespace

int64_t Setup::steps_per_epoch() const {
  int64_t iters = optimizer.cumulative_iters;
  return (train->batches_per_epoch() + iters - 1) / iters;
}

FlatState Setup::ReadState() const {
  FlatState state;
  ReadState(&state);
  return state;
}

void Setup::ReadState(FlatState* state) const {
  params->Read(graph::Storage::kParam, &state->params);
  params->Read(graph::Storage::kState, &state->states);
  params->Read(graph::Storage::kOptimizer, &state->optimizer);
}

std::vector<float> Setup::UseAverages() {
  std::vector<float> weights = params->Read(graph::Storage::kParam);
  std::vector<float> slots = params->Read(graph::Storage::kOptimizer);
  UseWeights({slots.end() - static_cast<std::ptrdiff_t>(weights.size()), slots.end()});
  return weights;
}

void Setup::UseWeights(const std::vector<float>& weights) {
  params->Write(graph::Storage::kParam, weights);
}

void Setup::WriteState(const FlatState& state) {
  params->Write(graph::Storage::kParam, state.params);
  params->Write(graph::Storage::kState, state.states);
  params->Write(graph::Storage::kOptimizer, state.optimizer);
}

std::unique_ptr<Setup> PrepareTraining(const Reader& config, const TrainOptions& options,
                                       const SetupObserver& observer) {
  const Warn& warn = observer.warn;
  auto s = std::make_unique<Setup>();
  s->model = models::CreateModel(config.Child("model"));
  s->optimizer = ReadOptimizer(config);
  s->settings = ReadRunSettings(config, *s->model);
  Timed(*s, observer, "data", [&] { OpenData(config, options, warn, *s); });
  // The schedule spans the config's epochs, also when only the first few are run again.
  int planned_epochs = s->settings.max_epochs >= 0 ? s->settings.max_epochs : options.max_epochs;
  if (planned_epochs < 0) config.Int("runner.max_epochs");  // says that it is missing
  if (options.max_epochs >= 0) s->settings.max_epochs = options.max_epochs;
  s->schedule = std::make_unique<Schedule>(
      ReadSchedule(config, std::max(planned_epochs, 1), s->steps_per_epoch()));
  for (const std::string& doubt : s->schedule->Doubts()) warn("schedule.doubt", doubt);
  BuildSteps(config, options, s->train->Shapes(), observer, *s);
  WarnOfUnused(config, warn);
  if (s->trains_batch_norm && s->optimizer.cumulative_iters > 1) {
    warn("accumulate.batch_norm",
         fmt::format("batch norms are trained on each of the {} batches apart: this isn't the same "
                     "as one batch of {} images",
                     s->optimizer.cumulative_iters,
                     s->optimizer.cumulative_iters * s->train->Shapes().front().n));
  }
  if (s->val) {
    Timed(*s, observer, "evaluation", [&] {
      s->evaluator = MakeEvaluator(
          {*s->backend, *s->model, *s->params, s->compute, s->steps->arena()}, *s->val);
    });
  }
  s->backend->StopAt(nullptr);  // from here on steps end first, and the state is saved
  return s;
}

std::unique_ptr<Setup> PrepareStep(const Reader& config, const TrainOptions& options,
                                   const std::vector<BatchShape>& shapes) {
  auto s = std::make_unique<Setup>();
  s->model = models::CreateModel(config.Child("model"));
  s->optimizer = ReadOptimizer(config);
  const SetupObserver nobody{[](const std::string&, const std::string&) {},
                             [](const std::string&) {}};
  BuildSteps(config, options, shapes, nobody, *s);
  s->backend->StopAt(nullptr);
  return s;
}

}  // namespace xp::train
