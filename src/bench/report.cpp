#include "exp/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace xp::bench {
namespace {

// Empty for a number that wasn't measured.
std::string Number(double value, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value, digits) : "";
}

// A TB/s or TFLOP/s of any size.
std::string Rate(double value) {
  return value <= 0       ? ""
         : value >= 10    ? fmt::format("{:.1f}", value)
         : value >= 0.1   ? fmt::format("{:.3f}", value)
         : value >= 0.001 ? fmt::format("{:.2g}", value)
                          : "<0.001";
}

std::string Percent(double share) { return share > 0 ? fmt::format("{:.0f} %", 100 * share) : ""; }

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

std::string Gib(uint64_t bytes) {
  return bytes == 0 ? "" : fmt::format("{:.2f}", static_cast<double>(bytes) / (1u << 30));
}

std::string Batch(const Case& c) { return std::to_string(c.batch) + (c.largest ? " max" : ""); }

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string Label(const Case& c) {
  return fmt::format("{}{}", c.kind == "loader" ? "loader" : c.model,
                     c.kind == "end_to_end" ? " from JPEGs" : "");
}

struct Column {
  const char* name;
  std::string (*text)(const Row&);
};
// In the order of Markdown and HTML.
const Column kColumns[] = {
    {"program", [](const Row& r) { return r.c.program; }},
    {"model", [](const Row& r) { return Label(r.c); }},
    {"batch", [](const Row& r) { return Batch(r.c); }},
    {"precision", [](const Row& r) { return r.c.kind == "loader" ? "" : r.c.precision; }},
    {"mode", [](const Row& r) { return Mode(r.c); }},
    {"img/s",
     [](const Row& r) {
       return r.status == Status::kOk ? Number(r.images_per_second, 1) : StatusText(r.status);
     }},
    {"ms/step", [](const Row& r) { return Number(r.milliseconds, 2); }},
    {"spread",
     [](const Row& r) { return r.repeats > 1 ? fmt::format("{:.1f} %", 100 * r.spread) : ""; }},
    {"GiB", [](const Row& r) { return Gib(r.bytes); }},
    {"W", [](const Row& r) { return Number(r.watts, 0); }},
    {"img/s/W",
     [](const Row& r) { return r.watts > 0 ? Number(r.images_per_second / r.watts, 2) : ""; }},
    {"TFLOP/s",
     [](const Row& r) { return r.milliseconds > 0 ? Rate(r.flop / r.milliseconds * 1e-9) : ""; }},
    {"of matrix", [](const Row& r) { return Percent(r.matrix_share); }},
    {"TB/s",
     [](const Row& r) {
       return r.milliseconds > 0 ? Rate(r.moved_bytes / r.milliseconds * 1e-9) : "";
     }},
    {"of copy", [](const Row& r) { return Percent(r.copy_share); }},
    {"setup s", [](const Row& r) { return Number(r.setup_seconds, 1); }},
    {"first epoch s", [](const Row& r) { return Number(r.first_epoch_seconds, 2); }},
    {"note",
     [](const Row& r) {
       std::string note = Joined(r.throttled).empty() ? "" : "throttled: " + Joined(r.throttled);
       if (r.outliers > 0)
         note += fmt::format("{}{} outliers", note.empty() ? "" : "; ", r.outliers);
       if (!r.reason.empty()) note += (note.empty() ? "" : "; ") + OneLine(r.reason);
       return note;
     }},
};

// Columns that no row has anything in are left out.
std::vector<const Column*> Used(const std::vector<Row>& rows) {
  std::vector<const Column*> used;
  for (const Column& column : kColumns) {
    bool any = std::any_of(rows.begin(), rows.end(),
                           [&](const Row& r) { return !column.text(r).empty(); });
    if (any) used.push_back(&column);
  }
  return used;
}

// A text that is one line of a table or a list, and no HTML.
std::string MarkdownCell(const std::string& text) {
  std::string out;
  for (char c : OneLine(text)) {
    if (c == '|') out += '\\';
    out += c == '<' ? "&lt;" : std::string(1, c);
  }
  return out;
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// Bars by model; a bar is one case, as long as its img/s of the model's fastest.
std::string Bars(const std::vector<Row>& rows) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Row*>> groups;
  for (const Row& r : rows) {
    std::string name = Label(r.c);
    if (!groups.count(name)) order.push_back(name);
    groups[name].push_back(&r);
  }
  std::string out;
  for (const std::string& name : order) {
    double best = 0;
    for (const Row* r : groups[name]) best = std::max(best, r->images_per_second);
    out += fmt::format("<section><h2>{}</h2>\n<div class=\"bars\">\n", Escaped(name));
    for (const Row* r : groups[name]) {
      std::string precision = r->c.kind == "loader" ? "" : r->c.precision + " ";
      std::string label = fmt::format("{}{} {}{}", r->c.program == "torch" ? "PyTorch " : "",
                                      Batch(r->c), precision, Mode(r->c));
      bool ok = r->status == Status::kOk && best > 0;
      double width = ok ? 100 * r->images_per_second / best : 0;
      out += fmt::format(
          "<span class=\"label\">{}</span><span class=\"track\"><span class=\"bar {}\" "
          "style=\"width:{:.1f}%\"></span></span><span class=\"value\">{}{}</span>\n",
          Escaped(label), r->c.program == "torch" ? "peer" : "ours", width,
          ok ? fmt::format("{:.1f}", r->images_per_second) : StatusText(r->status),
          r->throttled.empty() ? "" : " *");
    }
    out += "</div></section>\n";
  }
  return out;
}

