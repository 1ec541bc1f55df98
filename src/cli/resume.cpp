// `exp resume`, and what `exp run --resume` does.
#include "src/cli/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/printable.h"
#include "exp/config/canonical.h"
#include "exp/config/schema.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "src/cli/command.h"
#include "src/cli/config_changes.h"
#include "src/cli/describe_config.h"
#include "src/cli/device_flag.h"
#include "src/cli/inputs.h"
#include "src/cli/run_checkpoints.h"
#include "src/cli/run_folder.h"
#include "src/cli/signals.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

// The warning's code under which a run that continues another says where it began.
constexpr const char* kBeganFrom = "config.resume.from";

// The newest checkpoint of a run that is still as it was written; those passed over are told and
// recorded.
UsableCheckpoint Newest(const record::Run& run, Launch& launch) {
  UsableCheckpoints found = FindCheckpoints(run, launch.store, Wanted::kNewest);
  for (const std::string& text : found.passed_over) {
    Tell("warning: {}\n", text);
    launch.notes.push_back({"checkpoint.damaged", text, ""});
  }
  if (!found.usable.empty()) return found.usable.front();
  throw NoCheckpoint(run, launch.store,
                     "put one back, or start a new run; load_from takes weights from any file");
}

[[noreturn]] void Owned(const record::RunLine& run) {
  throw UsageError({.what = fmt::format("run {} is owned by process {} on {}, which still runs",
                                        run.id, run.pid, run.host),
                    .next = "wait for it or stop it; `exp log --follow " + run.id + "` shows it"});
}

// The newest run of this config and trainer that ended early; empty where there is none, or no
// store. One that still runs is somebody's: a second job must not quietly begin another. A
// reproduction is no training to go on with.
std::string EndedEarly(const fs::path& folder, const std::string& hash, const std::string& kind) {
  std::error_code error;
  if (!fs::exists(folder / "exp.db", error)) return "";
  for (const record::RunLine& r : record::ListRuns(record::Store::Open(folder), {})) {
    if (r.config_hash != hash || r.kind != kind || r.relation == "reproduces") continue;
    if (r.state == "running") Owned(r);
    if (r.state != "finished") return r.id;
  }
  return "";
}

// Of a folder the run that writes its checkpoints there; a run may be called like one.
std::string OfFolder(const record::Store& store, const std::string& selector) {
  std::error_code error;
  if (!fs::is_directory(selector, error)) return selector;
  fs::path folder = fs::weakly_canonical(selector, error);
  for (const record::RunLine& r : record::ListRuns(store, {})) {
    if (!r.work_dir.empty() && fs::weakly_canonical(r.work_dir, error) == folder) return r.id;
  }
  for (const record::RunLine& r : record::ListRuns(store, {})) {
    if (r.name == selector || r.id == selector) return selector;
  }
  throw UsageError({.what = "no run of the store wrote its checkpoints there",
                    .where = selector,
                    .expected = "a RUN, `auto`, or a run's folder of checkpoints",
                    .next = "for weights alone use load_from in the config"});
}

bool InsideEpoch(const record::Run& run, const UsableCheckpoint& from) {
  return std::none_of(run.epochs.begin(), run.epochs.end(),
                      [&](const record::EpochRecord& e) { return e.step == from.record->step; });
}

// Does a line of Changes tell of something that decides which images a batch has?
bool RegroupsImages(const std::string& change) {
  const char* const keys[] = {
      "samples_per_gpu",  "train.ann_file", "train.classes",      "train.filter_empty_gt",
      "train.last_batch", "train.limit",    "train.min_box_size", "train.min_size",
      "train.policy",     "train.times"};
  return std::any_of(std::begin(keys), std::end(keys), [&](const char* key) {
    return change.starts_with(fmt::format("data.{}:", key));
  });
}

