// `exp log`: a run's curves as lines, live with --follow.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "exp/base/error.h"
#include "exp/base/printable.h"
#include "exp/record/reader.h"
#include "src/cli/command.h"
#include "src/cli/run_json.h"
#include "src/cli/table.h"
#include "src/cli/tell.h"
#include "src/config/suggest.h"

namespace xp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string store, run = "@";
  std::vector<std::string> names;
  bool follow = false, as_json = false, all = false;
  int64_t tail = -1;
};

class Printer {
 public:
  Printer(const record::Store& store, const Options& options, int64_t run)
      : store_(store), options_(options), run_(run) {}

  // Prints what is new since the last call.
  void Print() {
    struct Row {
      int64_t step;
      int attempt;
      std::vector<std::pair<std::string, record::Value>> values;
    };
    std::map<std::pair<int, int64_t>, Row> rows;
    for (const std::string& name : Names()) {
      // Following, superseded points stay: only then do those seen keep their places.
      std::vector<record::CurvePoint> points =
          record::LoadCurve(store_, run_, name, options_.all || options_.follow, seen_[name]);
      for (const record::CurvePoint& p : points) {
        Row& row = rows[{p.attempt, p.step}];
        row.step = p.step;
        row.attempt = p.attempt;
        row.values.emplace_back(name, p.value);
      }
      seen_[name] += static_cast<int64_t>(points.size());
    }
    size_t skip = first_ && options_.tail >= 0 && rows.size() > static_cast<size_t>(options_.tail)
                      ? rows.size() - static_cast<size_t>(options_.tail)
                      : 0;
    first_ = false;
    for (const auto& [key, row] : rows) {
      if (skip > 0) {
        --skip;
        continue;
      }
      options_.as_json ? PrintJson(row.step, row.attempt, row.values)
                       : PrintText(row.step, row.values);
    }
    std::fflush(stdout);
  }

  void PrintEpochs(const record::Run& run) {
    for (const record::EpochRecord& e : run.epochs) {
      if (e.epoch <= last_epoch_) continue;
      last_epoch_ = e.epoch;
      if (options_.as_json || !options_.names.empty()) continue;
      std::string text;
      for (const auto& [name, value] : e.metrics) text += Shown(name, value);
      fmt::print("epoch {} ended at step {}{}\n", e.epoch + 1, e.step, text);
    }
  }

 private:
  using Values = std::vector<std::pair<std::string, record::Value>>;

  std::vector<std::string> Names() const {
    return options_.names.empty() ? record::CurveNames(store_, run_) : options_.names;
  }
  static std::string Shown(const std::string& name, const record::Value& value) {
    return fmt::format("  {} {}", Cut(name, 200), Cut(record::Show(value), 200));
  }
  static void PrintText(int64_t step, const Values& values) {
    std::string line = fmt::format("step {:<8}", step);
    for (const auto& [name, value] : values) line += Shown(name, value);
    fmt::print("{}\n", line);
  }
  static void PrintJson(int64_t step, int attempt, const Values& values) {
    json out = {{"step", step}, {"attempt", attempt}, {"values", json::object()}};
    for (const auto& [name, value] : values) out["values"][name] = record::ToJson(value);
    fmt::print("{}\n", out.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  const record::Store& store_;
  const Options& options_;
  int64_t run_;
  std::map<std::string, int64_t> seen_;
  int last_epoch_ = -1;
  bool first_ = true;
};

// A name that a run doesn't have is a typing error, unless it is still to come.
void CheckNames(const record::Store& store, const record::Run& run, const Options& options) {
  if (options.follow && run.state == "running") return;
  const std::vector<std::string> known = record::CurveNames(store, run.seq);
  for (const std::string& name : options.names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw UsageError(
        {.what = known.empty() ? fmt::format("run {} recorded no steps at all", run.id)
                               : fmt::format("run {} recorded nothing called `{}`", run.id, name),
         .where = "--name",
         .expected =
             known.empty() ? "a run with steps" : fmt::format("one of {}", fmt::join(known, ", ")),
         .next = config::DidYouMean(config::Nearest(name, known))});
  }
  if (known.empty() && run.epochs.empty() && !options.as_json)
    Tell("note: run {} ({}) recorded no steps\n", run.id, run.state);
}

void Run(const Options& options) {
  record::Store store = record::OpenFoundStore(options.store);
  int64_t seq = record::ResolveRun(store, options.run);
  CheckNames(store, record::LoadRun(store, seq), options);
  Printer printer(store, options, seq);
  while (true) {
    // The state is read first: what was written before the end is then surely printed.
    record::Run run = record::LoadRun(store, seq);
    printer.Print();
    printer.PrintEpochs(run);
    if (!options.follow || run.state != "running") {
      if (options.follow && !options.as_json) {
        fmt::print("{}{}\n", run.state,
                   run.reason.empty() ? "" : ": " + Printable(run.reason, true));
      }
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

}  // namespace

void AddLogCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("log", "what a run recorded, step by step");
  command.AddOption("run", options->run, "id, beginning of one, name, @ (newest), @~1");
  command.AddOption("--store", options->store, "folder of the store");
  command.AddOption("--name", options->names, "only these curves").OneEachTime();
  command.AddFlag("--follow,-f", options->follow, "go on until the run ends");
  command.AddOption("--tail,-n", options->tail, "only the last N steps");
  command.AddFlag("--all", options->all, "also what a resumed attempt superseded");
  command.AddFlag("--json", options->as_json, "one JSON object a step");
  command.Footer("Example: exp log @ --follow --name loss");
  command.Callback([options] { Run(*options); });
}

}  // namespace xp::cli
