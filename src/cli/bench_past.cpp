#include "src/cli/bench_past.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/json_text.h"
#include "exp/models/zoo.h"
#include "exp/record/reader.h"
#include "src/cli/bench_facts.h"
#include "src/cli/run_json.h"
#include "src/cli/table.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

using bench::Row;
using nlohmann::json;

// The files that were asked for. One that can't be written (a disk that is full by now) keeps the
// others from nothing: `Done` throws what went wrong first.
class Files {
 public:
  template <class Text>
  void Write(const std::string& path, Text text) {
    try {
      if (!path.empty()) WriteFileAtomic(path, text());
    } catch (const Error&) {
      if (!failed_) failed_ = std::current_exception();
    }
  }
  void Done() const {
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  std::exception_ptr failed_;
};

// By making a file beside it, since rights don't tell all (/proc, a quota); empty where it can.
std::string WhyNotWritable(const std::string& path) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::is_directory(there)) return "it is a folder";
  if (fs::is_character_file(there) || fs::is_fifo(there)) {  // /dev/stdout is written to itself
    return ::access(path.c_str(), W_OK) == 0 ? "" : "it can't be written";
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error)) return "there is no folder " + folder.string();
  std::string trial = (folder / ".exp-bench-XXXXXX").string();
  const int fd = ::mkostemp(trial.data(), O_CLOEXEC);
  if (fd < 0) {
    return fmt::format("nothing can be written into {}: {}", folder.string(), std::strerror(errno));
  }
  ::close(fd);
  ::unlink(trial.c_str());
  return "";
}

// What `exp bench --json` printed, perhaps on another machine.
std::pair<record::BenchRecord, std::vector<Row>> FromFile(const std::string& path) {
  const json all = json::parse(ReadFile(path), nullptr, false);
  const json rows = all.is_object() ? all.value("rows", json()) : json();
  if (!rows.is_array() || all.value("format", json()) != 1) {
    throw UsageError({.what = "it is no call of `exp bench`",
                      .where = path,
                      .expected = "what `exp bench --json` or `--show CALL --json` printed"});
  }
  auto part = [&](const char* key) { return DumpJson(all.value(key, json())); };
  record::BenchRecord r;
  r.name = TextAt(all, "/name");
  r.label = TextAt(all, "/label");
  r.device = TextAt(all, "/device");
  r.host = TextAt(all, "/host");
  r.machine = TextAt(all, "/machine");
  const json created = all.value("created_ns", json());
  r.created_ns = created.is_number_integer() ? created.get<int64_t>() : 0;
  r.speeds_json = part("speeds");
  r.matrix_json = part("matrix");
  r.environment_json = part("environment");
  std::vector<Row> read;
  read.reserve(rows.size());
  for (const json& row : rows) read.push_back(bench::RowFromJson(DumpJson(row)));
  return {r, read};
}

// A call of the store; a path, or a name that ends in .json, is a file.
std::pair<record::BenchRecord, std::vector<Row>> Named(const bench::PastOptions& options,
                                                       const std::string& selector) {
  std::error_code error;
  const bool path = selector.find('/') != std::string::npos || selector.ends_with(".json");
  if (path && fs::is_regular_file(selector, error)) return FromFile(selector);
  if (selector.ends_with(".json")) {
    throw UsageError({.what = "there is no such file",
                      .where = selector,
                      .expected = "what `exp bench --json` printed, or a call of the store",
                      .next = "`exp bench --history` lists those"});
  }
  const record::Store store = record::OpenFoundStore(options.store);
  const record::BenchRecord r = record::FindBench(store, selector);
  return {r, RowsOf(store, r)};
}

bench::Call CallNamed(const bench::PastOptions& options, const std::string& selector) {
  auto [record, rows] = Named(options, selector);
  return CallOf(record, std::move(rows));
}

std::string CompareJson(const bench::Call& a, const bench::Call& b,
                        const std::vector<bench::Difference>& differences,
                        const std::vector<bench::Pair>& pairs) {
  json out = {{"a", a.name},
              {"b", b.name},
              {"differences", json::array()},
              {"pairs", json::array()},
              {"mean_ratio", bench::MeanRatio(pairs)}};
  for (const bench::Difference& d : differences) {
    out["differences"].push_back({{"name", d.name}, {"a", d.a}, {"b", d.b}});
  }
  for (const bench::Pair& p : pairs) {
    out["pairs"].push_back({{"key", p.key},
                            {"a", p.a ? json::parse(bench::RowJson(*p.a)) : json()},
                            {"b", p.b ? json::parse(bench::RowJson(*p.b)) : json()},
                            {"ratio", p.ratio > 0 ? json(p.ratio) : json()}});
  }
  return DumpJson(out);
}

int Compare(const bench::PastOptions& options) {
  bench::Call a = CallNamed(options, options.compare[0]),
              b = CallNamed(options, options.compare[1]);
  if (a.Shown() == b.Shown()) a.label += " " + a.name, b.label += " " + b.name;
  const std::vector<bench::Pair> pairs = bench::PairUp(a.rows, b.rows);
  const std::vector<bench::Difference> differences = bench::Differences(a.facts, b.facts);
  Files files;
  files.Write(options.markdown,
              [&] { return bench::CompareMarkdown(a.Shown(), b.Shown(), differences, pairs); });
  files.Write(options.csv, [&] { return bench::CompareCsv(a, b, pairs); });
  files.Write(options.html,
              [&] { return bench::CompareHtml(a.Shown(), b.Shown(), differences, pairs); });
  files.Done();
  if (options.json) {
    fmt::print("{}\n", CompareJson(a, b, differences, pairs));
    return 0;
  }
  std::vector<std::vector<std::string>> lines;
  lines.reserve(differences.size());
  for (const bench::Difference& d : differences) lines.push_back({d.name, d.a, d.b});
  PrintTable({"", a.Shown(), b.Shown()}, lines, 60);
  fmt::print("\n{}", bench::CompareText(a.Shown(), b.Shown(), pairs));
  return 0;
}

