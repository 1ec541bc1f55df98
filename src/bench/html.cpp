// Pages without scripts or other files.
#include <fmt/format.h>

#include <algorithm>

#include "exp/base/escape.h"
#include "exp/bench/report.h"
#include "src/bench/cells.h"

namespace xp::bench {
namespace {

constexpr const char* kStyle = R"(
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;color:#222;background:#fff}
h1{font-size:1.5em}h2{font-size:1.1em;margin:1.4em 0 .4em}
table{border-collapse:collapse;font-size:.85em;font-variant-numeric:tabular-nums}
td,th{padding:.2em .6em;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}
td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}
.facts td,.facts th{text-align:left}
.bars{display:grid;grid-template-columns:max-content 1fr max-content;gap:.15em .8em;align-items:center}
.label{font-size:.85em}.value{font-size:.85em;font-variant-numeric:tabular-nums;text-align:right}
.track{background:#f0f0f0;height:1em}.bar{display:block;height:1em}
.first{background:#2a6f97}.second{background:#e08e45}
.bad{color:#a33}
@media print{body{margin:0;max-width:none;font-size:11px}.bars,tr{break-inside:avoid}h2{break-after:avoid}
.bar,.track{print-color-adjust:exact;-webkit-print-color-adjust:exact}@page{size:A4 landscape;margin:12mm}}
)";

// Groups in the order in which they come first.
template <class Item, class Name>
std::vector<std::pair<std::string, std::vector<const Item*>>> Grouped(
    const std::vector<Item>& items, Name name) {
  std::vector<std::pair<std::string, std::vector<const Item*>>> groups;
  for (const Item& item : items) {
    std::string key = name(item);
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == key; });
    if (group == groups.end()) group = groups.insert(groups.end(), {key, {}});
    group->second.push_back(&item);
  }
  return groups;
}

std::string Head(const std::string& title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta "
      "charset=\"utf-8\"><title>{0}</title><style>{1}"
      "</style></head><body>\n<h1>{0}</h1>\n",
      EscapeHtml(title), kStyle);
}

constexpr const char* kEnd = "</body></html>\n";

// share: of the longest bar.
std::string Bar(const std::string& label, const char* colour, double share,
                const std::string& value) {
  return fmt::format(
      "<span class=\"label\">{}</span><span class=\"track\"><span class=\"bar {}\" "
      "style=\"width:{:.1f}%\"></span></span><span class=\"value\">{}</span>\n",
      EscapeHtml(label), colour, 100 * share, EscapeHtml(value));
}

std::string Section(const std::string& name, const std::string& bars) {
  return fmt::format("<section><h2>{}</h2>\n<div class=\"bars\">\n{}</div></section>\n",
                     EscapeHtml(name), bars);
}

std::string FactsTable(const Facts& facts) {
  std::string out = "<table class=\"facts\">\n";
  for (const auto& [name, text] : facts) {
    out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", EscapeHtml(name), EscapeHtml(text));
  }
  return out + "</table>\n";
}

double Share(const Row* r, double best) {
  return r != nullptr && r->status == Status::kOk && best > 0 ? r->images_per_second / best : 0;
}

std::string CaseLabel(const Case& c) {
  std::string precision = PrecisionText(c);
  return fmt::format("{}{} {}{}", c.program == "torch" ? "PyTorch " : "", BatchText(c),
                     precision.empty() ? "" : precision + " ", Mode(c));
}

// Bars by model; a bar is one case, as long as its img/s of the model's fastest.
std::string Bars(const std::vector<Row>& rows) {
  std::string out;
  for (const auto& [name, group] : Grouped(rows, [](const Row& r) { return ModelText(r.c); })) {
    double best = 0;
    for (const Row* r : group) best = std::max(best, r->images_per_second);
    std::string bars;
    for (const Row* r : group) {
      bars += Bar(CaseLabel(r->c), r->c.program == "torch" ? "second" : "first", Share(r, best),
                  SpeedText(r) + (r->throttled.empty() ? "" : " *"));
    }
    out += Section(name, bars);
  }
  return out;
}

}  // namespace

