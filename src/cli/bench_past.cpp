#include "src/cli/bench_past.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/json_text.h"
#include "exp/base/printable.h"
#include "exp/models/zoo.h"
#include "exp/record/reader.h"
#include "src/cli/bench_facts.h"
#include "src/cli/table.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

using bench::Row;
using nlohmann::json;

std::string Name(const record::BenchRecord& r) {
  return Printable(r.label.empty() ? r.name : r.label);
}

template <class Text>
void Write(const std::string& path, Text text) {
  if (!path.empty()) WriteFileAtomic(path, text());
}

std::string CompareJson(const record::BenchRecord& a, const record::BenchRecord& b,
                        const std::vector<bench::Pair>& pairs) {
  json list = json::array();
  for (const bench::Pair& p : pairs) {
    list.push_back({{"key", p.key},
                    {"a", p.a ? json::parse(bench::RowJson(*p.a)) : json()},
                    {"b", p.b ? json::parse(bench::RowJson(*p.b)) : json()},
                    {"ratio", p.ratio > 0 ? json(p.ratio) : json()}});
  }
  json out = {
      {"a", a.name}, {"b", b.name}, {"pairs", list}, {"mean_ratio", bench::MeanRatio(pairs)}};
  return out.dump(2);
}

int Compare(const record::Store& store, const bench::PastOptions& options) {
  record::BenchRecord a = record::FindBench(store, options.compare[0]),
                      b = record::FindBench(store, options.compare[1]);
  std::vector<Row> rows_a = RowsOf(store, a), rows_b = RowsOf(store, b);
  std::vector<bench::Pair> pairs = bench::PairUp(rows_a, rows_b);
  std::string name_a = Name(a), name_b = Name(b);
  if (name_a == name_b) name_a += " " + a.name, name_b += " " + b.name;
  std::vector<bench::Difference> differences = bench::Differences(FactsOf(a), FactsOf(b));
  Write(options.markdown, [&] { return bench::CompareMarkdown(name_a, name_b, pairs); });
  Write(options.csv, [&] { return bench::CompareCsv(name_a, name_b, pairs); });
  Write(options.html, [&] { return bench::CompareHtml(name_a, name_b, differences, pairs); });
  if (options.json) {
    fmt::print("{}\n", CompareJson(a, b, pairs));
    return 0;
  }
  std::vector<std::vector<std::string>> lines;
  lines.reserve(differences.size());
  for (const bench::Difference& d : differences) lines.push_back({d.name, d.a, d.b});
  PrintTable({"", name_a, name_b}, lines, 60);
  fmt::print("\n{}", bench::CompareText(name_a, name_b, pairs));
  return 0;
}

// The calls; with models, also each case's img/s through them.
int History(const record::Store& store, const bench::PastOptions& options) {
  std::vector<record::BenchRecord> all = record::ListBenches(store);
  if (options.json) {
    json out = json::array();
    for (const record::BenchRecord& r : all)
      out.push_back(json::parse(BenchJson(r, RowsOf(store, r))));
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  std::vector<std::vector<std::string>> lines, cases;
  for (const record::BenchRecord& r : all) {
    json e = json::parse(r.environment_json, nullptr, false);
    std::vector<Row> rows = RowsOf(store, r);
    lines.push_back({r.name, r.label, record::ShowTime(r.created_ns), r.host, r.device,
                     TextAt(e, "/gpu/driver"), TextAt(e, "/gpu/cudnn"), TextAt(e, "/os/container"),
                     std::to_string(rows.size())});
    for (const Row& row : rows) {
      bool wanted = std::find(options.models.begin(), options.models.end(), row.c.model) !=
                    options.models.end();
      if (!wanted) continue;
      cases.push_back({row.c.program + " " + row.c.kind + " " + row.c.model,
                       std::to_string(row.c.batch) + (row.c.largest ? " max" : ""), row.c.precision,
                       bench::Mode(row.c), r.name, record::ShowTime(r.created_ns),
                       row.status == bench::Status::kOk
                           ? fmt::format("{:.1f}", row.images_per_second)
                           : bench::StatusText(row.status)});
    }
  }
  PrintTable({"CALL", "LABEL", "WHEN", "HOST", "DEVICE", "DRIVER", "CUDNN", "CONTAINER", "ROWS"},
             lines, 44);
  if (cases.empty()) return 0;
  std::stable_sort(cases.begin(), cases.end(), [](const auto& a, const auto& b) {
    return std::tie(a[0], a[2], a[3], a[1]) < std::tie(b[0], b[2], b[3], b[1]);
  });
  fmt::print("\n");
  PrintTable({"CASE", "BATCH", "PRECISION", "MODE", "CALL", "WHEN", "IMG/S"}, cases, 44);
  return 0;
}

}  // namespace

