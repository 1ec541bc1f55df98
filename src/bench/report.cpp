#include "exp/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/bench/cells.h"

namespace xp::bench {

std::string HeadLine() {
  return fmt::format(
      "{:<29} {:>8} {:<5} {:<33} {:>9} {:>9} {:>7} {:>7} {:>5} {:>7} {:>8} {:>6}  {}", "model",
      "batch", "prec", "mode", "img/s", "ms/step", "spread", "GiB", "W", "img/s/W", "TFLOP/s",
      "TB/s", "note");
}

std::string RowLine(const Row& r) {
  std::string name = (r.c.program == "torch" ? "torch " : "") + ModelText(r.c);
  std::string head =
      fmt::format("{:<29} {:>8} {:<5} {:<33}", name, BatchText(r.c), PrecisionText(r.c), Mode(r.c));
  if (r.status != Status::kOk) {
    return fmt::format("{} {:>9} {}", head, SpeedText(&r), OneLine(r.reason));
  }
  std::string note = NoteText(r);
  if (r.first_epoch_seconds > 0) {
    note = fmt::format("start {:.1f} s, first epoch {:.2f} s, later {:.2f} s{}", r.setup_seconds,
                       r.first_epoch_seconds, r.epoch_seconds, note.empty() ? "" : "; " + note);
  } else if (r.setup_seconds > 0) {
    note = fmt::format("start {:.1f} s{}", r.setup_seconds, note.empty() ? "" : "; " + note);
  }
  return fmt::format("{} {:>9} {:>9} {:>7} {:>7} {:>5} {:>7} {:>8} {:>6}  {}", head, SpeedText(&r),
                     NumberText(r.milliseconds, 2),
                     r.repeats > 1 ? fmt::format("{:.1f}%", 100 * r.spread) : "", GibText(r.bytes),
                     NumberText(r.watts, 0), WattText(r), TflopText(r), TbText(r), note);
}

std::string ProfileText(const Row& r) {
  std::map<std::string, double> kinds;
  double total = 0;
  for (const OperationTime& t : r.profile) {
    kinds[t.type] += t.milliseconds;
    total += t.milliseconds;
  }
  std::vector<std::pair<double, std::string>> sorted;
  sorted.reserve(kinds.size());
  for (const auto& [type, ms] : kinds) sorted.emplace_back(ms, type);
  std::sort(sorted.rbegin(), sorted.rend());
  std::string out = fmt::format("  {:>9.3f} ms in all operations, each waited for\n", total);
  for (const auto& [ms, type] : sorted) {
    out += fmt::format("  {:>9.3f} ms {:>5.1f}%  {}\n", ms, 100 * ms / std::max(total, 1e-9), type);
  }
  std::vector<OperationTime> longest = r.profile;
  std::sort(longest.begin(), longest.end(),
            [](const auto& a, const auto& b) { return a.milliseconds > b.milliseconds; });
  for (size_t i = 0; i < std::min<size_t>(20, longest.size()); ++i) {
    out += fmt::format("    {:>9.3f} ms  {} {}\n", longest[i].milliseconds, longest[i].type,
                       longest[i].name);
  }
  return out;
}

std::string Markdown(const Facts& facts, const std::vector<Row>& rows) {
  std::string out;
  for (const auto& [name, text] : facts) out += fmt::format("- {}: {}\n", name, MarkdownCell(text));
  std::vector<const Column*> columns = UsedColumns(rows);
  std::string head = "\n|", rule = "\n|";
  for (const Column* c : columns) {
    head += fmt::format(" {} |", c->name);
    rule += "---|";
  }
  out += head + rule + "\n";
  for (const Row& r : rows) {
    out += "|";
    for (const Column* c : columns) out += fmt::format(" {} |", MarkdownCell(c->text(r)));
    out += "\n";
  }
  return out;
}

}  // namespace xp::bench
