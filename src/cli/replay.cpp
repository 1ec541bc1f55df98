// `exp replay`: runs a step again whose numbers weren't finite, from what the run saved of it.
#include "exp/train/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>

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

constexpr std::string_view kSavedPrefix = "nonfinite_step_";

std::set<int64_t> SavedSteps(const fs::path& work_dir) {
  std::set<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator at(work_dir, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    int64_t step = 0;
    const char* last = name.data() + name.size();
    if (!name.starts_with(kSavedPrefix)) continue;
    const auto [stop, bad] = std::from_chars(name.data() + kSavedPrefix.size(), last, step);
    if (bad == std::errc() && stop == last) steps.insert(step);
  }
  return steps;
}

[[noreturn]] void NothingSaved(const record::Run& run, int64_t step, const fs::path& work_dir) {
  const std::set<int64_t> steps = SavedSteps(work_dir);
  std::error_code error;
  std::string expected = fmt::format("one of the steps that it saved: {}", fmt::join(steps, ", ")),
              next = fmt::format("exp replay {} {}", run.id, steps.empty() ? 0 : *steps.begin());
  if (steps.empty()) {
    expected = "a step of the report of a number that wasn't finite";
    next = fs::is_directory(work_dir, error)
               ? "it saved no step at all: `exp show " + run.id + "` has its warnings"
               : "its folder isn't there any more: put it back";
  }
  throw UsageError({.what = fmt::format("run {} saved nothing of step {}", run.id, step),
                    .where = work_dir.string(),
                    .expected = expected,
                    .next = next});
}

void Run(const Options& o, Context& context) {
  record::Store store = record::OpenFoundStore(o.store);
  record::Run run = record::LoadRun(store, record::ResolveRun(store, o.run));
  if (run.config_json.empty() || run.kind == "command") {
    throw UsageError({.what = "run " + run.id +
                              (run.kind == "command" ? " is another program's"
                                                     : " was recorded without a config"),
                      .expected = "a run that exp itself trained",
                      .next = "`exp ls --columns id,name,kind,state` lists them"});
  }
  const fs::path work_dir = WorkDirNow(run, store.folder());
  const fs::path folder = work_dir / fmt::format("{}{}", kSavedPrefix, o.step);
  std::error_code error;
  if (!fs::is_directory(folder, error)) NothingSaved(run, o.step, work_dir);
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
