// `exp replay`: runs a step again whose numbers weren't finite, from what the run saved of it.
#include "exp/train/replay.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "src/cli/command.h"
#include "src/cli/device_flag.h"
#include "src/cli/launch.h"
#include "src/cli/run_folder.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

struct Options {
  std::string run, device, store;
  int64_t step = 0;
};

std::string SavedSteps(const fs::path& work_dir) {
  std::string steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(work_dir, error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("nonfinite_step_"))
      steps += (steps.empty() ? "" : ", ") + name.substr(std::string("nonfinite_step_").size());
  }
  return steps.empty() ? "none" : steps;
}

void Run(const Options& o, Context& context) {
  record::Store store = record::OpenFoundStore(o.store);
  record::Run run = record::LoadRun(store, record::ResolveRun(store, o.run));
  if (run.config_json.empty()) {
    throw UsageError({.what = "run " + run.id + " was recorded without a config",
                      .expected = "a run that exp itself trained"});
  }
  const fs::path work_dir = WorkDirNow(run, store.folder());
  const fs::path folder = work_dir / fmt::format("nonfinite_step_{}", o.step);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw UsageError({.what = fmt::format("run {} saved nothing of step {}", run.id, o.step),
                      .where = work_dir.string(),
                      .expected = "one of the steps that it saved: " + SavedSteps(work_dir)});
  }
  train::ReplayOptions options;
  options.device = o.device.empty() ? run.device.substr(0, run.device.find(' ')) : o.device;
  options.threads = run.threads;
  options.plans = RecordedPlans(run);
  options.folder = folder;
  train::ReplayResult result =
      train::ReplayStep(config::FromJson(run.config_json, "record of " + run.id), options);
  fmt::print(
      "{}{}\n", result.text,
      result.same ? "the same bits as in the run" : "differs from the run: " + result.difference);
  context.exit_code = result.same ? 0 : static_cast<int>(ErrorKind::kDiverged);
}

}  // namespace

void AddReplayCommand(Command app, Context& context) {
  auto o = std::make_shared<Options>();
  Command command =
      app.AddCommand("replay", "run a step again whose loss, gradients or weights weren't finite");
  command.AddOption("run", o->run, "id, beginning of one, name, @ (newest), @~1").Required();
  command.AddOption("step", o->step, "the step's number, as the report says").Required();
  AddDeviceFlag(command, o->device, "instead of the recorded one");
  command.AddOption("--store", o->store, "folder of the store");
  command.Footer("Exit code: 0 the same bits as in the run, 3 others.\nExample: exp replay @ 117");
  command.Callback([o, &context] { Run(*o, context); });
}

}  // namespace xp::cli
