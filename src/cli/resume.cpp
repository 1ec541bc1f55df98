// `exp resume`, and what `exp run --resume` does.
#include "src/cli/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/config/canonical.h"
#include "exp/config/schema.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "src/cli/command.h"
#include "src/cli/config_changes.h"
#include "src/cli/model_source.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

// The newest checkpoint of a run that is still as it was written.
const record::CheckpointRecord& Newest(const record::Run& run) {
  for (auto c = run.checkpoints.rbegin(); c != run.checkpoints.rend(); ++c) {
    std::error_code error;
    if (!fs::is_regular_file(c->path, error)) continue;  // let go of by the keep policy, or moved
    if (HashFile(c->path).Hex() == c->hash) return *c;
    fmt::print(stderr, "warning: {} isn't as it was written: the checkpoint before it is used\n",
               c->path);
  }
  throw UsageError({.what = "run " + run.id + " has no checkpoint to go on from",
                    .expected = "a checkpoint file that is where it was written, unchanged",
                    .next = "start a new run; load_from takes weights from any file"});
}

[[noreturn]] void Owned(const record::RunLine& run) {
  throw UsageError({.what = fmt::format("run {} is owned by process {} on {}, which still runs",
                                        run.id, run.pid, run.host),
                    .next = "wait for it or stop it; `exp log --follow " + run.id + "` shows it"});
}

// The newest run of this config that ended early; empty where there is none, or no store. One that
// still runs is somebody's: a second job must not quietly begin another.
std::string EndedEarly(const fs::path& folder, const std::string& hash) {
  std::error_code error;
  if (!fs::exists(folder / "exp.db", error)) return "";
  for (const record::RunLine& r : record::ListRuns(record::Store::Open(folder), {})) {
    if (r.config_hash != hash) continue;
    if (r.state == "running") Owned(r);
    if (r.state != "finished") return r.id;
  }
  return "";
}

// The run that writes its checkpoints into that folder.
std::string OfFolder(const record::Store& store, const std::string& selector) {
  std::error_code error;
  if (!fs::is_directory(selector, error)) return selector;
  fs::path folder = fs::weakly_canonical(selector, error);
  for (const record::RunLine& r : record::ListRuns(store, {})) {
    if (!r.work_dir.empty() && fs::weakly_canonical(r.work_dir, error) == folder) return r.id;
  }
  throw UsageError({.what = "no run of the store wrote its checkpoints there",
                    .where = selector,
                    .expected = "a RUN, `auto`, or a run's folder of checkpoints",
                    .next = "for weights alone use load_from in the config"});
}

// An old run's state under a changed config is another run: its record says what it began from.
void Continue(const record::Run& run, const std::vector<std::string>& changes,
              const record::CheckpointRecord& from, Launch& launch) {
  launch.resume_checkpoint = from.path;
  launch.parent_id = run.id;
  launch.relation = "continues";
  launch.name = run.name + "-changed";
  launch.config.warnings.push_back({"resume.from", from.hash + " " + from.path, ""});
  for (const std::string& change : changes)
    launch.config.warnings.push_back({"resume.changed", change, ""});
}

void GoOn(const record::Run& run, const record::CheckpointRecord& from, Launch& launch) {
  launch.resume_checkpoint = from.path;
  launch.resume_hash = from.hash;
  launch.resume_step = from.step;
  for (const record::EpochRecord& e : run.epochs) {
    if (e.step <= from.step) launch.resume_epoch = std::max(launch.resume_epoch, e.epoch + 1);
  }
  launch.resume_run = run.id;
  launch.name = run.name;
}

// A run without a checkpoint of its own begins again, where it began.
void BeginAgain(const record::Run& run, Launch& launch) {
  fmt::print("run {} has no checkpoint yet: it begins again\n", run.id);
  launch.resume_checkpoint = BeganFrom(run);
  launch.resume_run = run.id;
  launch.name = run.name;
}

void RefuseRunning(const record::Run& run) {
  if (run.state == "running") Owned(run);
}

struct Options {
  std::string run, device, store;
  std::vector<std::string> set;
  bool accept_changes = false;
};