std::string Html(const std::string& title, const Facts& facts, const std::vector<Row>& rows) {
  std::string out = Head(title) + FactsTable(facts) + Bars(rows);
  bool throttled =
      std::any_of(rows.begin(), rows.end(), [](const Row& r) { return !r.throttled.empty(); });
  if (throttled) out += "<p>* something held the clocks down: see the notes.</p>\n";
  out += "<section><h2>All numbers</h2>\n<table>\n<thead><tr>";
  std::vector<const Column*> columns = UsedColumns(rows);
  for (const Column* c : columns) out += fmt::format("<th>{}</th>", c->name);
  out += "</tr></thead>\n";
  for (const Row& r : rows) {
    out += r.status == Status::kOk ? "<tr>" : "<tr class=\"bad\">";
    for (const Column* c : columns) out += fmt::format("<td>{}</td>", EscapeHtml(c->text(r)));
    out += "</tr>\n";
  }
  return out + "</table></section>\n" + kEnd;
}

std::string CompareHtml(const std::string& a, const std::string& b,
                        const std::vector<Difference>& differences,
                        const std::vector<Pair>& pairs) {
  std::string out = Head("Training throughput: " + a + " and " + b);
  out += fmt::format("<table class=\"facts\">\n<tr><th></th><th>{}</th><th>{}</th></tr>\n",
                     EscapeHtml(a), EscapeHtml(b));
  for (const Difference& d : differences) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", EscapeHtml(d.name),
                       EscapeHtml(d.a), EscapeHtml(d.b));
  }
  out += "</table>\n";
  auto model = [](const Pair& p) { return ModelText((p.a ? p.a : p.b)->c); };
  for (const auto& [name, group] : Grouped(pairs, model)) {
    double best = 0;
    for (const Pair* p : group) {
      for (const Row* r : {p->a, p->b}) best = std::max(best, r ? r->images_per_second : 0);
    }
    std::string bars;
    for (const Pair* p : group) {
      std::string label = CaseLabel((p->a ? p->a : p->b)->c);
      label += ": ";
      label += a;
      std::string ratio = p->ratio > 0 ? fmt::format(" ({:.3f})", p->ratio) : "";
      bars += Bar(label, "first", Share(p->a, best), SpeedText(p->a));
      bars += Bar(b, "second", Share(p->b, best), SpeedText(p->b) + ratio);
    }
    out += Section(name, bars);
  }
  if (double mean = MeanRatio(pairs); mean > 0) {
    out += fmt::format("<p>{} is {:.3f} times {}: geometric mean of the ratios.</p>\n",
                       EscapeHtml(b), mean, EscapeHtml(a));
  }
  return out + kEnd;
}

std::string HistoryHtml(const std::vector<Call>& calls, const std::vector<CaseHistory>& cases) {
  std::string out = Head("Training throughput through all calls");
  for (const Call& call : calls) {
    out += fmt::format("<section><h2>{}</h2>\n", EscapeHtml(OneLine(call.Title())));
    out += FactsTable(call.facts) + "</section>\n";
  }
  for (const CaseHistory& c : cases) {
    double best = 0;
    for (const auto& p : c.points) best = std::max(best, p.row->images_per_second);
    std::string bars;
    for (const auto& p : c.points) {
      const std::string ratio = RatioText(p.ratio);
      bars += Bar(OneLine(p.call->Title()) + " " + TimeText(p.row->measured_ns),
                  p.row->c.program == "torch" ? "second" : "first", Share(p.row, best),
                  SpeedText(p.row) + (ratio.empty() ? "" : " (" + ratio + ")"));
    }
    out += Section(c.text, bars);
  }
  return out + "<p>In brackets: the ratio to the oldest measurement of the case.</p>\n" + kEnd;
}

}  // namespace xp::bench
