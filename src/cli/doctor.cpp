// `exp doctor`: is this machine fit to train?
#include "exp/doctor/doctor.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "exp/base/error.h"
#include "exp/base/own_program.h"
#include "exp/doctor/checks.h"
#include "exp/graph/cuda_build.h"
#include "exp/record/machine.h"
#include "exp/record/store.h"
#include "src/cli/command.h"
#include "src/cli/device_flag.h"
#include "src/cli/doctor_past.h"
#include "src/cli/machine_environment.h"
#include "src/cli/store_place.h"

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

int Columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 110;
}

bool Colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* no = std::getenv("NO_COLOR");  // https://no-color.org
  return ::isatty(STDOUT_FILENO) == 1 && (no == nullptr || *no == '\0');
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

int Print(const doctor::Findings& findings, const Options& options, doctor::Level* worst) {
  for (const doctor::Finding& f : findings) {
    *worst = std::max(*worst, f.level);
    if (!options.as_json) {
      fmt::print("{}", doctor::FindingText(f, Colour(options.colour), Columns()));
    }
  }
  return doctor::ExitCode(*worst);
}

int RunLibrary(const Options& options) {
  doctor::Report report;
  std::unique_ptr<doctor::System> system = doctor::MakeHostSystem(options.root.value_or(""));
  report.findings = doctor::CheckLibrary(*system, *options.library);
  int code = Print(report.findings, options, &report.worst);
  if (options.as_json) fmt::print("{}\n", doctor::ReportJson(report, ""));
  return code;
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

int RunExamination(const Options& options) {
  const std::string environment = MachineEnvironment(options.deep);
  doctor::DoctorOptions d = Asked(options);
  if (!options.as_json) {
    d.on_finding = [&, group = std::string()](const doctor::Finding& f) mutable {
      if (f.group != group) fmt::print("{}{}\n", group.empty() ? "" : "\n", f.group);
      group = f.group;
      fmt::print("{}", doctor::FindingText(f, Colour(options.colour), Columns()));
      std::fflush(stdout);
    };
  }
  const doctor::Report report = doctor::Examine(d);
  Save(options, report, environment);
  if (options.as_json) {
    fmt::print("{}\n", doctor::ReportJson(report, environment));
  } else {
    fmt::print("\n{}\n", doctor::SummaryText(report, Columns()));
  }
  return doctor::ExitCode(report.worst);
}

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
  return RunExamination(options);
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
      "Exit code: 0 nothing wrong, 4 warnings, 1 errors.\n"
      "Example: exp doctor --data data/coco/train2017\n"
      "         exp doctor --compare @~1 @\n"
      "         exp doctor --json >here.json; exp doctor --compare there.json here.json");
  c.Callback([options, &context] { context.exit_code = Run(*options); });
}

}  // namespace xp::cli