Launch FromRecord(const record::Run& run, const Options& options, const Context& context) {
  if (run.config_json.empty() || run.kind == "command") {
    throw UsageError({.what = "run " + run.id +
                              (run.kind == "command" ? " is another program's"
                                                     : " was recorded without a config"),
                      .next = "go on with that program's own way to resume"});
  }
  Launch launch;
  launch.config.root = config::FromJson(run.config_json, "record of " + run.id);
  launch.config.overrides = options.set;
  if (!options.set.empty()) {
    config::ApplyOverrides(launch.config.root, options.set, {}, &launch.config.warnings);
    config::RequireValid(launch.config.root);
  }
  launch.config_file = run.config_file;
  launch.argv = context.argv;
  launch.device =
      options.device.empty() ? run.device.substr(0, run.device.find(' ')) : options.device;
  if (launch.device.empty()) launch.device = "auto";
  return launch;
}

void Run(const Options& options, Context& context) {
  Launch launch;
  fs::path cwd;
  {
    record::Store store = record::OpenFoundStore(options.store);
    record::Run run =
        record::LoadRun(store, record::ResolveRun(store, OfFolder(store, options.run)));
    launch = FromRecord(run, options, context);
    launch.store = fs::absolute(store.folder());
    cwd = run.cwd;
  }
  SetUpResume({.selector = options.run, .accept_changes = options.accept_changes}, launch);
  EnterFolder(cwd);
  PrintResult(Execute(launch), "exp resume " + options.run, context);
}

}  // namespace

fs::path BeganFrom(const record::Run& run) {
  for (const record::WarningRecord& w : run.warnings) {
    size_t space = w.message.find(' ');
    if (w.code != "config.resume.from" || space == std::string::npos) continue;
    fs::path path = w.message.substr(space + 1);
    std::error_code error;
    if (fs::is_regular_file(path, error) && HashFile(path).Hex() == w.message.substr(0, space))
      return path;
    throw JobError({.what = "the checkpoint that run " + run.id + " began from is gone or changed",
                    .where = path.string(),
                    .next = "put it back there, or start a new run"});
  }
  return {};
}

void SetUpResume(const ResumeRequest& request, Launch& launch) {
  config::Node clean = CleanConfig(launch);
  std::string hash = config::Identity(clean).Hex();
  bool automatic = request.selector == "auto";
  std::string selector = request.selector;
  if (automatic && (selector = EndedEarly(launch.store, hash)).empty()) {
    fmt::print("nothing to resume: no run of this config ended early; a new run begins\n");
    return;
  }
  record::Store store = record::Store::Open(launch.store);
  if (!automatic) selector = OfFolder(store, selector);
  record::Run run = record::LoadRun(store, record::ResolveRun(store, selector));
  RefuseRunning(run);
  if (!request.seed_given && !run.seed.empty()) launch.seed = std::stoull(run.seed);
  if (run.threads > 0) launch.threads = run.threads;
  launch.plans = RecordedPlans(run);
  if (run.config_hash == hash) {
    if (!request.work_dir_given) launch.work_dir = run.work_dir;
    return run.checkpoints.empty() ? BeginAgain(run, launch) : GoOn(run, Newest(run), launch);
  }
  std::vector<std::string> changes =
      ConfigChanges(config::FromJson(run.config_json, "record of " + run.id), clean);
  if (!request.accept_changes) {
    throw UsageError(
        {.what = fmt::format("the config isn't the one that run {} began with:\n    {}", run.id,
                             fmt::join(changes, "\n    ")),
         .expected = "the same config and --set",
         .next = "undo the changes, or confirm them with --accept-changes: a new run begins at the "
                 "old one's newest checkpoint"});
  }
  fmt::print("going on from run {} with another config:\n    {}\n", run.id,
             fmt::join(changes, "\n    "));
  Continue(run, changes, Newest(run), launch);
}

void AddResumeCommand(Command app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand(
      "resume", "go on with a run that ended early, from its record and newest checkpoint");
  command.AddOption("run", options->run, "id, beginning of one, name, @ (newest), or its folder")
      .Required();
  command.AddOption("--set", options->set, "change the config: needs --accept-changes")
      .OneEachTime()
      .Placeholder("K=V");
  command.AddFlag("--accept-changes", options->accept_changes,
                  "with another config: begin a new run at the old one's checkpoint");
  command.AddOption("--device", options->device, "instead of the recorded one");
  command.AddOption("--store", options->store, "folder of the store");
  command.Footer(
      "Example: exp resume @\n"
      "         exp resume first --set runner.max_epochs=24 --accept-changes");
  command.Callback([options, &context] { Run(*options, context); });
}

}  // namespace xp::cli