// An old run's state under a changed config is another run: its record says what it began from.
void Continue(const record::Run& run, const std::vector<std::string>& changes,
              const UsableCheckpoint& from, Launch& launch) {
  launch.resume_checkpoint = from.path;
  launch.parent_id = run.id;
  launch.relation = "continues";
  launch.notes.push_back({kBeganFrom, from.record->hash + " " + from.path.string(), ""});
  for (const std::string& change : changes)
    launch.notes.push_back({"config.resume.changed", change, ""});
  if (!InsideEpoch(run, from) || std::none_of(changes.begin(), changes.end(), RegroupsImages))
    return;
  const std::string warning =
      "the checkpoint lies inside an epoch, and the changes put its images into other batches: "
      "until the epoch's end some are seen twice and some not at all";
  Tell("warning: {}\n", warning);
  launch.notes.push_back({"resume.regrouped", warning, ""});
}

void GoOn(const record::Run& run, const UsableCheckpoint& from, Launch& launch) {
  launch.resume_checkpoint = from.path;
  launch.resume_hash = from.record->hash;
  launch.resume_step = from.record->step;
  for (const record::EpochRecord& e : run.epochs) {
    if (e.step <= from.record->step)
      launch.resume_epoch = std::max(launch.resume_epoch, e.epoch + 1);
  }
  launch.resume_run = run.id;
  launch.resume_attempts = static_cast<int>(run.attempts.size());
  launch.name = run.name;
}

// A run without a checkpoint of its own begins again, where it began.
void BeginAgain(const record::Run& run, Launch& launch) {
  fmt::print("run {} has no checkpoint yet: it begins again\n", run.id);
  launch.resume_checkpoint = BeganFrom(run);
  launch.resume_run = run.id;
  launch.resume_attempts = static_cast<int>(run.attempts.size());
  launch.name = run.name;
}

// What no confirmation makes resumable.
void RefuseOther(const record::Run& run, const ResumeRequest& request, const Launch& launch) {
  if (run.state == "running") Owned(run);
  const bool ours = launch.command.empty(), was_ours = run.kind == "train";
  if (ours != was_ours) {
    throw UsageError(
        {.what = fmt::format("run {} was trained by {}", run.id,
                             was_ours ? "exp itself" : "another program"),
         .expected = was_ours ? "no command behind --" : "its command behind --",
         .next = "exp run CONFIG --resume RUN" + std::string(was_ours ? "" : " -- COMMAND")});
  }
  if (request.seed_given && !run.seed.empty() && run.seed != std::to_string(launch.seed)) {
    throw UsageError({.what = fmt::format("run {} has the seed {}", run.id, run.seed),
                      .where = "--seed",
                      .next = "resume without --seed, or start a new run"});
  }
}

// What decides the bits and isn't in the config.
void TakeOver(const record::Run& run, Launch& launch) {
  if (!run.seed.empty()) launch.seed = std::stoull(run.seed);
  if (run.threads > 0) launch.threads = run.threads;
  launch.plans = RecordedPlans(run);
  const std::string device = run.device.substr(0, run.device.find(' '));
  if (launch.device == "auto" && !device.empty()) launch.device = device;
}

// "cuda" of "cuda:1".
std::string DeviceKind(const std::string& device) { return device.substr(0, device.find(':')); }

std::string CommandLine(const std::vector<std::string>& argv) {
  auto dashes = std::find(argv.begin(), argv.end(), "--");
  if (dashes == argv.end()) return "";
  return fmt::format("{}", fmt::join(dashes + 1, argv.end(), " "));
}

// What is another than when the run began, a line each: its config, the content of its files, its
// device, another trainer's command.
std::vector<std::string> Changes(const record::Run& run, const config::Node& clean,
                                 const std::string& hash, Launch& launch) {
  std::vector<std::string> changes;
  if (run.config_hash != hash && !run.config_json.empty())
    changes = ConfigChanges(config::FromJson(run.config_json, "record of " + run.id), clean);
  snapshot::Redactor redactor = SecretsOf(launch);
  StopSignals signals(kHashesKept);
  launch.inputs = FingerprintInputs(launch.config.root, ReadSnapshotOptions(launch.config.root),
                                    launch.store, redactor);
  const bool begins_again = run.checkpoints.empty();
  for (std::string& line : InputChanges(run, *launch.inputs, begins_again))
    changes.push_back(std::move(line));
  const std::string kind = DeviceKind(run.device.substr(0, run.device.find(' ')));
  const std::string now = DeviceKind(launch.device);
  if (!kind.empty() && kind != "auto" && kind != now)
    changes.push_back("--device: " + kind + " -> " + now);
  const std::string before = CommandLine(run.command),
                    command = CommandLine(redactor.Argv(launch.argv));
  if (before != command) changes.push_back("command: " + before + " -> " + command);
  return changes;
}