void KeepModels(const std::vector<std::string>& models, std::vector<Row>* rows) {
  if (models.empty()) return;
  std::erase_if(*rows, [&](const Row& row) {
    return std::find(models.begin(), models.end(), row.c.model) == models.end();
  });
}

void PrintCalls(const std::vector<record::BenchRecord>& records,
                const std::vector<bench::Call>& calls) {
  std::vector<std::vector<std::string>> lines;
  lines.reserve(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const record::BenchRecord& r = records[i];
    json e = json::parse(r.environment_json, nullptr, false);
    lines.push_back({r.name, r.label, record::ShowTime(r.created_ns), r.host, r.device,
                     TextAt(e, "/gpu/driver"), TextAt(e, "/gpu/cudnn"), TextAt(e, "/os/container"),
                     std::to_string(calls[i].rows.size())});
  }
  PrintTable({"CALL", "LABEL", "WHEN", "HOST", "DEVICE", "DRIVER", "CUDNN", "CONTAINER", "ROWS"},
             lines, 44);
}

void PrintCases(const std::vector<bench::CaseHistory>& cases) {
  std::vector<std::vector<std::string>> lines;
  for (const bench::CaseHistory& c : cases) {
    for (const bench::CaseHistory::Point& p : c.points) {
      const Row& row = *p.row;
      lines.push_back({c.text, p.call->name,
                       row.measured_ns > 0 ? record::ShowTime(row.measured_ns) : "", row.device,
                       row.status == bench::Status::kOk
                           ? fmt::format("{:.1f}", row.images_per_second)
                           : bench::StatusText(row.status),
                       p.ratio > 0 ? fmt::format("{:.3f}", p.ratio) : ""});
    }
  }
  fmt::print("\n");
  PrintTable({"CASE", "CALL", "WHEN", "DEVICE", "IMG/S", "RATIO"}, lines, 64);
}

// The calls; with models, also each case's img/s through them.
int History(const record::Store& store, const bench::PastOptions& options) {
  const std::vector<record::BenchRecord> records = record::ListBenches(store);
  std::vector<bench::Call> calls;
  calls.reserve(records.size());
  for (const record::BenchRecord& r : records) calls.push_back(CallOf(r, RowsOf(store, r)));
  const std::vector<bench::CaseHistory> cases = bench::Through(calls, options.models);
  Files files;
  files.Write(options.markdown, [&] { return bench::HistoryMarkdown(calls, cases); });
  files.Write(options.html, [&] { return bench::HistoryHtml(calls, cases); });
  std::vector<bench::Call> wanted = calls;
  for (bench::Call& call : wanted) KeepModels(options.models, &call.rows);
  files.Write(options.csv, [&] { return bench::Csv(wanted); });
  files.Done();
  if (options.json) {
    json out = json::array();
    for (size_t i = 0; i < records.size(); ++i) {
      out.push_back(json::parse(BenchJson(records[i], wanted[i].rows)));
    }
    fmt::print("{}\n", DumpJson(out));
    return 0;
  }
  PrintCalls(records, calls);
  if (!options.models.empty() && !cases.empty()) PrintCases(cases);
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

void WriteBenchFiles(const bench::Call& call, const std::string& device,
                     const bench::PastOptions& options) {
  Files files;
  files.Write(options.markdown, [&] { return bench::Markdown(call.facts, call.rows); });
  files.Write(options.csv, [&] { return bench::Csv({call}); });
  files.Write(options.html, [&] {
    std::string title = "Training throughput" + (device.empty() ? "" : ": " + device);
    return bench::Html(title, call.facts, call.rows);
  });
  files.Done();
}

void RequireWritable(const bench::PastOptions& options) {
  std::set<std::string> seen;
  for (const std::string& path : {options.markdown, options.csv, options.html}) {
    if (path.empty()) continue;
    std::string what = WhyNotWritable(path);
    if (what.empty() && !seen.insert(fs::weakly_canonical(fs::absolute(path)).string()).second) {
      what = "two tables can't be written into one file";
    }
    if (!what.empty()) throw UsageError({.what = what, .where = path, .expected = "a file name"});
  }
}

int ShowPast(const bench::PastOptions& options) {
  for (const std::string& model : options.models) models::FindInZoo(model);
  RequireWritable(options);
  if (!options.compare.empty()) return Compare(options);
  if (options.history) return History(record::OpenFoundStore(options.store), options);
  const auto [r, rows] = Named(options, *options.show);
  const bench::Call call = CallOf(r, rows);
  if (options.json) {
    fmt::print("{}\n", BenchJson(r, call.rows));
  } else {
    for (const auto& [name, text] : call.facts) fmt::print("{:<22} {}\n", name, text);
    fmt::print("\n{}\n", bench::HeadLine());
    for (const Row& row : call.rows) {
      fmt::print("{}\n", bench::RowLine(row));
      if (!row.profile.empty()) fmt::print("{}", bench::ProfileText(row));
    }
  }
  WriteBenchFiles(call, r.device, options);
  return 0;
}

}  // namespace xp::cli
