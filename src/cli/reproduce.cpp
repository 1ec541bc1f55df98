// `exp reproduce`: runs a recorded run again, from the record alone, and compares.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "exp/base/error.h"
#include "exp/base/printable.h"
#include "exp/config/canonical.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "exp/record/verdict.h"
#include "src/cli/command.h"
#include "src/cli/device_flag.h"
#include "src/cli/launch.h"
#include "src/cli/only_result.h"
#include "src/cli/resume.h"
#include "src/cli/run_folder.h"
#include "src/cli/table.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

struct Options {
  std::string run, device, store, work_dir;
  int epochs = -1;
  bool as_json = false;
};

// "cuda:0 NVIDIA H200" was recorded; "cuda:0" is asked for.
std::string DeviceOf(const record::Run& run) {
  std::string device = run.device.substr(0, run.device.find(' '));
  return device.empty() ? "auto" : device;
}

[[noreturn]] void NoEpoch(const record::Run& run) {
  if (run.state == "finished") {
    throw JobError({.what = "run " + run.id + " trained no epoch: there is nothing to compare with",
                    .expected = "a run with runner.max_epochs above 0",
                    .next = "`exp ls` shows how far each run came"});
  }
  throw JobError(
      {.what = fmt::format("run {} {}{} before its first epoch ended: there is nothing to "
                           "compare with",
                           run.id, run.state == "failed" ? "" : "was ", run.state),
       .expected = "a run that came to an epoch's end",
       .next = fmt::format("`exp resume {0}` goes on with it; `exp reproduce {0} --epochs 1` runs "
                           "it again all the same, and compares the steps that it came to",
                           run.id)});
}

Launch FromRecord(const record::Run& run, const Options& options, const fs::path& store,
                  const Context& context) {
  if (run.config_json.empty()) {
    throw JobError(
        {.what = "run " + run.id + " was recorded without a config",
         .expected = "a run of `exp run`",
         .next = "run its own program again: `exp show " + run.id + "` has the command"});
  }
  Launch launch;
  launch.store = store;
  launch.config.root = config::FromJson(run.config_json, "record of " + run.id);
  launch.config_file = run.config_file;
  launch.name = run.name + "-again";  // so that the first keeps its name to itself
  launch.argv = context.argv;
  auto dashes = std::find(run.command.begin(), run.command.end(), "--");
  if (run.kind == "command") {
    if (dashes == run.command.end() || dashes + 1 == run.command.end()) {
      throw JobError({.what = "the record of run " + run.id + " holds no command behind --",
                      .next = "start its program again with `exp run CONFIG -- COMMAND`"});
    }
    launch.command.assign(dashes + 1, run.command.end());
    for (const std::string& argument : launch.command) {
      if (argument.find("[redacted:") == std::string::npos) continue;
      Tell(
          "note: the recorded command line holds a mark where a secret was; it is passed on "
          "as it is: {}\n",
          argument);
    }
  }
  launch.device = options.device.empty() ? DeviceOf(run) : options.device;
  if (!run.seed.empty()) launch.seed = std::stoull(run.seed);
  launch.threads = run.threads;
  launch.plans = RecordedPlans(run);
  if (!options.work_dir.empty()) launch.work_dir = fs::absolute(options.work_dir);
  launch.parent_id = run.id;
  launch.relation = "reproduces";
  launch.resume_checkpoint = BeganFrom(run);
  // A run that ended early is compared as far as it came.
  launch.max_epochs = options.epochs;
  if (run.kind == "command") return launch;  // which has no word in how far it goes
  if (run.epochs.empty()) {
    if (options.epochs < 0) NoEpoch(run);
    return launch;
  }
  const int first = run.epochs.front().epoch + 1, last = run.epochs.back().epoch + 1;
  if (options.epochs >= 0 && options.epochs < first) {
    throw UsageError(
        {.what =
             fmt::format("run {} begins with epoch {}, at another run's checkpoint", run.id, first),
         .where = "--epochs",
         .expected = fmt::format("{} or more", first),
         .next = "count from the first epoch of training, not of the run"});
  }
  if (options.epochs < 0 && run.state != "finished") launch.max_epochs = last;
  return launch;
}

// What is known of two runs that differ without a suspect.
std::string Unexplained(const record::Verdict& v) {
  std::vector<std::string> same, unknown;
  std::string rest;
  for (const record::VerdictRow& r : v.rows) {
    if (r.sameness == record::Sameness::kSame) same.push_back(r.what);
    if (r.sameness == record::Sameness::kUnknown) unknown.push_back(r.what);
    if (r.sameness == record::Sameness::kDiffers && r.what == "environment")
      rest += "; of the environment only what changes no bits differs";
  }
  if (!unknown.empty()) rest += fmt::format("; unknown: {}", fmt::join(unknown, ", "));
  const std::string known = fmt::format("the same: {}", fmt::join(same, ", "));
  return same.empty() ? rest.substr(2) : known + rest;
}

