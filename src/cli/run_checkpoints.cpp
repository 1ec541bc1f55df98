#include "src/cli/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "exp/base/hash.h"
#include "exp/base/printable.h"
#include "src/cli/run_folder.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

constexpr const char* kGone = "is gone";

// "was killed (process 3087 ended without a word)"; of a reason the first line.
std::string Ending(const record::Run& run) {
  const std::string reason = run.reason.substr(0, run.reason.find('\n'));
  return fmt::format("was {}{}", run.state == "failed" ? "ended by an error" : run.state,
                     reason.empty() ? "" : " (" + reason + ")");
}

Error WroteNone(const record::Run& run) {
  const bool ended_early = run.state != "running" && run.state != "finished";
  std::string what, next;
  if (run.kind == "command") {
    what = fmt::format("is another program's{} and left no checkpoint in its work_dir",
                       ended_early ? ", " + Ending(run) + "," : "");
    next = "look where that program keeps its weights, and give the file's path and --config";
  } else if (run.state == "running") {
    what = "is still running and has written no checkpoint yet";
    next = "wait for its first one; `exp log --follow " + run.id + "` shows how far it is";
  } else if (run.state == "finished") {
    what = "wrote no checkpoint";
    next = "train with checkpoint_config.interval above 0";
  } else {
    what = Ending(run) + " before its first checkpoint";
    next = "`exp resume " + run.id + "` begins it again";
  }
  return UsageError({.what = fmt::format("run {} {}", run.id, what),
                     .where = run.work_dir,
                     .expected = "a run with a checkpoint",
                     .next = next});
}

// Why the file at `path` isn't the recorded checkpoint; empty where it is.
std::string Problem(const fs::path& path, const record::CheckpointRecord& checkpoint) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return kGone;
  if (!fs::is_regular_file(status))
    return error ? "can't be looked at: " + error.message() : "is no file";
  try {
    return HashFile(path).Hex() == checkpoint.hash ? "" : "isn't as it was written";
  } catch (const Error& e) {
    return e.text().what;
  }
}

// Where it is now; empty, with the problem at the place where it was written, when nowhere.
fs::path FindCheckpoint(const record::Run& run, const record::CheckpointRecord& checkpoint,
                        const fs::path& store, std::string* problem) {
  *problem = Problem(checkpoint.path, checkpoint);
  if (problem->empty()) return checkpoint.path;
  for (const fs::path& moved : MovedPlaces(run, store, checkpoint.path)) {
    if (!Problem(moved, checkpoint).empty()) continue;
    problem->clear();
    return moved;
  }
  return {};
}

}  // namespace

UsableCheckpoints FindCheckpoints(const record::Run& run, const fs::path& store, Wanted wanted) {
  UsableCheckpoints found;
  for (auto c = run.checkpoints.rbegin(); c != run.checkpoints.rend(); ++c) {
    std::string problem;
    fs::path path = FindCheckpoint(run, *c, store, &problem);
    if (!path.empty()) {
      found.usable.push_back({&*c, std::move(path)});
      if (wanted == Wanted::kNewest) break;
    } else if (problem != kGone || c == run.checkpoints.rbegin()) {
      found.passed_over.push_back(Printable(c->path) + " " + problem + ": it is passed over");
    }
  }
  return found;
}

Error NoCheckpoint(const record::Run& run, const fs::path& store, const std::string& next) {
  if (run.checkpoints.empty()) return WroteNone(run);
  constexpr size_t kShown = 5;
  std::string list;
  for (size_t i = 0; i < std::min(kShown, run.checkpoints.size()); ++i) {
    const record::CheckpointRecord& c = run.checkpoints[run.checkpoints.size() - 1 - i];
    std::string problem;
    FindCheckpoint(run, c, store, &problem);
    list += fmt::format("\n    {} {}", c.path, problem);
  }
  if (run.checkpoints.size() > kShown)
    list += fmt::format("\n    and {} before", run.checkpoints.size() - kShown);
  return UsageError(
      {.what = fmt::format("none of the {} checkpoints that run {} wrote{} can be used:{}",
                           run.checkpoints.size(), run.id,
                           run.host.empty() ? "" : " on " + run.host, list),
       .expected = "a checkpoint that is where it was written, unchanged",
       .next = next});
}

}  // namespace xp::cli
