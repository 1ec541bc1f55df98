#include "src/cli/model_source.h"

#include <fmt/format.h>

#include <optional>

#include "exp/base/error.h"
#include "exp/base/printable.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "exp/train/checkpoint.h"
#include "src/cli/run_checkpoints.h"
#include "src/cli/run_folder.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

// What a run calls its main metric, best value first.
bool Better(const train::CheckpointInfo& a, const train::CheckpointInfo& b) {
  for (const char* name : {"bbox_mAP", "top1"}) {
    auto x = a.metrics.find(name), y = b.metrics.find(name);
    if (x == a.metrics.end()) continue;
    return y == b.metrics.end() || x->second > y->second;
  }
  return false;
}

// The newest, or the best, of a run's checkpoints that are still as they were written.
fs::path CheckpointOf(const record::Run& run, const fs::path& store, const std::string& which) {
  // Only checkpoints of ours say how good they are.
  const bool newest = which == "last" || run.kind == "command";
  UsableCheckpoints found = FindCheckpoints(run, store, newest ? Wanted::kNewest : Wanted::kAll);
  if (found.usable.empty()) {
    throw NoCheckpoint(run, store,
                       "put one back; or give the path of a copy, which leads to this run by its "
                       "content, wherever it is");
  }
  for (const std::string& line : found.passed_over) Tell("warning: {}\n", line);
  fs::path best = found.usable.front().path;
  if (newest) return best;
  train::CheckpointInfo best_info = train::LoadCheckpoint(best).info;
  for (size_t i = 1; i < found.usable.size(); ++i) {
    train::CheckpointInfo info = train::LoadCheckpoint(found.usable[i].path).info;
    if (!Better(info, best_info)) continue;
    best = found.usable[i].path;
    best_info = std::move(info);
  }
  return best;
}

void FromRun(const record::Run& run, const fs::path& store, ModelSource& source) {
  if (run.config_json.empty()) {
    throw UsageError({.what = "run " + run.id + " was recorded without a config",
                      .next = "give one with --config"});
  }
  source.config = config::FromJson(run.config_json, "record of " + run.id);
  source.run_id = run.id;
  source.folder = FolderNow(run, store);
}

// The run that the checkpoint's metadata name, where a store knows it; what is said about it else.
std::string FindWriter(const ModelRequest& request, ModelSource& source,
                       std::optional<record::Run>* found) {
  auto file = train::OpenTensorFile(source.weights);
  auto run = file->metadata().find("exp.run");
  if (run == file->metadata().end()) return "the file doesn't say which run wrote it";
  try {
    record::Store store = record::OpenFoundStore(request.store);
    record::Run writer = record::LoadRun(store, record::ResolveRun(store, run->second));
    if (writer.id != run->second)  // "@" or a name would be some other run
      return "`exp.run` of its metadata is no run's id: " + run->second;
    *found = std::move(writer);
    source.run_id = (*found)->id;
    source.store = fs::absolute(store.folder());
    return "";
  } catch (const Error&) {
    return "no store here knows run " + run->second + ", which wrote it";
  }
}

void FromCheckpoint(const ModelRequest& request, ModelSource& source) {
  std::optional<record::Run> run;
  std::string problem = FindWriter(request, source, &run);
  if (!request.config.empty()) return;  // then the run is only where the result is recorded
  if (run) return FromRun(*run, source.store, source);
  throw UsageError({.what = problem,
                    .where = source.weights.string(),
                    .expected = "a config for these weights",
                    .next = "give one with --config"});
}

// What only a file can be called, or is called: it isn't looked for among the runs.
void RefuseOtherPaths(const std::string& target) {
  const fs::path path = target;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const std::string ending = path.extension().string();
  const bool named_as_file = target.find('/') != std::string::npos || ending == ".safetensors" ||
                             ending == ".pth" || ending == ".pt";
  std::string problem;
  std::string next = "`exp ls` lists the runs";
  if (fs::is_directory(status)) {
    problem = "is a folder, and no run is called so";
    auto checkpoints = train::ListCheckpoints(path);
    if (!checkpoints.empty())
      next = "its newest checkpoint is " + checkpoints.back().path.string() + "; " + next;
  } else if (fs::exists(status)) {
    problem = "is not a regular file";
  } else if (named_as_file) {
    problem = "there is no such file";
  }
  if (problem.empty()) return;
  throw UsageError({.what = problem,
                    .where = target,
                    .expected = "a RUN, or a .safetensors or .pth file",
                    .next = next});
}

// The run of the store that is called so.
record::Run FindRun(const record::Store& store, const std::string& target) {
  try {
    return record::LoadRun(store, record::ResolveRun(store, target));
  } catch (const Error&) {
    RefuseOtherPaths(target);
    throw;
  }
}

}  // namespace

ModelSource FindModel(const ModelRequest& request) {
  ModelSource source;
  std::error_code error;
  bool file = fs::is_regular_file(request.target, error);
  if (file) {
    source.weights = fs::absolute(request.target);
    FromCheckpoint(request, source);
  } else {
    record::Store store = record::OpenFoundStore(request.store);
    record::Run run = FindRun(store, request.target);
    source.weights = fs::absolute(CheckpointOf(run, store.folder(), request.which));
    if (request.config.empty()) FromRun(run, store.folder(), source);
    source.run_id = run.id;
    source.store = fs::absolute(store.folder());
  }
  if (!request.config.empty()) {
    source.config = config::Load(request.config, request.set).root;
  } else if (!request.set.empty()) {
    std::vector<config::Notice> warnings;
    config::ApplyOverrides(source.config, request.set, {}, &warnings);
  }
  return source;
}

}  // namespace xp::cli
