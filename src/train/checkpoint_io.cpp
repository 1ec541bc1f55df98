#include "src/train/checkpoint_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "exp/base/error.h"
#include "exp/base/system_advice.h"

namespace xp::train {
namespace fs = std::filesystem;

void LossSums::Add(const NamedValues& losses) {
  // By name: what a checkpoint brought along may be other terms.
  for (const auto& [name, value] : losses) {
    auto sum =
        std::find_if(sums_.begin(), sums_.end(), [&](const auto& s) { return s.first == name; });
    if (sum == sums_.end()) sum = sums_.insert(sums_.end(), {name, 0.0});
    sum->second += value;
  }
  ++count_;
}

NamedValues LossSums::Means() const {
  NamedValues means = sums_;
  for (auto& [name, value] : means) value /= static_cast<double>(std::max<int64_t>(count_, 1));
  return means;
}

std::string LossSums::Text() const {
  std::string text = std::to_string(count_);
  for (const auto& [name, value] : sums_) text += fmt::format(" {}={:a}", name, value);
  return text;
}

LossSums LossSums::Parse(const std::string& text) {
  LossSums sums;
  std::istringstream in(text);
  std::string field;
  in >> sums.count_;
  while (in >> field) {
    size_t equals = field.find('=');
    if (equals == std::string::npos) continue;
    sums.sums_.emplace_back(field.substr(0, equals),
                            std::strtod(field.c_str() + equals + 1, nullptr));
  }
  return sums;
}

CheckpointEvent WriteRunCheckpoint(const fs::path& work_dir, const CheckpointInfo& info,
                                   const FlatState& state, const Setup& setup,
                                   const CheckpointExtras& extras) {
  std::vector<NamedTensor> tensors = ExportState(setup.params->layout(), state, setup.slot_names);
  CheckpointInfo saved = info;
  if (extras.epoch_begin != nullptr) {
    for (NamedTensor& t :
         ExportState(setup.params->layout(), *extras.epoch_begin, setup.slot_names)) {
      t.name.insert(0, kEpochBegin);
      tensors.push_back(std::move(t));
    }
    saved.metadata["exp.epoch_begin_step"] = std::to_string(extras.epoch_begin_step);
  }
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const NamedTensor& t : tensors)
    views.push_back({{t.name, ElementType::kF32, t.shape}, t.values.data()});
  std::error_code error;
  fs::create_directories(work_dir, error);
  if (error)
    throw JobError({.what = "can't be created: " + error.message(),
                    .where = work_dir.string(),
                    .next = WriteAdvice(error.value())});
  CheckpointEvent e;
  fs::path path = work_dir / (extras.name.empty() ? CheckpointFileName(info) : extras.name);
  saved.metadata["exp.categories"] = setup.categories;
  if (setup.background_last) saved.metadata["exp.background"] = "last";  // weight_names.h
  e.hash = SaveCheckpoint(path, saved, views);
  e.path = path.string();
  e.epoch = info.batch > 0 ? info.epoch : info.epoch - 1;
  e.step = info.step;
  e.bytes = fs::file_size(path, error);
  return e;
}

void RemoveSuperfluous(const fs::path& work_dir, const KeepPolicy& policy, const std::string& run) {
  if (policy.last <= 0) return;
  std::vector<CheckpointEntry> own = ListCheckpoints(work_dir);
  std::erase_if(own, [&](const CheckpointEntry& entry) {
    auto by = entry.info.metadata.find("exp.run");
    return (by == entry.info.metadata.end() ? "" : by->second) != run;
  });
  for (const fs::path& path : Superfluous(own, policy)) {
    std::error_code ignored;  // a file that stays does no harm
    fs::remove(path, ignored);
  }
}

