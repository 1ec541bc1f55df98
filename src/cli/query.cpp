// `exp query`: any SELECT over the store's tables (schema/README.md).
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "exp/record/query.h"
#include "src/cli/command.h"
#include "src/cli/run_json.h"
#include "src/cli/table.h"

namespace xp::cli {
namespace {

struct Options {
  std::string store, sql;
  bool as_json = false;
};

void Run(const Options& options) {
  record::Store store = record::OpenFoundStore(options.store);
  record::QueryResult result = record::Query(store, options.sql);
  if (options.as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& row : result.rows) {
      nlohmann::json object = nlohmann::json::object();
      for (size_t c = 0; c < result.columns.size(); ++c) {
        object[result.columns[c]] = row[c] ? record::ToJson(*row[c]) : nlohmann::json();
      }
      list.push_back(object);
    }
    return fmt::print("{}\n", DumpJson(list));
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : result.rows) {
    std::vector<std::string>& out = rows.emplace_back();
    for (const auto& cell : row) {
      nlohmann::json value = cell ? record::ToJson(*cell) : nlohmann::json("");
      out.push_back(value.is_string() ? value.get<std::string>() : record::ShowExact(*cell));
    }
  }
  PrintTable(result.columns, rows, 80);
}

}  // namespace

void AddQueryCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("query", "run a SELECT over the store (schema/README.md)");
  command.AddOption("sql", options->sql, "the statement; it can't change anything").Required();
  command.AddOption("--store", options->store, "folder of the store");
  command.AddFlag("--json", options->as_json, "one object a row");
  command.Footer(
      "Example: exp query \"SELECT name, run_state(seq) FROM run ORDER BY seq DESC LIMIT 5\"");
  command.Callback([options] { Run(*options); });
}

}  // namespace xp::cli
