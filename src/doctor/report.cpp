// The report as text and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "exp/base/json_text.h"
#include "exp/base/printable.h"
#include "exp/doctor/doctor.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

using nlohmann::json;

constexpr int kNarrowest = 24;  // columns: below that lines get longer than the terminal

const char* Colour(Level level) {
  switch (level) {
    case Level::kOk:
      return "\033[32m";
    case Level::kAbsent:
      return "\033[2m";
    case Level::kWarning:
      return "\033[33m";
    default:
      return "\033[1;31m";
  }
}

const char* Mark(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kAbsent:
      return "-";
    case Level::kWarning:
      return "WARN";
    default:
      return "ERROR";
  }
}

int Characters(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // the first byte of each
  }));
}

// Breaks at blanks; the first line begins at `indent` already. Texts hold names of files and what
// libraries say: the terminal shall show and not obey them.
std::string Wrapped(const std::string& text, int indent, int columns) {
  std::string out;
  int at = indent;
  for (const std::string& word_as_found : Words(text)) {
    const std::string word = Printable(word_as_found);
    const int length = Characters(word);
    if (at > indent && at + 1 + length > columns) {
      out += "\n" + std::string(static_cast<size_t>(indent), ' ');
      at = indent;
    } else if (at > indent) {
      out += " ";
      ++at;
    }
    out += word;
    at += length;
  }
  return out;
}

}  // namespace

Level WorstLevel(const Findings& findings) {
  Level worst = Level::kOk;
  for (const Finding& f : findings) worst = std::max(worst, f.level);
  return worst;
}

const char* LevelName(Level level) {
  static constexpr std::array kNames = {"ok", "absent", "warning", "error"};
  return kNames[static_cast<size_t>(level)];
}

std::string FindingText(const Finding& f, bool colour, int columns) {
  const bool narrow = columns < 60;
  const int indent = narrow ? 4 : 29;
  columns = std::max(columns, kNarrowest);
  std::string mark = fmt::format("{:<6}", Mark(f.level));
  if (colour) mark = Colour(f.level) + mark + "\033[0m";
  const std::string id = Printable(f.id);
  std::string out = narrow
                        ? fmt::format("{}{}\n    {}\n", mark, id, Wrapped(f.found, indent, columns))
                        : fmt::format("{}{:<22} {}\n", mark, id, Wrapped(f.found, indent, columns));
  if (f.level != Level::kWarning && f.level != Level::kError) return out;
  auto line = [&](const char* name, const std::string& text) {
    if (text.empty()) return;
    out += narrow ? fmt::format("  {}\n    {}\n", name, Wrapped(text, indent, columns))
                  : fmt::format("{:>28} {}\n", name, Wrapped(text, indent, columns));
  };
  line("needed", f.needed);
  line("why", f.why);
  line("fix", f.fix);
  return out;
}

std::string SummaryText(const Report& report, int columns) {
  auto plural = [](size_t n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  auto number = [&](Level level) {
    return static_cast<size_t>(std::count_if(report.findings.begin(), report.findings.end(),
                                             [&](const Finding& f) { return f.level == level; }));
  };
  std::string text = fmt::format("{} in {:.1f} s{}: {} ok, {} absent, {}, {}",
                                 plural(report.findings.size(), "check"), report.seconds,
                                 report.interrupted ? ", then interrupted" : "", number(Level::kOk),
                                 number(Level::kAbsent), plural(number(Level::kWarning), "warning"),
                                 plural(number(Level::kError), "error"));
  if (report.interrupted && !report.findings.empty()) {
    text += "; what comes after " + report.findings.back().id + " wasn't looked at";
  }
  return Wrapped(text, 0, std::max(columns, kNarrowest));
}

std::string ReportJson(const Report& report, const std::string& environment_json) {
  json findings = json::array();
  for (const Finding& f : report.findings) {
    json numbers = json::object();
    for (const auto& [name, value] : f.numbers) numbers[name] = value;
    findings.push_back({{"id", f.id},
                        {"group", f.group},
                        {"level", LevelName(f.level)},
                        {"found", f.found},
                        {"needed", f.needed},
                        {"why", f.why},
                        {"fix", f.fix},
                        {"numbers", numbers}});
  }
  json out = {{"format", 1},
              {"level", LevelName(report.worst)},
              {"deep", report.deep},
              {"seconds", report.seconds},
              {"findings", findings}};
  if (report.interrupted) out["interrupted"] = true;
  json environment = json::parse(environment_json, nullptr, false);
  if (environment.is_object()) out["environment"] = environment;
  return out.dump(2, ' ', false, json::error_handler_t::replace);
}

std::optional<Report> ReportFromJson(const std::string& text) {
  json all = json::parse(text, nullptr, false);
  const bool ours = all.is_object() && all.value("format", json()) == 1 &&
                    all.value("findings", json()).is_array();
  if (!ours) return std::nullopt;
  auto level = [](const json& of) {
    std::string name = TextAt(of, "/level");
    for (Level l : {Level::kAbsent, Level::kWarning, Level::kError}) {
      if (name == LevelName(l)) return l;
    }
    return Level::kOk;
  };
  Report report;
  report.worst = level(all);
  report.deep = TextAt(all, "/deep") == "true";
  report.interrupted = TextAt(all, "/interrupted") == "true";
  report.seconds =
      all.contains("seconds") && all["seconds"].is_number() ? all["seconds"].get<double>() : 0;
  for (const json& row : all["findings"]) {
    Finding f;
    f.id = TextAt(row, "/id"), f.group = TextAt(row, "/group"), f.level = level(row);
    f.found = TextAt(row, "/found"), f.needed = TextAt(row, "/needed");
    f.why = TextAt(row, "/why"), f.fix = TextAt(row, "/fix");
    const json numbers = row.is_object() ? row.value("numbers", json::object()) : json::object();
    for (const auto& [name, value] : numbers.items()) {
      if (value.is_number()) f.numbers.emplace_back(name, value.get<double>());
    }
    report.findings.push_back(std::move(f));
  }
  return report;
}

}  // namespace xp::doctor
