#include "src/train/triage.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "exp/base/hash.h"

namespace xp::train {
namespace {

using graph::Storage;

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool SameBits(const StepLosses& a, const StepLosses& b) {
  if (a.parts.size() != b.parts.size()) return false;
  for (size_t p = 0; p < a.parts.size(); ++p) {
    for (size_t i = 0; i < a.parts[p].size(); ++i) {
      double x = a.parts[p][i].second, y = b.parts[p][i].second;
      if (!SameBits(x, y) && !(std::isnan(x) && std::isnan(y))) return false;
    }
  }
  return true;
}

const std::pair<std::string, double>* NonFinite(const StepLosses& losses) {
  for (const auto& term : losses.mean) {
    if (!std::isfinite(term.second)) return &term;
  }
  return nullptr;
}

ParamReport Summarize(const std::string& name, const float* values, int64_t count) {
  ParamReport r{.name = name, .elements = count};
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) {
      ++r.non_finite;
      continue;
    }
    sum += static_cast<double>(values[i]) * values[i];
    r.largest = std::max(r.largest, std::abs(static_cast<double>(values[i])));
  }
  r.norm = std::sqrt(sum);
  return r;
}

void WorstFirst(std::vector<ParamReport>* reports) {
  std::stable_sort(reports->begin(), reports->end(),
                   [](const ParamReport& a, const ParamReport& b) {
                     bool bad_a = a.non_finite > 0, bad_b = b.non_finite > 0;
                     return bad_a != bad_b ? bad_a : a.norm > b.norm;
                   });
}

// Gradients that the backward pass left in the compute type, as floats.
std::vector<float> ReadComputeGradients(const Setup& setup) {
  size_t bytes = setup.params->Bytes(Storage::kGradCompute);
  std::vector<std::byte> raw(bytes);
  if (bytes == 0) return {};
  setup.backend->Download(raw.data(), setup.params->Data(Storage::kGradCompute), bytes);
  std::vector<float> values(bytes / 2);
  ElementType type = setup.compute == graph::DType::kBF16 ? ElementType::kBF16 : ElementType::kF16;
  ToFloats(type, raw.data(), values.size(), values.data());
  return values;
}

// What of the state shows a fault, without fp16's overflowing gradients, which its scale handles.
bool FaultAfter(Setup& setup, Incident* incident) {
  if (setup.compute != graph::DType::kF16) {
    std::vector<ParamReport> gradients = GradientReport(setup);
    if (!gradients.empty() && gradients[0].non_finite > 0) {
      incident->fault = Fault::kGradient;
      incident->term = gradients[0].name;
      incident->value = std::nan("");
      return true;
    }
  }
  FlatState after = setup.ReadState();
  if (AllFinite(after.params) && AllFinite(after.states) && AllFinite(after.optimizer))
    return false;
  incident->fault = Fault::kWeights;
  std::vector<ParamReport> weights = WeightReport(setup, after);
  incident->term = !weights.empty() && weights[0].non_finite > 0 ? weights[0].name
                   : !AllFinite(after.optimizer)                 ? "optimizer state"
                                                                 : "batch-norm statistics";
  incident->value = std::nan("");
  return true;
}

// Runs the step's batches twice more from the state before it and compares losses and gradients.
void RunAgain(Setup& setup, uint64_t seed, Incident* incident) {
  std::vector<StepLosses> losses;
  std::vector<Hash128> hashes;
  for (int run = 0; run < 2; ++run) {
    setup.WriteState(incident->before);
    StepGroup group;
    group.step = incident->step;
    group.lr = incident->lr;
    RunBatches(setup, seed, incident->batches, false, &group);
    losses.push_back(WaitForLosses(setup, group));
    setup.backend->Synchronize();
    std::vector<float> grad = setup.params->Read(Storage::kGrad),
                       half = ReadComputeGradients(setup);
    Hasher hasher;
    hasher.Update(grad.data(), grad.size() * sizeof(float));
    hasher.Update(half.data(), half.size() * sizeof(float));
    hashes.push_back(hasher.Digest());
  }
  incident->gradients = GradientReport(setup);
  incident->repeats = SameBits(losses[0], losses[1]) && hashes[0] == hashes[1] &&
                      SameBits(losses[0], incident->losses) &&
                      incident->fault != Fault::kNotRepeated;
  setup.WriteState(incident->before);
}

void NameFiles(const Setup& setup, Incident* incident) {
  for (const data::Batch& b : incident->batches) {
    for (int64_t id : b.image_ids) incident->files.push_back(setup.train->ImageName(id));
  }
}

double LossScale(const Setup& setup, const FlatState& state) {
  int index = setup.params->layout().FindState("loss_scale");
  if (index < 0) return 0;
  return state.states[static_cast<size_t>(
      setup.params->layout().states()[static_cast<size_t>(index)].offset)];
}

