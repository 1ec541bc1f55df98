// `exp diff`: what differs between runs, or between a run and now.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/record/diff.h"
#include "src/cli/command.h"
#include "src/cli/launch.h"
#include "src/cli/run_folder.h"
#include "src/cli/run_json.h"
#include "src/cli/table.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string store;
  std::vector<std::string> runs;
  std::string section;
  bool as_json = false, all = false, patch = false;
};

std::string Head(const record::Run& r) { return r.id.substr(0, 8) + " " + r.name; }

void PrintSection(const std::vector<record::Difference>& rows, const std::vector<record::Run>& runs,
                  size_t limit) {
  std::vector<std::string> header = {rows[0].section};
  for (const record::Run& r : runs) header.push_back(Head(r));
  std::vector<std::vector<std::string>> lines;
  size_t shown = std::min(limit, rows.size());
  for (size_t i = 0; i < shown; ++i) {
    const record::Difference& d = rows[i];
    std::vector<std::string> line = {d.name};
    for (size_t k = 0; k < d.values.size(); ++k) {
      std::string value = d.values[k].empty() ? "-" : d.values[k];
      if (k < d.origins.size() && !d.origins[k].empty()) value += "  (" + d.origins[k] + ")";
      line.push_back(value);
    }
    if (d.section == "environment")
      line[0] += d.weight == 3 ? "  [can change bits]" : d.weight == 2 ? "  [may change bits]" : "";
    lines.push_back(std::move(line));
  }
  PrintTable(header, lines, 70);
  if (shown < rows.size()) fmt::print("... and {} more (--all)\n", rows.size() - shown);
  fmt::print("\n");
}

// The run's code, machine and data as they are now.
record::Run Now(const record::Store& store, const record::Run& run, const Context& context) {
  if (run.config_json.empty()) {
    throw UsageError({.what = "run " + run.id +
                              " was recorded without a config: what belongs to it "
                              "can't be looked at now",
                      .next = "name a second run"});
  }
  Launch launch;
  launch.store = store.folder();
  launch.config.root = config::FromJson(run.config_json, "record of " + run.id);
  launch.argv = context.argv;
  launch.threads = run.threads;
  launch.work_dir = WorkDirNow(run, store.folder());  // its checkpoints are no code
  EnterFolder(FolderNow(run, store.folder()));
  return DescribeNow(launch, run);
}

bool CodeRecorded(const record::Run& run) {
  const json code = json::parse(run.code_json, nullptr, false);
  return code.is_object() && code.value("kind", "off") != "off";
}

// Standard output stays a patch, or empty.
void PrintPatch(const record::Store& store, const std::vector<record::Run>& runs) {
  if (runs.size() != 2) {
    throw UsageError({.what = fmt::format("--patch compares two runs, not {}", runs.size()),
                      .expected = "two runs, or one with the code as it is now",
                      .next = "name two of them"});
  }
  for (const record::Run& run : runs) {
    if (CodeRecorded(run)) continue;
    throw UsageError({.what = "the code of run " + run.id + " wasn't recorded",
                      .expected = "a run under snapshot.code: changes or full",
                      .next = "`exp diff` without --patch has the rest"});
  }
  snapshot::CodeComparison c = record::CompareFiles(store, runs[0], runs[1], true);
  for (const snapshot::CodeChange& change : c.changes) fmt::print("{}", change.patch);
  if (!c.note.empty()) Tell("note: {}\n", c.note);
  if (c.changes.empty() && c.note.empty()) Tell("note: no differences: the code is the same\n");
}

void Run(const Options& options, const Context& context) {
  if (options.patch && (options.as_json || !options.section.empty())) {
    throw UsageError({.what = fmt::format("--patch and {} don't go together",
                                          options.as_json ? "--json" : "--section"),
                      .expected = "--patch alone: the code's differences as a unified diff",
                      .next = "leave one of them out"});
  }
  record::Store store = record::OpenFoundStore(options.store);
  std::vector<record::Run> runs;
  for (const std::string& r : options.runs) {
    runs.push_back(record::LoadRun(store, record::ResolveRun(store, r)));
    record::LoadImageLists(store, runs.back());
  }
  bool now = runs.size() == 1;
  if (now) runs.push_back(Now(store, runs[0], context));
  if (options.patch) return PrintPatch(store, runs);
  std::vector<record::Difference> differences = record::DiffRuns(store, runs);
  std::erase_if(differences, [&](const record::Difference& d) {
    return (!options.section.empty() && d.section != options.section) ||
           (now && d.section == "metrics");
  });
  if (options.as_json) {
    json list = json::array();
    for (const record::Difference& d : differences) {
      list.push_back({{"section", d.section},
                      {"name", d.name},
                      {"values", d.values},
                      {"origins", d.origins},
                      {"weight", d.weight}});
    }
    json ids = json::array();
    for (const record::Run& r : runs) ids.push_back(r.id);
    return fmt::print("{}\n", DumpJson({{"runs", ids}, {"differences", list}}));
  }
  if (differences.empty()) return fmt::print("no differences\n");
  for (size_t i = 0; i < differences.size();) {
    size_t end = i;
    while (end < differences.size() && differences[end].section == differences[i].section) ++end;
    PrintSection({differences.begin() + static_cast<std::ptrdiff_t>(i),
                  differences.begin() + static_cast<std::ptrdiff_t>(end)},
                 runs, options.all ? differences.size() : 15);
    i = end;
  }
}

}  // namespace

void AddDiffCommand(Command app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command =
      app.AddCommand("diff", "what differs between runs, or since a run, and only that");
  command
      .AddOption("runs", options->runs,
                 "two or more runs; one: its code, machine and data as they are now")
      .Required();
  command.AddOption("--store", options->store, "folder of the store");
  command
      .AddOption("--section", options->section,
                 "only config, code, data, environment, machine or metrics")
      .OneOf({"config", "code", "data", "environment", "machine", "metrics"});
  command.AddFlag("--patch", options->patch, "the code's differences, as a unified diff");
  command.AddFlag("--all", options->all, "every line of a long section");
  command.AddFlag("--json", options->as_json, "for programs; docs/record.md lists the keys");
  command.Footer("Example: exp diff @~1 @\n         exp diff @ --patch");
  command.Callback([options, &context] { Run(*options, context); });
}

}  // namespace xp::cli