constexpr const char* kStyle = R"(
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;color:#222;background:#fff}
h1{font-size:1.5em}h2{font-size:1.1em;margin:1.4em 0 .4em}
table{border-collapse:collapse;font-size:.85em;font-variant-numeric:tabular-nums}
td,th{padding:.2em .6em;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}
td:first-child,th:first-child,td:last-child,th:last-child,.text{text-align:left}
.facts td{text-align:left}
.bars{display:grid;grid-template-columns:max-content 1fr max-content;gap:.15em .8em;align-items:center}
.label{font-size:.85em}.value{font-size:.85em;font-variant-numeric:tabular-nums;text-align:right}
.track{background:#f0f0f0;height:1em}.bar{display:block;height:1em}
.ours{background:#2a6f97}.peer{background:#e08e45}
.bad{color:#a33}
@media print{body{margin:0;max-width:none;font-size:11px}section,tr{break-inside:avoid}
.bar,.track{print-color-adjust:exact;-webkit-print-color-adjust:exact}@page{size:A4 landscape;margin:12mm}}
)";

std::string Cell(const Row* r) {
  if (r == nullptr) return "-";
  return r->status == Status::kOk ? fmt::format("{:.1f}", r->images_per_second)
                                  : StatusText(r->status);
}

std::string CaseText(const Pair& p) {
  const Case& c = (p.a ? p.a : p.b)->c;
  return fmt::format("{}{} {} {} {}", c.program == "torch" ? "torch " : "", Label(c), Batch(c),
                     c.kind == "loader" ? "" : c.precision, Mode(c));
}

}  // namespace

std::string HeadLine() {
  return fmt::format(
      "{:<24} {:>8} {:<5} {:<28} {:>9} {:>9} {:>7} {:>7} {:>5} {:>7} {:>8} {:>6}  {}", "model",
      "batch", "prec", "mode", "img/s", "ms/step", "spread", "GiB", "W", "img/s/W", "TFLOP/s",
      "TB/s", "note");
}

std::string RowLine(const Row& r) {
  std::string name = (r.c.program == "torch" ? "torch " : "") + Label(r.c);
  std::string head = fmt::format("{:<24} {:>8} {:<5} {:<28}", name, Batch(r.c),
                                 r.c.kind == "loader" ? "" : r.c.precision, Mode(r.c));
  if (r.status != Status::kOk) {
    return fmt::format("{} {:>9} {}", head, StatusText(r.status), OneLine(r.reason));
  }
  double ms = r.milliseconds;
  std::string note = kColumns[std::size(kColumns) - 1].text(r);
  if (r.first_epoch_seconds > 0) {
    note = fmt::format("start {:.1f} s, first epoch {:.2f} s, later {:.2f} s{}", r.setup_seconds,
                       r.first_epoch_seconds, r.epoch_seconds, note.empty() ? "" : "; " + note);
  } else if (r.setup_seconds > 0) {
    note = fmt::format("start {:.1f} s{}", r.setup_seconds, note.empty() ? "" : "; " + note);
  }
  return fmt::format(
      "{} {:>9.1f} {:>9.2f} {:>7} {:>7} {:>5} {:>7} {:>8} {:>6}  {}", head, r.images_per_second, ms,
      r.repeats > 1 ? fmt::format("{:.1f}%", 100 * r.spread) : "", Gib(r.bytes), Number(r.watts, 0),
      r.watts > 0 ? Number(r.images_per_second / r.watts, 2) : "",
      ms > 0 ? Rate(r.flop / ms * 1e-9) : "", ms > 0 ? Rate(r.moved_bytes / ms * 1e-9) : "", note);
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
  std::vector<const Column*> columns = Used(rows);
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

std::string Csv(const std::vector<Row>& rows) {
  std::string out =
      "program,kind,model,batch,largest,precision,mode,device,status,images_per_second,"
      "milliseconds,"
      "fastest_milliseconds,slowest_milliseconds,spread,repeats,outliers,bytes,watts,celsius,sm_"
      "mhz,"
      "tflop_per_second,matrix_share,tb_per_second,copy_share,setup_seconds,first_epoch_seconds,"
      "epoch_seconds,loss,throttled,reason\n";
  for (const Row& r : rows) {
    double ms = r.milliseconds;
    auto number = [](double v) {
      return v != 0 && std::isfinite(v) ? fmt::format("{:.6g}", v) : "";
    };
    std::vector<std::string> cells = {r.c.program,
                                      r.c.kind,
                                      r.c.model,
                                      std::to_string(r.c.batch),
                                      r.c.largest ? "1" : "0",
                                      r.c.precision,
                                      Mode(r.c),
                                      r.device,
                                      StatusText(r.status),
                                      number(r.images_per_second),
                                      number(ms),
                                      number(r.fastest),
                                      number(r.slowest),
                                      ms > 0 ? fmt::format("{:.6g}", r.spread) : "",
                                      std::to_string(r.repeats),
                                      std::to_string(r.outliers),
                                      r.bytes > 0 ? std::to_string(r.bytes) : "",
                                      number(r.watts),
                                      number(r.celsius),
                                      number(r.sm_mhz),
                                      number(ms > 0 ? r.flop / ms * 1e-9 : 0),
                                      number(r.matrix_share),
                                      number(ms > 0 ? r.moved_bytes / ms * 1e-9 : 0),
                                      number(r.copy_share),
                                      number(r.setup_seconds),
                                      number(r.first_epoch_seconds),
                                      number(r.epoch_seconds),
                                      number(r.loss),
                                      Joined(r.throttled),
                                      OneLine(r.reason)};
    for (size_t i = 0; i < cells.size(); ++i) out += (i == 0 ? "" : ",") + CsvCell(cells[i]);
    out += "\n";
  }
  return out;
}

std::string Html(const std::string& title, const Facts& facts, const std::vector<Row>& rows) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta "
      "charset=\"utf-8\"><title>{0}</title><style>{1}"
      "</style></head><body>\n<h1>{0}</h1>\n<table class=\"facts\">\n",
      Escaped(title), kStyle);
  for (const auto& [name, text] : facts) {
    out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", Escaped(name), Escaped(text));
  }
  out += "</table>\n" + Bars(rows);
  bool throttled =
      std::any_of(rows.begin(), rows.end(), [](const Row& r) { return !r.throttled.empty(); });
  if (throttled) out += "<p>* something held the clocks down: see the notes.</p>\n";
  out += "<section><h2>All numbers</h2>\n<table>\n<tr>";
  std::vector<const Column*> columns = Used(rows);
  for (const Column* c : columns) out += fmt::format("<th>{}</th>", c->name);
  out += "</tr>\n";
  for (const Row& r : rows) {
    out += r.status == Status::kOk ? "<tr>" : "<tr class=\"bad\">";
    for (const Column* c : columns) out += fmt::format("<td>{}</td>", Escaped(c->text(r)));
    out += "</tr>\n";
  }
  return out + "</table></section>\n</body></html>\n";
}

