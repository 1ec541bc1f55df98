// `exp run`: trains by a config and records everything.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "exp/config/lr_check.h"
#include "exp/config/schema.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "exp/train/config_check.h"
#include "src/cli/command.h"
#include "src/cli/device_flag.h"
#include "src/cli/external_command.h"
#include "src/cli/launch.h"
#include "src/cli/resume.h"
#include "src/cli/store_place.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

struct Options {
  std::string config, device = "auto", work_dir, name, resume, store;
  std::vector<std::string> set, tags, command;
  std::string seed;
  bool dry_run = false, accept_changes = false;
};

uint64_t Seed(const Options& options, const config::Node& root) {
  if (options.seed.empty()) {
    const config::Node* seed = root.Find("seed");
    return seed && seed->IsInt() ? static_cast<uint64_t>(seed->AsInt()) : 0;
  }
  size_t used = 0;
  try {
    uint64_t value = std::stoull(options.seed, &used);
    if (used == options.seed.size() && options.seed[0] != '-') return value;
  } catch (const std::exception&) {
  }
  throw UsageError({.what = "`" + options.seed + "` is no seed",
                    .where = "--seed",
                    .expected = "a whole number from 0 to 2^64-1",
                    .next = "leave --seed out to take the config's `seed`, or 0"});
}

// Nothing: the run that is to be resumed is finished.
std::optional<Launch> MakeLaunch(const Options& options, const Context& context) {
  Launch launch;
  launch.config = config::Load(options.config, options.set);
  launch.config_file = options.config;
  launch.argv = context.argv;
  launch.command = options.command;
  launch.device = options.device;
  launch.tags = options.tags;
  launch.seed = Seed(options, launch.config.root);
  launch.name = options.name.empty() ? fs::path(options.config).stem().string() : options.name;
  launch.store = fs::absolute(StoreToWrite(options.store));
  const config::Node* work_dir = launch.config.root.Find("work_dir");
  if (!options.work_dir.empty())
    launch.work_dir = options.work_dir;
  else if (work_dir && work_dir->IsString())
    launch.work_dir = work_dir->AsString();
  const config::Node* threads = launch.config.root.Find("threads");
  if (threads && threads->IsInt()) launch.threads = static_cast<int>(threads->AsInt());
  // Another trainer's config is its own business.
  if (launch.command.empty()) {
    config::RequireValid(launch.config.root);
    config::LrCheck lr = config::ApplyLrPolicy(launch.config.root, 1);
    if (!lr.fits && lr.policy != config::LrPolicy::kOff) {
      launch.config.warnings.push_back({"lr", lr.message, lr.where});
    }
  }
  if (!options.resume.empty()) {
    bool more = SetUpResume({.selector = options.resume,
                             .accept_changes = options.accept_changes,
                             .work_dir_given = !options.work_dir.empty(),
                             .seed_given = !options.seed.empty(),
                             .name_given = !options.name.empty()},
                            launch);
    if (!more) return std::nullopt;
  }
  return launch;
}

// What a run would refuse before its first step, but for what the data's files hold.
void CheckWhole(const Launch& launch) {
  if (!launch.command.empty()) return RequireProgram(launch.command[0]);
  train::RequireTrainable(launch.config.root, launch.resume_checkpoint.empty());
  for (const config::Finding& f : train::CheckConfig(launch.config.root))
    Tell("warning: {}: {} [{}]\n", f.where, f.message, f.rule);
}

void RefuseExtraWords(const Options& options, const Context& context) {
  const bool dashes =
      std::find(context.argv.begin(), context.argv.end(), "--") != context.argv.end();
  if (options.command.empty() || dashes) return;
  const std::string& word = options.command[0];
  const bool change = word.find('=') != word.npos;  // mmdetection's --cfg-options takes several
  throw UsageError({.what = "`" + word + "` is one argument too many",
                    .expected = "one config; another program's command line comes behind --",
                    .next = change ? "--set " + word + ": each change behind a --set of its own"
                                   : "exp run CONFIG -- COMMAND ARGS..."});
}

void Run(const Options& options, Context& context) {
  RefuseExtraWords(options, context);
  std::optional<Launch> made = MakeLaunch(options, context);
  if (!made) return;
  const Launch& launch = *made;
  for (const config::Notice& n : launch.config.warnings) {
    Tell("warning: {}{}{} [{}]\n", n.where, n.where.empty() ? "" : ": ", n.message, n.code);
  }
  if (options.dry_run) {
    CheckWhole(launch);
    return Describe(launch);
  }
  PrintResult(Execute(launch), "exp run " + options.config + " --resume", context);
}

}  // namespace

void AddRunCommand(Command app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("run", "train by a config and record everything");
  command.AddOption("config", options->config, "the config: .yaml, .json, .toml or .py").Required();
  command
      .AddOption("command", options->command,
                 "behind --: another program that trains; {config}, "
                 "{work_dir}, {seed}, {run} and {resume} are replaced")
      .MayBeEmpty();
  command.AddOption("--set", options->set, "KEY=VALUE changes, +KEY=VALUE adds, ~KEY deletes")
      .OneEachTime()
      .Placeholder("K=V");
  AddDeviceFlag(command, options->device);
  command.AddOption("--seed", options->seed, "instead of the config's");
  command.AddOption("--work-dir", options->work_dir, "folder for checkpoints and logs");
  command.AddOption("--name", options->name,
                    "what to call the run; default: the config's file name");
  command.AddOption("--tag", options->tags, "a label; may be given more than once").OneEachTime();
  command.AddOption(
      "--resume", options->resume,
      "go on with this run (also its folder), or `auto`: the newest that ended early");
  command.AddFlag("--accept-changes", options->accept_changes,
                  "resume with another config: a new run begins at the old one's checkpoint");
  command.AddOption("--store", options->store, "folder of the store");
  command.AddFlag("--dry-run", options->dry_run, "check everything, run nothing, record nothing");
  command.Footer(
      "Example: exp run configs/quickstart.yaml --set optimizer.lr=0.01 --name first\n"
      "         exp run my.yaml -- python train.py {config} --work-dir {work_dir}");
  command.Callback([options, &context] { Run(*options, context); });
}

}  // namespace xp::cli