std::vector<Row> RowsOf(const record::Store& store, const record::BenchRecord& r) {
  std::vector<Row> rows;
  for (const record::BenchRow& row : record::LoadBenchRows(store, r.id)) {
    rows.push_back(bench::RowFromJson(row.result_json));
  }
  return rows;
}

std::string BenchJson(const record::BenchRecord& r, const std::vector<Row>& rows) {
  json out = {
      {"format", 1},        {"name", r.name}, {"label", r.label},    {"created_ns", r.created_ns},
      {"device", r.device}, {"host", r.host}, {"machine", r.machine}};
  out["speeds"] = json::parse(r.speeds_json, nullptr, false);
  out["matrix"] = json::parse(r.matrix_json, nullptr, false);
  out["environment"] = json::parse(r.environment_json, nullptr, false);
  for (const char* key : {"speeds", "matrix", "environment"}) {
    if (out[key].is_discarded()) out[key] = nullptr;
  }
  out["rows"] = json::array();
  for (const Row& row : rows) out["rows"].push_back(json::parse(bench::RowJson(row)));
  return out.dump(2, ' ', false, json::error_handler_t::replace);
}

void WriteBenchFiles(const record::BenchRecord& r, const std::vector<Row>& rows,
                     const bench::PastOptions& options) {
  Write(options.markdown, [&] { return bench::Markdown(FactsOf(r), rows); });
  Write(options.csv, [&] { return bench::Csv(rows); });
  Write(options.html, [&] {
    std::string title = "Training throughput" + (r.device.empty() ? "" : ": " + r.device);
    return bench::Html(title, FactsOf(r), rows);
  });
}

void RequireWritable(const bench::PastOptions& options) {
  for (const std::string& path : {options.markdown, options.csv, options.html}) {
    if (path.empty()) continue;
    fs::path folder = fs::path(path).parent_path();
    if (folder.empty()) folder = ".";
    std::error_code error;
    std::string what;
    if (fs::is_directory(path, error)) {
      what = "it is a folder";
    } else if (!fs::is_directory(folder, error)) {
      what = "there is no folder " + folder.string();
    } else if (::access(folder.c_str(), W_OK) != 0) {
      what = "nothing can be written into " + folder.string();
    }
    if (!what.empty()) throw UsageError({.what = what, .where = path, .expected = "a file name"});
  }
}

int ShowPast(const bench::PastOptions& options) {
  bool files = !options.markdown.empty() || !options.csv.empty() || !options.html.empty();
  if (options.history && files) {
    throw UsageError({.what = "--history writes no file",
                      .where = "--markdown, --csv, --html",
                      .next = "`exp bench --show CALL` or `--compare A B` write one"});
  }
  for (const std::string& model : options.models) models::FindInZoo(model);
  record::Store store = record::OpenFoundStore(options.store);
  if (!options.compare.empty()) return Compare(store, options);
  if (options.history) return History(store, options);
  record::BenchRecord r = record::FindBench(store, *options.show);
  std::vector<Row> rows = RowsOf(store, r);
  if (options.json) {
    fmt::print("{}\n", BenchJson(r, rows));
  } else {
    for (const auto& [name, text] : FactsOf(r)) fmt::print("{:<22} {}\n", name, text);
    fmt::print("\n{}\n", bench::HeadLine());
    for (const Row& row : rows) {
      fmt::print("{}\n", bench::RowLine(row));
      if (!row.profile.empty()) fmt::print("{}", bench::ProfileText(row));
    }
  }
  WriteBenchFiles(r, rows, options);
  return 0;
}

}  // namespace xp::cli
