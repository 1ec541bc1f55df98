#include "src/cli/doctor_past.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/json_text.h"
#include "exp/base/printable.h"
#include "exp/doctor/doctor.h"
#include "exp/record/machine.h"
#include "exp/record/verdict.h"
#include "src/cli/run_json.h"
#include "src/cli/table.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

using nlohmann::json;
using record::DoctorReport;

// A file that `exp doctor --json` wrote, perhaps on another machine; else a report of the store.
DoctorReport Load(const DoctorPast& options, const std::string& selector) {
  std::error_code error;
  if (!fs::is_regular_file(selector, error)) {
    const bool path = selector.find('/') != std::string::npos || selector.ends_with(".json");
    if (!path) return record::NamedDoctorReport(record::OpenFoundStore(options.store), selector);
    throw UsageError({.what = "there is no such file",
                      .where = selector,
                      .expected = "what `exp doctor --json` printed, or a report of the store",
                      .next = "`exp doctor --history` lists those"});
  }
  DoctorReport report;
  report.report_json = ReadFile(selector);
  const auto read = doctor::ReportFromJson(report.report_json);
  if (!read) {
    throw UsageError({.what = "it is no report",
                      .where = selector,
                      .expected = "what `exp doctor --json` printed"});
  }
  const json all = json::parse(report.report_json);
  report.level = doctor::LevelName(read->worst);
  report.deep = read->deep;
  report.interrupted = read->interrupted;
  report.host = TextAt(all, "/environment/os/host");
  if (all.contains("environment")) report.environment_json = DumpJson(all["environment"]);
  return report;
}

std::string Name(const DoctorReport& report, const std::string& selector) {
  const std::string name =
      report.id == 0 ? Printable(selector)
                     : fmt::format("{} {} {}", report.id, record::ShowTime(report.created_ns),
                                   Printable(report.host));
  return name + (report.interrupted ? " (interrupted)" : "");
}

struct Pair {
  std::string id, name;
  double a = 0, b = 0;
};

// What both measured, by finding and name.
std::vector<Pair> Numbers(const DoctorReport& a, const DoctorReport& b) {
  std::map<std::pair<std::string, std::string>, double> first;
  auto each = [](const DoctorReport& of, const auto& take) {
    auto report = doctor::ReportFromJson(of.report_json);
    if (!report) return;
    for (const doctor::Finding& f : report->findings) {
      for (const auto& [name, value] : f.numbers) {
        // How long a test took, or how far rounding carried it, tells machines apart by chance;
        // how much memory was tested, whether it was --deep.
        const bool told = name != "seconds" && name != "difference" &&
                          !(f.id == "memory.test" && name == "bytes");
        if (told) take(f.id, name, value);
      }
    }
  };
  each(a, [&](const auto& id, const auto& name, double value) { first[{id, name}] = value; });
  std::vector<Pair> pairs;
  each(b, [&](const auto& id, const auto& name, double value) {
    auto found = first.find({id, name});
    if (found != first.end()) pairs.push_back({id, name, found->second, value});
  });
  return pairs;
}

// Python is asked for with --deep alone: where one report tells nothing of it, it didn't change.
std::vector<record::EnvironmentDifference> Environments(const DoctorReport& a,
                                                        const DoctorReport& b) {
  auto has_python = [](const DoctorReport& of) {
    const json e = json::parse(of.environment_json, nullptr, false);
    return e.is_object() && e.contains("python");
  };
  const bool both = has_python(a) && has_python(b);
  std::vector<record::EnvironmentDifference> all =
      record::CompareEnvironments(a.environment_json, b.environment_json);
  std::erase_if(all, [&](const auto& e) { return !both && e.path.starts_with("python/"); });
  return all;
}

struct Comparison {
  std::vector<std::string> interrupted;  // "a", "b"
  std::vector<record::Difference> findings;
  std::vector<record::EnvironmentDifference> environment;
  std::vector<Pair> numbers;
};

std::string ToJson(const DoctorPast& options, const Comparison& c) {
  json out = {{"a", options.compare[0]},   {"b", options.compare[1]},
              {"findings", json::array()}, {"environment", json::array()},
              {"numbers", json::array()},  {"interrupted", c.interrupted}};
  for (const auto& d : c.findings) {
    out["findings"].push_back({{"id", d.name}, {"a", d.values[0]}, {"b", d.values[1]}});
  }
  for (const auto& e : c.environment) {
    out["environment"].push_back({{"name", e.path}, {"a", e.before}, {"b", e.after}});
  }
  for (const Pair& p : c.numbers) {
    out["numbers"].push_back({{"id", p.id}, {"name", p.name}, {"a", p.a}, {"b", p.b}});
  }
  return DumpJson(out);
}