struct Options {
  std::string run, device, store;
  std::vector<std::string> set;
  bool accept_changes = false;
};

Launch FromRecord(const record::Run& run, const Options& options, const Context& context) {
  if (run.config_json.empty() || run.kind == "command") {
    const bool command = run.kind == "command";
    throw UsageError(
        {.what = "run " + run.id +
                 (command ? " is another program's" : " was recorded without a config"),
         .expected = "a run that exp itself trained",
         .next = command ? fmt::format("exp run CONFIG --resume {} -- COMMAND goes on with it: the "
                                       "program gets its newest checkpoint as {{resume}}",
                                       run.id)
                         : "start it again with its config"});
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
  std::string id;
  {
    record::Store store = record::OpenFoundStore(options.store);
    record::Run run =
        record::LoadRun(store, record::ResolveRun(store, OfFolder(store, options.run)));
    launch = FromRecord(run, options, context);
    launch.store = fs::absolute(store.folder());
    cwd = FolderNow(run, store.folder());
    id = run.id;
  }
  EnterFolder(cwd);
  if (!SetUpResume({.selector = id, .accept_changes = options.accept_changes}, launch)) return;
  PrintResult(Execute(launch), "exp resume " + options.run, context);
}

}  // namespace

fs::path BeganFrom(const record::Run& run) {
  for (const record::WarningRecord& w : run.warnings) {
    size_t space = w.message.find(' ');
    if (w.code != kBeganFrom || space == std::string::npos) continue;
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

bool SetUpResume(const ResumeRequest& request, Launch& launch) {
  config::Node clean = CleanConfig(launch);
  std::string hash = config::Identity(clean).Hex();
  bool automatic = request.selector == "auto";
  std::string selector = request.selector;
  const char* kind = launch.command.empty() ? "train" : "command";
  if (automatic && (selector = EndedEarly(launch.store, hash, kind)).empty()) {
    fmt::print("nothing to resume: no run of this config ended early; a new run begins\n");
    launch.sole_config = true;  // another job may begin it at the same moment
    return true;
  }
  record::Store store = record::Store::Open(launch.store);
  if (!automatic) selector = OfFolder(store, selector);
  record::Run run = record::LoadRun(store, record::ResolveRun(store, selector));
  record::LoadImageLists(store, run);
  RefuseOther(run, request, launch);
  TakeOver(run, launch);
  const std::vector<std::string> changes = Changes(run, clean, hash, launch);
  if (changes.empty() && run.state == "finished") {
    fmt::print(
        "run {} is finished: nothing is left to do; more epochs, say, are another config "
        "(--accept-changes)\n",
        run.id);
    return false;
  }
  if (changes.empty()) {
    if (!request.work_dir_given) launch.work_dir = WorkDirNow(run, launch.store);
    run.checkpoints.empty() ? BeginAgain(run, launch) : GoOn(run, Newest(run, launch), launch);
    return true;
  }
  const std::string list = fmt::format("{}", fmt::join(changes, "\n    "));
  if (!request.accept_changes) {
    throw UsageError(
        {.what = fmt::format("this isn't what run {} began with:\n    {}", run.id, list),
         .expected = "the same config and --set, and files of the same content",
         .next = run.checkpoints.empty()
                     ? "undo the changes, or start a new run: it has no checkpoint to begin at"
                     : "undo the changes, or confirm them with --accept-changes: a new run begins "
                       "at the old one's newest checkpoint"});
  }
  fmt::print("going on from run {} with changes:\n    {}\n", run.id, Printable(list, true));
  if (!request.name_given) launch.name = run.name + "-changed";
  Continue(run, changes, Newest(run, launch), launch);
  return true;
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
  AddDeviceFlag(command, options->device, "instead of the recorded one");
  command.AddOption("--store", options->store, "folder of the store");
  command.Footer(
      "Example: exp resume @\n"
      "         exp resume first --set runner.max_epochs=24 --accept-changes");
  command.Callback([options, &context] { Run(*options, context); });
}

}  // namespace xp::cli
