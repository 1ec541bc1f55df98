// `exp doctor`: is this machine fit to train?
#include "exp/doctor/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/own_program.h"
#include "exp/base/stopwatch.h"
#include "exp/doctor/checks.h"
#include "exp/graph/cuda_build.h"
#include "exp/record/machine.h"
#include "exp/record/store.h"
#include "exp/snapshot/nvml.h"
#include "src/cli/command.h"
#include "src/cli/device_flag.h"
#include "src/cli/doctor_past.h"
#include "src/cli/last_word.h"
#include "src/cli/machine_environment.h"
#include "src/cli/signals.h"
#include "src/cli/store_place.h"
#include "src/cli/tell.h"
#include "src/cli/terminal.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

struct Options {
  std::string store, device = "auto", colour = "auto";
  std::optional<std::string> data, root, library;
  std::vector<std::string> child;
  DoctorPast past;
  bool deep = false, as_json = false, memo = false, look = false, no_store = false;
};

int Columns() { return TerminalColumns(STDOUT_FILENO, 1, 110); }

bool Colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* no = std::getenv("NO_COLOR");  // https://no-color.org
  return IsTerminal(STDOUT_FILENO) && (no == nullptr || *no == '\0');
}

void Save(const Options& options, const doctor::Report& report, const std::string& environment) {
  if (options.no_store || options.root) return;
  fs::path place = StoreToWrite(options.store);
  try {
    record::Store store = record::Store::OpenOrCreate(place);
    record::DoctorReport row;
    row.level = doctor::LevelName(report.worst);
    row.deep = report.deep;
    row.seconds = report.seconds;
    row.environment_json = environment;
    row.report_json = doctor::ReportJson(report, "");
    record::SaveDoctorReport(store, row);
  } catch (const Error& e) {
    // The findings are shown anyhow; that nothing can be stored is one of them.
    PrintNotStored("the report isn't stored", e);
  }
}

int RunLibrary(const Options& options) {
  doctor::Report report;
  std::unique_ptr<doctor::System> system = doctor::MakeHostSystem(options.root.value_or(""));
  report.findings = doctor::CheckLibrary(*system, *options.library);
  report.worst = doctor::WorstLevel(report.findings);
  if (options.as_json) {
    fmt::print("{}\n", doctor::ReportJson(report, ""));
  } else {
    for (const doctor::Finding& f : report.findings)
      fmt::print("{}", doctor::FindingText(f, Colour(options.colour), Columns()));
  }
  return doctor::ExitCode(report.worst);
}

void RequireFolder(const std::optional<std::string>& folder, const char* option,
                   const char* expected) {
  std::error_code error;
  if (!folder || fs::is_directory(*folder, error)) return;
  throw UsageError({.what = "there is no such folder",
                    .where = option + (folder->empty() ? " ''" : " " + *folder),
                    .expected = expected});
}

// Said before anything is looked at: what can't be, and what excludes something else.
void RequireSense(const Options& o) {
  RequireFolder(o.root, "--root", "a folder with the proc, sys and etc of a machine");
  RequireFolder(o.data, "--data", "the folder of the images");
  const std::pair<bool, const char*> kinds[] = {{o.library.has_value(), "--library"},
                                                {o.memo, "--memo"},
                                                {o.past.history, "--history"},
                                                {o.past.show.has_value(), "--show"},
                                                {!o.past.compare.empty(), "--compare"}};
  const std::pair<bool, const char*> measuring[] = {
      {o.deep, "--deep"}, {o.look, "--look"}, {o.data.has_value(), "--data"}};
  const std::pair<bool, const char*> pairs[][2] = {
      {{o.memo, "--memo"}, {o.as_json, "--json"}},
      {{o.look, "--look"}, {o.deep, "--deep"}},
      {{o.root.has_value(), "--root"}, {o.deep, "--deep"}},  // of its files nothing is measured
      {{o.root.has_value(), "--root"}, {o.data.has_value(), "--data"}},
      {{o.root.has_value(), "--root"}, {o.memo || o.past.Asked(), "--memo or earlier reports"}}};
  auto refuse = [](const char* a, const char* b) {
    throw UsageError({.what = "they exclude each other",
                      .where = fmt::format("{} and {}", a, b),
                      .expected = "one of them",
                      .next = "`exp doctor --help` says what each does"});
  };
  const char* first = nullptr;
  for (const auto& [given, name] : kinds) {
    if (given && first != nullptr) refuse(first, name);
    if (given) first = name;
  }
  for (const auto& [given, name] : measuring) {
    if (given && first != nullptr) refuse(first, name);
  }
  for (const auto& pair : pairs) {
    if (pair[0].first && pair[1].first) refuse(pair[0].second, pair[1].second);
  }
}

int RunMemo() {
  std::unique_ptr<doctor::System> system = doctor::MakeHostSystem("");
  const doctor::Subject subject{*system, graph::DescribeCudaBuild(), "", "", "", ""};
  doctor::Findings found;
  for (auto* check : {doctor::CheckCudnn, doctor::CheckNccl, doctor::CheckCompilers}) {
    for (doctor::Finding& f : check(subject)) found.push_back(std::move(f));
  }
  fmt::print("{}", doctor::Memo(MachineEnvironment(true), found));
  return 0;
}