// What the first run of the epoch says of a step; null where it isn't known.
const EpochTrace::Step* Traced(const EpochTrace& trace, int64_t step) {
  auto i = static_cast<size_t>(step - trace.start_step);
  return i < trace.steps.size() && trace.steps[i].reported ? &trace.steps[i] : nullptr;
}

}  // namespace

std::string ValueText(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);  // a NaN's sign says nothing
}

std::string Incident::What() const {
  switch (fault) {
    case Fault::kLoss:
      return fmt::format("{} is {} at step {} (epoch {})", term, ValueText(value), step, epoch + 1);
    case Fault::kGradient:
      return fmt::format("the gradient of {} isn't finite at step {} (epoch {})", term, step,
                         epoch + 1);
    case Fault::kWeights:
      return fmt::format("{} isn't finite after step {} (epoch {})", term, step, epoch + 1);
    case Fault::kNotRepeated:
      return fmt::format(
          "step {} (epoch {}) gave numbers that it didn't give when it was run again", step,
          epoch + 1);
  }
  return "";
}

std::string Incident::ImageIds() const {
  std::string ids;
  for (const data::Batch& b : batches) {
    for (int64_t id : b.image_ids) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  }
  return ids;
}

std::vector<ParamReport> GradientReport(Setup& setup) {
  bool sum = setup.optimizer.cumulative_iters > 1;
  std::vector<float> grad = setup.params->Read(sum ? Storage::kAccumulated : Storage::kGrad);
  std::vector<float> half = sum ? std::vector<float>() : ReadComputeGradients(setup);
  const graph::Graph& g = setup.steps->program(0).graph();
  std::vector<ParamReport> reports;
  for (const graph::Param& p : setup.params->layout().params()) {
    bool compute = g.Find(p.name, Storage::kGradCompute) != graph::kNoTensor;
    graph::TensorId own = g.Find(p.name, Storage::kGrad);
    if (!compute && own == graph::kNoTensor) continue;
    const std::vector<float>& from = compute && !half.empty() ? half : grad;
    int64_t offset = compute || sum ? p.offset : g.tensor(own).offset;
    reports.push_back(Summarize(p.name, from.data() + offset, p.elements()));
  }
  WorstFirst(&reports);
  return reports;
}

std::vector<ParamReport> WeightReport(const Setup& setup, const FlatState& state) {
  std::vector<ParamReport> reports;
  for (const graph::Param& p : setup.params->layout().params())
    reports.push_back(Summarize(p.name, state.params.data() + p.offset, p.elements()));
  for (const graph::StateVar& s : setup.params->layout().states()) {
    reports.push_back(
        Summarize(s.name, state.states.data() + s.offset, graph::NumElements(s.shape)));
  }
  WorstFirst(&reports);
  return reports;
}

Incident Investigate(Setup& setup, const TrainOptions& options, const EpochTrace& trace,
                     int64_t suspect, bool every_step) {
  Incident incident;
  incident.epoch = trace.epoch;
  setup.WriteState(trace.start);
  setup.train->StartEpoch(static_cast<uint32_t>(trace.epoch), trace.start_batch);
  int64_t batch = trace.start_batch;
  data::Batch scratch;
  bool drifted = false;
  for (int64_t step = trace.start_step; step <= suspect; ++step) {
    bool skip = trace.skipped.contains(step);
    bool look = !skip && (every_step || step + 2 > suspect);
    incident.step = step;
    incident.batches.clear();
    if (look || skip) incident.before = setup.ReadState();
    const EpochTrace::Step* traced = Traced(trace, step);
    StepGroup group;
    group.step = step;
    group.lr = incident.lr = trace.steps[static_cast<size_t>(step - trace.start_step)].lr;
    bool more = RunGroup(setup, options.seed, &batch, &scratch, &group, [&](const data::Batch& b) {
      if (look) incident.batches.push_back(b);
    });
    if (!more) break;
    incident.next_batch = batch;
    incident.losses = WaitForLosses(setup, group);
    if (skip) {
      setup.WriteState(incident.before);
      continue;
    }
    drifted = drifted || (traced != nullptr && !SameBits(incident.losses, traced->losses));
    if (const auto* term = NonFinite(incident.losses)) {
      incident.term = term->first;
      incident.value = term->second;
      break;
    }
    if (look && FaultAfter(setup, &incident)) break;
    if (step == suspect) incident.fault = Fault::kNotRepeated;
  }
  for (int64_t s = std::max(trace.start_step, incident.step - 30); s < incident.step; ++s) {
    if (const EpochTrace::Step* t = Traced(trace, s)) incident.recent.push_back(t->losses.total);
  }
  incident.loss_scale = LossScale(setup, incident.before);
  NameFiles(setup, &incident);
  RunAgain(setup, options.seed, &incident);
  if (drifted) incident.repeats = false;
  incident.weights = WeightReport(setup, incident.before);
  incident.causes = Diagnose(incident, setup, trace);
  return incident;
}

}  // namespace xp::train