namespace {

NamedTensor ReadNamed(const TensorFile& file, const TensorInfo& info) {
  return {info.name, info.shape, file.ReadFloats(info.name)};
}

std::string Listed(const std::set<std::string>& names) {
  std::string text;
  size_t shown = 0;
  for (const std::string& name : names) {
    if (shown++ == 8) return text + fmt::format(" and {} more", names.size() - 8);
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

// Names that the model has and a complete file must have.
std::set<std::string> ModelNames(const graph::ParamLayout& layout,
                                 const std::vector<std::string>& slots) {
  std::set<std::string> names;
  for (const graph::Param& p : layout.params()) {
    names.insert(p.name);
    for (const std::string& slot : slots) names.insert(SlotTensorName(slot, p.name));
  }
  for (const graph::StateVar& s : layout.states()) names.insert(s.name);
  return names;
}

// A number of the metadata; `absent` where there is none.
int64_t Count(const CheckpointInfo& info, const char* key, int64_t absent) {
  auto at = info.metadata.find(key);
  return at == info.metadata.end() ? absent : std::strtoll(at->second.c_str(), nullptr, 10);
}

// Reads the state whose names in the file begin with `prefix`; what of it is missing.
std::set<std::string> ReadPrefixed(const TensorFile& file, const std::string& prefix,
                                   const Setup& setup, FlatState* state) {
  std::set<std::string> missing = ModelNames(setup.params->layout(), setup.slot_names);
  for (const TensorInfo& t : file.tensors()) {
    if (!t.name.starts_with(prefix)) continue;
    NamedTensor named = ReadNamed(file, t);
    named.name.erase(0, prefix.size());
    if (ImportTensor(setup.params->layout(), named, setup.slot_names, file.path(), state))
      missing.erase(named.name);
  }
  return missing;
}

// Only where it leads to the checkpoint's step under this config: another batch size, confirmed
// with --accept-changes, divides epochs otherwise.
void ReadEpochBegin(const Checkpoint& checkpoint, const Setup& setup, ResumePoint* point) {
  int64_t step = Count(checkpoint.info, "exp.epoch_begin_step", -1);
  int64_t iters = setup.optimizer.cumulative_iters;
  if (step < 0 || point->step - step != (point->batch + iters - 1) / iters) return;
  FlatState state = setup.ReadState();
  if (!ReadPrefixed(*checkpoint.file, kEpochBegin, setup, &state).empty()) return;
  point->epoch_begin = std::move(state);
  point->epoch_begin_step = step;
}

}  // namespace

ResumePoint RestoreCheckpoint(const Checkpoint& checkpoint, Setup& setup, uint64_t seed) {
  const CheckpointInfo& info = checkpoint.info;
  const std::string& where = checkpoint.file->path();
  if (info.seed != seed) {
    throw UsageError(
        {.what = fmt::format("the checkpoint's run had seed {}, this one has {}", info.seed, seed),
         .where = where,
         .next = fmt::format("resume with --seed {}", info.seed)});
  }
  FlatState state = setup.ReadState();
  std::set<std::string> missing = ReadPrefixed(*checkpoint.file, "", setup, &state);
  if (!missing.empty()) {
    throw UsageError(
        {.what = "the checkpoint lacks " + Listed(missing),
         .where = where,
         .next = "resume with the config of the run that wrote it, or start anew with load_from"});
  }
  setup.WriteState(state);
  ResumePoint point;
  point.epoch = info.epoch;
  point.batch = info.batch;
  point.step = info.step;
  if (auto it = info.metadata.find("exp.lr_scale"); it != info.metadata.end())
    point.lr_scale = std::strtod(it->second.c_str(), nullptr);
  if (auto it = info.metadata.find("exp.loss_sums"); it != info.metadata.end())
    point.sums = LossSums::Parse(it->second);
  point.incidents = static_cast<int>(Count(info, "exp.nonfinite_events", 0));
  point.metrics = info.metrics;
  ReadEpochBegin(checkpoint, setup, &point);
  return point;
}

void RequireWithin(const ResumePoint& point, const Setup& setup, const std::string& file) {
  const int64_t batches = setup.train->batches_per_epoch();
  if (point.batch > batches) {
    throw UsageError(
        {.what = fmt::format("the checkpoint has {} batches of epoch {} behind it, but an epoch "
                             "has {} now",
                             point.batch, point.epoch + 1, batches),
         .where = file,
         .expected = "batches as small and data as many as those of the run that wrote it",
         .next = "resume with these, or take only its weights with load_from"});
  }
  const int epochs = setup.settings.max_epochs, begun = point.epoch + (point.batch > 0 ? 1 : 0);
  if (begun > epochs) {
    throw UsageError(
        {.what = fmt::format("the checkpoint is of epoch {}, but only {} shall be trained", begun,
                             epochs),
         .where = file,
         .expected = fmt::format("runner.max_epochs of {} or more", begun),
         .next = "raise runner.max_epochs"});
  }
}

}  // namespace xp::train