doctor::DoctorOptions Asked(const Options& options) {
  doctor::DoctorOptions d;
  d.deep = options.deep;
  d.measure = !options.look;
  d.root = options.root.value_or("");
  d.device = options.device;
  d.data = options.data.value_or(fs::current_path().string());
  d.store = StoreToWrite(options.store).string();
  d.work = fs::current_path().string();
  const std::string program = OwnProgram().string();
  if (!options.root) d.binary = program;
  if (!program.empty()) d.child = {program, "doctor", "--child"};
  return d;
}

// Shows and keeps an examination, at its end or where it was interrupted. Where a check hangs
// another thread concludes it (LastWord).
class Examination {
 public:
  explicit Examination(const Options& options) : options_(options) {}

  int Run() {
    const StopSignals signals(options_.no_store || options_.root
                                  ? "what was found so far is shown"
                                  : "what was found so far is shown and stored");
    const doctor::Report report = Examine();
    return Conclude(report);
  }

 private:
  static constexpr double kGrace = 1.5;  // seconds that a check gets to end after a signal

  doctor::Report Examine() {
    const LastWord last(&StopSignals::flag(), kGrace, [this] { ConcludeHanging(); });
    const auto nvml = snapshot::Nvml::Shared();  // for all that ask it
    doctor::DoctorOptions d = Asked(options_);
    d.stop = &StopSignals::flag();
    d.on_finding = [this](const doctor::Finding& f) { Found(f); };
    std::string environment = MachineEnvironment(options_.deep);
    {
      const std::lock_guard lock(mutex_);
      environment_ = std::move(environment);
    }
    return doctor::Examine(d);
  }

  void Found(const doctor::Finding& f) {
    const std::lock_guard lock(mutex_);
    const bool other_group = so_far_.empty() || so_far_.back().group != f.group;
    so_far_.push_back(f);
    if (options_.as_json) return;
    if (other_group) Say("{}{}\n", so_far_.size() == 1 ? "" : "\n", f.group);
    SayText(doctor::FindingText(f, Colour(options_.colour), Columns()));
  }

  void ConcludeHanging() {
    const std::lock_guard lock(mutex_);
    Conclude({.findings = so_far_,
              .worst = doctor::WorstLevel(so_far_),
              .deep = options_.deep,
              .interrupted = true,
              .seconds = watch_.Seconds()});
  }

  int Conclude(const doctor::Report& report) const {
    constexpr int kInterrupted = static_cast<int>(ErrorKind::kInterrupted);
    if (report.interrupted && report.findings.empty()) {
      Tell("interrupted before anything was found\n");
      return kInterrupted;
    }
    Save(options_, report, environment_);
    if (options_.as_json) {
      Say("{}\n", doctor::ReportJson(report, environment_));
    } else {
      Say("\n{}\n", doctor::SummaryText(report, Columns()));
    }
    return report.interrupted ? kInterrupted : doctor::ExitCode(report.worst);
  }

  const Options& options_;
  Stopwatch watch_;
  std::mutex mutex_;  // over what follows
  std::string environment_;
  doctor::Findings so_far_;
};

int Run(const Options& options) {
  if (!options.child.empty()) {
    doctor::RunChild(options.child[0], options.child[1]);
    return 0;
  }
  RequireSense(options);
  if (options.past.Asked()) {
    DoctorPast past = options.past;
    past.store = options.store;
    past.as_json = options.as_json;
    past.colour = Colour(options.colour);
    past.columns = Columns();
    return ShowDoctorPast(past);
  }
  if (options.library) return RunLibrary(options);
  if (options.memo) return RunMemo();
  return Examination(options).Run();
}

}  // namespace

void AddDoctorCommand(Command app, Context& context) {
  auto options = std::make_shared<Options>();
  Command c = app.AddCommand("doctor",
                             "is this machine fit to train: versions, smoke tests, "
                             "health, speed");
  c.AddOption("--data", options->data,
              "folder of the images, to measure how fast it reads; default: here");
  c.AddOption("--store", options->store, "folder of the store");
  AddDeviceFlag(c, options->device, "of the smoke tests: auto, cpu, cuda or cuda:N");
  c.AddOption("--library", options->library,
              "only look whether this library or program finds its symbol versions here");
  c.AddOption("--root", options->root,
              "look at the proc, sys and etc below this folder: another machine's, collected");
  c.AddFlag("--deep", options->deep, "minutes instead of half a minute");
  c.AddFlag("--look", options->look, "measure and compute nothing");
  c.AddFlag("--memo", options->memo, "only the combination of versions, as a Markdown table");
  c.AddFlag("--history", options->past.history, "the reports that were made before");
  c.AddOption("--show", options->past.show, "one of them: @ the newest, @~1, its number, a file");
  c.AddOption("--compare", options->past.compare, "what differs between two of them: A B").Words(2);
  c.AddFlag("--no-store", options->no_store, "don't keep the report");
  c.AddOption("--colour", options->colour, "auto, always or never")
      .OneOf({"auto", "always", "never"});
  c.AddFlag("--json", options->as_json, "for programs; docs/doctor.md lists the keys");
  // Device and folder of plans, of the test of two processes.
  c.AddOption("--child", options->child).Words(2).MayBeEmpty().Hidden();
  c.Footer(
      "Exit code: 0 nothing wrong, 4 warnings, 1 errors, 130 interrupted.\n"
      "Example: exp doctor --data data/coco/train2017\n"
      "         exp doctor --compare @~1 @\n"
      "         exp doctor --json >here.json; exp doctor --compare there.json here.json");
  c.Callback([options, &context] { context.exit_code = Run(*options); });
}

}  // namespace xp::cli
