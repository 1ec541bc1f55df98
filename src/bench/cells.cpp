#include "src/bench/cells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "exp/base/printable.h"

namespace xp::bench {
namespace {

std::string Rate(double value) {
  return value <= 0       ? ""
         : value >= 10    ? fmt::format("{:.1f}", value)
         : value >= 0.1   ? fmt::format("{:.3f}", value)
         : value >= 0.001 ? fmt::format("{:.2g}", value)
                          : "<0.001";
}

// Of a quantity a step, 1e12 of it a second.
std::string Rate(double a_step, const Row& r) {
  return r.milliseconds > 0 ? Rate(a_step / r.milliseconds * 1e-9) : "";
}

std::string Percent(double share) { return share > 0 ? fmt::format("{:.0f} %", 100 * share) : ""; }

const Column kColumns[] = {
    {"program", [](const Row& r) { return r.c.program; }},
    {"model", [](const Row& r) { return ModelText(r.c); }},
    {"batch", [](const Row& r) { return BatchText(r.c); }},
    {"precision", [](const Row& r) { return PrecisionText(r.c); }},
    {"mode", [](const Row& r) { return Mode(r.c); }},
    {"img/s", [](const Row& r) { return SpeedText(&r); }},
    {"ms/step", [](const Row& r) { return NumberText(r.milliseconds, 2); }},
    {"spread",
     [](const Row& r) { return r.repeats > 1 ? fmt::format("{:.1f} %", 100 * r.spread) : ""; }},
    {"GiB", [](const Row& r) { return GibText(r.bytes); }},
    {"W", [](const Row& r) { return NumberText(r.watts, 0); }},
    {"img/s/W", WattText},
    {"TFLOP/s", TflopText},
    {"of matrix", [](const Row& r) { return Percent(r.matrix_share); }},
    {"TB/s", TbText},
    {"of copy", [](const Row& r) { return Percent(r.copy_share); }},
    {"setup s", [](const Row& r) { return NumberText(r.setup_seconds, 1); }},
    {"first epoch s", [](const Row& r) { return NumberText(r.first_epoch_seconds, 2); }},
    {"measured", [](const Row& r) { return TimeText(r.measured_ns); }},
    {"note", NoteText},
};

}  // namespace

std::vector<const Column*> UsedColumns(const std::vector<Row>& rows) {
  std::vector<const Column*> used;
  for (const Column& column : kColumns) {
    bool any = std::any_of(rows.begin(), rows.end(),
                           [&](const Row& r) { return !column.text(r).empty(); });
    if (any) used.push_back(&column);
  }
  return used;
}

std::string NumberText(double value, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value, digits) : "";
}

std::string GibText(uint64_t bytes) {
  return bytes == 0 ? "" : fmt::format("{:.2f}", static_cast<double>(bytes) / (1u << 30));
}

std::string ModelText(const Case& c) {
  return fmt::format("{}{}", c.kind == "loader" ? "loader" : c.model,
                     c.kind == "end_to_end" ? " from JPEGs" : "");
}

std::string BatchText(const Case& c) { return std::to_string(c.batch) + (c.largest ? " max" : ""); }

std::string PrecisionText(const Case& c) { return c.kind == "loader" ? "" : c.precision; }

std::string CaseText(const Case& c) {
  std::string precision = PrecisionText(c);
  if (!precision.empty()) precision += ' ';  // a loader has none
  return fmt::format("{}{} {} {}{}", c.program == "torch" ? "torch " : "", ModelText(c),
                     BatchText(c), precision, Mode(c));
}

std::string TimeText(int64_t ns) {
  std::time_t seconds = ns / 1'000'000'000;
  std::tm utc{};
  if (ns <= 0 || gmtime_r(&seconds, &utc) == nullptr) return "";
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

std::string TflopText(const Row& r) { return Rate(r.flop, r); }

std::string TbText(const Row& r) { return Rate(r.moved_bytes, r); }

std::string WattText(const Row& r) {
  return r.watts > 0 ? NumberText(r.images_per_second / r.watts, 2) : "";
}

std::string SpeedText(const Row* r) {
  if (r == nullptr) return "-";
  return r->status == Status::kOk ? fmt::format("{:.1f}", r->images_per_second)
                                  : StatusText(r->status);
}

std::string RatioText(double ratio) { return ratio > 0 ? fmt::format("{:.3f}", ratio) : ""; }

std::string NoteText(const Row& r) {
  std::vector<std::string> notes;
  if (!r.throttled.empty()) notes.push_back("throttled: " + Joined(r.throttled));
  if (r.outliers > 0) {
    notes.push_back(fmt::format("{} outlier{}", r.outliers, r.outliers == 1 ? "" : "s"));
  }
  if (!r.machine.empty()) notes.push_back("on another machine: " + r.machine);
  if (!r.reason.empty()) notes.push_back(OneLine(r.reason));
  return fmt::format("{}", fmt::join(notes, "; "));
}

std::string Joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return Printable(text);
}

std::string MarkdownCell(const std::string& text) {
  std::string out;
  for (char c : OneLine(text)) {
    if (c == '|') out += '\\';
    out += c == '<' ? "&lt;" : std::string(1, c);
  }
  return out;
}

}  // namespace xp::bench
