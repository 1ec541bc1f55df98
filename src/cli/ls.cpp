// `exp ls`: the runs of a store.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/record/reader.h"
#include "src/cli/command.h"
#include "src/cli/table.h"
#include "src/cli/tell.h"
#include "src/config/suggest.h"

namespace xp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string store;
  record::ListOptions list;
  std::vector<std::string> columns;
  bool as_json = false;
};

json Line(const record::RunLine& r) {
  json values = json::object();
  for (const auto& [key, value] : r.values) values[key] = record::ToJson(value);
  return {{"id", r.id},
          {"name", r.name},
          {"kind", r.kind},
          {"state", r.state},
          {"reason", r.reason},
          {"created_ns", r.created_ns},
          {"ended_ns", r.ended_ns},
          {"pid", r.pid},
          {"host", r.host},
          {"config_file", r.config_file},
          {"config_hash", r.config_hash},
          {"device", r.device},
          {"seed", r.seed},
          {"work_dir", r.work_dir},
          {"parent", r.parent_id},
          {"relation", r.relation},
          {"tags", r.tags},
          {"values", values}};
}

// The metric and the loss that a store's runs are best known by.
std::vector<std::string> UsualColumns() {
  return {"epoch", "metric.bbox_mAP", "metric.bbox_mAP_50", "loss.total", "optimizer.lr"};
}

void PrintRuns(const std::vector<record::RunLine>& runs, const Options& options) {
  std::vector<std::string> header = {"ID", "STARTED", "NAME", "STATE"};
  std::vector<std::string> columns;
  for (const std::string& column : options.list.keys) {
    bool used = !options.columns.empty();
    for (const record::RunLine& r : runs) used = used || r.values.count(column) > 0;
    if (!used) continue;
    columns.push_back(column);
    header.push_back(column);
  }
  std::vector<std::vector<std::string>> rows;
  for (const record::RunLine& r : runs) {
    std::string state = r.state;
    if (r.state == "running" && !r.reason.empty()) state += " (" + r.reason + ")";
    std::vector<std::string> row = {r.id, record::ShowTime(r.created_ns), r.name, state};
    for (const std::string& column : columns) {
      auto found = r.values.find(column);
      row.push_back(found == r.values.end() ? "" : record::Show(found->second, 40));
    }
    rows.push_back(std::move(row));
  }
  PrintTable(header, rows);
}

bool IsUsual(const std::string& name) {
  const std::vector<std::string> usual = UsualColumns();
  return std::find(usual.begin(), usual.end(), name) != usual.end();
}

std::string DidYouMean(const std::string& name, const record::KnownNames& known) {
  std::vector<std::string> all = known.plain;
  all.insert(all.end(), known.config_keys.begin(), known.config_keys.end());
  return config::DidYouMean(config::Nearest(name, all));
}

// Not all keys of all configs, which may be hundreds.
std::string List(const record::KnownNames& known) {
  constexpr size_t kShown = 12;
  std::string text = fmt::format("one of {}", fmt::join(known.plain, ", "));
  const size_t shown = std::min(kShown, known.config_keys.size());
  for (size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{}", i == 0 ? ", or a config key: " : ", ", known.config_keys[i]);
  if (shown < known.config_keys.size())
    text += fmt::format(
        " and {} more, which `exp query 'SELECT DISTINCT path FROM config_value'` lists",
        known.config_keys.size() - shown);
  return text;
}

// A name that no run has is a typing error, unless it is still to come.
void CheckNames(const record::Store& store, const std::vector<std::string>& names,
                const char* where) {
  std::vector<std::string> unknown = record::NamesThatNoRunHas(store, names);
  std::erase_if(unknown, IsUsual);
  if (unknown.empty()) return;
  const std::vector<record::RunLine> runs = record::ListRuns(store, {});
  const bool running =
      std::any_of(runs.begin(), runs.end(), [](const auto& r) { return r.state == "running"; });
  if (running) std::erase_if(unknown, record::IsStillToCome);
  if (runs.empty() || unknown.empty()) return;
  const record::KnownNames known = record::NamesOfRuns(store);
  throw UsageError({.what = fmt::format("no run has anything called `{}`", unknown.front()),
                    .where = where,
                    .expected = List(known),
                    .next = DidYouMean(unknown.front(), known)});
}

// Of a condition a name that no run has makes nothing wrong: `not metric.bbox_mAP` may be meant.
void TellUnknown(const record::Store& store, const std::string& where) {
  const std::vector<std::string> unknown =
      record::NamesThatNoRunHas(store, record::NamesOfCondition(where));
  if (unknown.empty()) return;
  const record::KnownNames known = record::NamesOfRuns(store);
  for (const std::string& name : unknown) {
    const std::string meant = DidYouMean(name, known);
    Tell("note: --where: no run has `{}`{}{}\n", name, meant.empty() ? "" : "; ", meant);
  }
}

void Run(Options options) {
  record::Store store = record::OpenFoundStore(options.store);
  CheckNames(store, options.columns, "--columns");
  if (!options.list.sort.empty()) CheckNames(store, {options.list.sort}, "--sort");
  options.list.keys = options.columns.empty() ? UsualColumns() : options.columns;
  std::vector<record::RunLine> runs = record::ListRuns(store, options.list);
  TellUnknown(store, options.list.where);
  if (options.as_json) {
    json list = json::array();
    for (const record::RunLine& r : runs) list.push_back(Line(r));
    fmt::print("{}\n", list.dump(2, ' ', false, json::error_handler_t::replace));
  } else if (runs.empty()) {
    fmt::print("no runs{}\n", options.list.where.empty() ? "" : " match");
  } else {
    PrintRuns(runs, options);
  }
}

}  // namespace

void AddLsCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("ls", "list runs, newest first");
  command.AddOption("--store", options->store, "folder of the store");
  command.AddOption("--where", options->list.where, "only runs for which this holds");
  command.AddOption("--sort", options->list.sort,
                    "a config key, metric.NAME, loss.NAME, created, ...");
  command.AddFlag("--reverse,-r", options->list.reverse, "turn the order round");
  command.AddOption("--limit,-n", options->list.limit, "at most so many");
  command.AddOption("--columns", options->columns, "names to show, separated by commas")
      .SplitAt(',');
  command.AddFlag("--json", options->as_json, "for programs; docs/record.md lists the keys");
  command.Footer(
      "Example: exp ls --where 'optimizer.lr > 0.01 and metric.bbox_mAP > 0.3' "
      "--sort metric.bbox_mAP -r");
  command.Callback([options] { Run(*options); });
}

}  // namespace xp::cli