void PrintVerdict(const record::Verdict& v) {
  static constexpr const char* kNames[] = {"same", "differs", "unknown"};
  std::vector<std::vector<std::string>> rows;
  for (const record::VerdictRow& r : v.rows)
    rows.push_back({r.what, kNames[static_cast<int>(r.sameness)], r.detail});
  for (const record::EpochVerdict& e : v.epochs) {
    rows.push_back(
        {fmt::format("epoch {}", e.epoch + 1), e.same ? "same" : "differs",
         e.same ? e.compared : fmt::format("{}: {} -> {}", e.quantity, e.before, e.after)});
  }
  if (v.steps_compared > 0) {
    rows.push_back({"steps", v.step ? "differ" : "same",
                    v.step ? fmt::format("first at step {}: {} {} -> {}", v.step->step,
                                         v.step->name, v.step->before, v.step->after)
                           : fmt::format("{} numbers", v.steps_compared)});
  }
  fmt::print("\n");
  PrintTable({"WHAT", "VERDICT", "DETAIL"}, rows, 110);
  fmt::print("\n{}\n", v.summary);
  for (const std::string& s : v.suspects) fmt::print("  may explain it: {}\n", s);
  if (!v.same && v.comparable && v.suspects.empty())
    fmt::print("  nothing recorded explains it: {}\n", Unexplained(v));
}

LaunchResult RunAgain(const record::Run& first, const Launch& launch) {
  Say("running {} ({}) again from its record{}{}\n", first.id, Printable(first.name),
      launch.command.empty() ? "" : ": ",
      Printable(fmt::format("{}", fmt::join(launch.command, " "))));
  LaunchResult result;
  try {
    result = Execute(launch);
  } catch (const Error& e) {
    throw JobError({.what = std::string("it could not be run again: ") + e.what()});
  }
  if (result.state != train::EndState::kFinished) {
    Say("the new run {} {}{}{}: nothing was compared\n", result.run_id,
        result.state == train::EndState::kFailed ? "failed" : "was interrupted",
        result.reason.empty() ? "" : ": ", Printable(result.reason));
  }
  return result;
}

void Run(const Options& options, Context& context) {
  record::Run first;
  fs::path folder;
  {
    record::Store store = record::OpenFoundStore(options.store);
    folder = store.folder();
    first = record::LoadRun(store, record::ResolveRun(store, options.run));
  }
  if (first.state == "running") {
    throw UsageError(
        {.what = "run " + first.id + " is still running", .next = "wait until it has ended"});
  }
  Launch launch = FromRecord(first, options, folder, context);
  EnterFolder(FolderNow(first, folder));
  LaunchResult result;
  {
    const OnlyResult only(options.as_json);
    result = RunAgain(first, launch);
  }
  if (result.state != train::EndState::kFinished) {
    context.exit_code = result.exit_code;
    return;
  }
  record::Store store = record::Store::Open(folder);
  int64_t first_seq = record::ResolveRun(store, first.id),
          second_seq = record::ResolveRun(store, result.run_id);
  first = record::LoadRun(store, first_seq);
  record::Run second = record::LoadRun(store, second_seq);
  record::LoadImageLists(store, first);
  record::LoadImageLists(store, second);
  record::Verdict verdict =
      record::CompareRuns(first, second, record::LoadCurves(store, first_seq),
                          record::LoadCurves(store, second_seq), options.epochs);
  record::SaveVerdict(store, result.run_id, verdict);
  options.as_json ? fmt::print("{}\n", record::ToJson(verdict)) : PrintVerdict(verdict);
  context.exit_code = !verdict.comparable ? 1
                      : verdict.same      ? 0
                                          : static_cast<int>(ErrorKind::kDiverged);
}

}  // namespace

void AddReproduceCommand(Command app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("reproduce", "run a recorded run again and compare bit for bit");
  command.AddOption("run", options->run, "id, beginning of one, name, @ (newest), @~1").Required();
  command.AddOption("--epochs", options->epochs, "only the first N epochs").Range(1, 1000000);
  AddDeviceFlag(command, options->device, "instead of the recorded one");
  command.AddOption("--work-dir", options->work_dir, "folder for the new run's checkpoints");
  command.AddOption("--store", options->store, "folder of the store");
  command.AddFlag("--json", options->as_json, "the verdict as JSON; docs/record.md lists the keys");
  command.Footer(
      "Exit code: 0 the same, 3 diverged, 1 it could not be run.\n"
      "Example: exp reproduce @ --epochs 1");
  command.Callback([options, &context] { Run(*options, context); });
}

}  // namespace xp::cli