void Print(const Comparison& c, const std::string& first, const std::string& second) {
  std::vector<std::vector<std::string>> lines;
  lines.reserve(c.findings.size());
  for (const auto& d : c.findings) lines.push_back({d.name, d.values[0], d.values[1]});
  if (lines.empty())
    fmt::print(
        "the findings are the same{}\n",
        c.interrupted.empty() ? "" : ", of the checks that were made before one was interrupted");
  else
    PrintTable({"finding", first, second}, lines, 70);
  lines.clear();
  for (const auto& e : c.environment) lines.push_back({e.path, e.before, e.after});
  if (!lines.empty()) fmt::print("\n"), PrintTable({"environment", first, second}, lines, 70);
  lines.clear();
  for (const Pair& p : c.numbers) {
    const double ratio = p.a != 0 ? p.b / p.a : 0;
    if (ratio <= 0 || std::abs(ratio - 1) < 0.05) continue;
    lines.push_back({p.id + " " + p.name, fmt::format("{:.6g}", p.a), fmt::format("{:.6g}", p.b),
                     fmt::format("{:.2f}", ratio)});
  }
  if (!lines.empty()) {
    fmt::print("\n");
    PrintTable({"measured, 5 % apart or more", first, second, "ratio"}, lines, 70);
  }
}

int Compare(const DoctorPast& options) {
  const DoctorReport a = Load(options, options.compare[0]), b = Load(options, options.compare[1]);
  Comparison c{{}, record::DiffReports({&a, &b}), Environments(a, b), Numbers(a, b)};
  if (a.interrupted) c.interrupted.emplace_back("a");
  if (b.interrupted) c.interrupted.emplace_back("b");
  if (options.as_json) {
    fmt::print("{}\n", ToJson(options, c));
  } else {
    Print(c, Name(a, options.compare[0]), Name(b, options.compare[1]));
  }
  return 0;
}

int History(const DoctorPast& options) {
  std::vector<DoctorReport> all = record::ListDoctorReports(record::OpenFoundStore(options.store));
  json list = json::array();
  std::vector<std::vector<std::string>> lines;
  for (const DoctorReport& r : all) {
    json e = json::parse(r.environment_json, nullptr, false);
    const std::string gpu = TextAt(e, "/gpu/devices/0/name");
    list.push_back({{"id", r.id},
                    {"created_ns", r.created_ns},
                    {"machine", r.machine},
                    {"host", r.host},
                    {"level", r.level},
                    {"deep", r.deep},
                    {"interrupted", r.interrupted},
                    {"seconds", r.seconds}});
    lines.push_back({std::to_string(r.id), record::ShowTime(r.created_ns), r.host, r.machine,
                     gpu.empty() ? TextAt(e, "/cpu/model") : gpu, TextAt(e, "/gpu/driver"), r.level,
                     fmt::format("{:.1f} s{}{}", r.seconds, r.deep ? ", deep" : "",
                                 r.interrupted ? ", interrupted" : "")});
  }
  if (options.as_json) {
    fmt::print("{}\n", DumpJson(list));
  } else {
    PrintTable({"REPORT", "WHEN", "HOST", "MACHINE", "DEVICE", "DRIVER", "LEVEL", "TOOK"}, lines,
               40);
  }
  return 0;
}

int Show(const DoctorPast& options) {
  DoctorReport stored = Load(options, *options.show);
  auto report = doctor::ReportFromJson(stored.report_json);
  if (!report) throw JobError({.what = "the stored report is damaged", .where = *options.show});
  if (options.as_json) {
    fmt::print("{}\n", stored.report_json);
    return 0;
  }
  fmt::print("{}\n", Name(stored, *options.show));
  std::string group;
  for (const doctor::Finding& f : report->findings) {
    if (f.group != group) fmt::print("\n{}\n", f.group);
    group = f.group;
    fmt::print("{}", doctor::FindingText(f, options.colour, options.columns));
  }
  fmt::print("\n{}\n", doctor::SummaryText(*report, options.columns));
  return 0;
}

}  // namespace

int ShowDoctorPast(const DoctorPast& options) {
  if (!options.compare.empty()) return Compare(options);
  return options.history ? History(options) : Show(options);
}

}  // namespace xp::cli
