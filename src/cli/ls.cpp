// `exp ls`: the runs of a store.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "exp/record/reader.h"
#include "src/cli/command.h"
#include "src/cli/table.h"

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

void Run(Options options) {
  record::Store store = record::OpenFoundStore(options.store);
  options.list.keys = options.columns.empty() ? UsualColumns() : options.columns;
  std::vector<record::RunLine> runs = record::ListRuns(store, options.list);
  if (options.as_json) {
    json list = json::array();
    for (const record::RunLine& r : runs) list.push_back(Line(r));
    fmt::print("{}\n", list.dump(2, ' ', false, json::error_handler_t::replace));
  } else if (runs.empty()) {
    fmt::print("no runs{}\n", options.list.where.empty() ? "" : " match");
    for (const std::string& name : record::NamesThatNoRunHas(store, options.list.where))
      fmt::print("no run has `{}`\n", name);
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