std::vector<Pair> PairUp(const std::vector<Row>& a, const std::vector<Row>& b) {
  std::vector<Pair> pairs;
  auto find = [&](const std::string& key) -> Pair* {
    for (Pair& p : pairs) {
      if (p.key == key) return &p;
    }
    return nullptr;
  };
  for (const Row& r : a) {
    std::string key = Key(r.c);
    // The same case twice in one call: the later one counts.
    if (Pair* p = find(key)) {
      p->a = &r;
    } else {
      pairs.push_back({key, &r, nullptr, 0});
    }
  }
  for (const Row& r : b) {
    std::string key = Key(r.c);
    if (Pair* p = find(key)) {
      p->b = &r;
    } else {
      pairs.push_back({key, nullptr, &r, 0});
    }
  }
  for (Pair& p : pairs) {
    bool both = p.a && p.b && p.a->images_per_second > 0 && p.b->images_per_second > 0;
    if (both) p.ratio = p.b->images_per_second / p.a->images_per_second;
  }
  return pairs;
}

double MeanRatio(const std::vector<Pair>& pairs) {
  double sum = 0;
  int count = 0;
  for (const Pair& p : pairs) {
    if (p.ratio <= 0) continue;
    sum += std::log(p.ratio);
    ++count;
  }
  return count > 0 ? std::exp(sum / count) : 0;
}

std::string CompareText(const std::string& a, const std::string& b,
                        const std::vector<Pair>& pairs) {
  std::string out = fmt::format("{:<64} {:>14} {:>14} {:>8}\n", "img/s", a, b, "ratio");
  for (const Pair& p : pairs) {
    out += fmt::format("{:<64} {:>14} {:>14} {:>8}\n", CaseText(p), Cell(p.a), Cell(p.b),
                       p.ratio > 0 ? fmt::format("{:.3f}", p.ratio) : "");
  }
  if (double mean = MeanRatio(pairs); mean > 0) {
    out += fmt::format("{:<64} {:>14} {:>14} {:>8.3f}\n", "geometric mean", "", "", mean);
  }
  return out;
}

std::string CompareMarkdown(const std::string& a, const std::string& b,
                            const std::vector<Pair>& pairs) {
  std::string out = fmt::format("| img/s | {} | {} | ratio |\n|---|---|---|---|\n", MarkdownCell(a),
                                MarkdownCell(b));
  for (const Pair& p : pairs) {
    out += fmt::format("| {} | {} | {} | {} |\n", MarkdownCell(CaseText(p)), Cell(p.a), Cell(p.b),
                       p.ratio > 0 ? fmt::format("{:.3f}", p.ratio) : "");
  }
  if (double mean = MeanRatio(pairs); mean > 0) {
    out += fmt::format("| geometric mean | | | {:.3f} |\n", mean);
  }
  return out;
}

}  // namespace xp::bench
