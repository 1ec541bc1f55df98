// Two calls side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exp/bench/report.h"
#include "src/bench/cells.h"

namespace xp::bench {
namespace {

// Of the row that is there.
const Row& Either(const Pair& p) { return p.a ? *p.a : *p.b; }

}  // namespace

std::vector<Pair> PairUp(const std::vector<Row>& a, const std::vector<Row>& b) {
  std::vector<Pair> pairs;
  auto find = [&](const std::string& key) -> Pair* {
    for (Pair& p : pairs) {
      if (p.key == key) return &p;
    }
    return nullptr;
  };
  // The same case twice in one call: the later one counts.
  auto add = [&](const std::vector<Row>& rows, const Row* Pair::*side) {
    for (const Row& r : rows) {
      std::string key = Key(r.c);
      Pair* p = find(key);
      if (p == nullptr) p = &pairs.emplace_back(Pair{.key = key});
      p->*side = &r;
    }
  };
  add(a, &Pair::a);
  add(b, &Pair::b);
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
    out += fmt::format("{:<64} {:>14} {:>14} {:>8}\n", CaseText(Either(p).c), SpeedText(p.a),
                       SpeedText(p.b), RatioText(p.ratio));
  }
  if (std::none_of(pairs.begin(), pairs.end(), [](const Pair& p) { return p.a && p.b; })) {
    out += "no case is in both: nothing can be compared\n";
  }
  if (double mean = MeanRatio(pairs); mean > 0) {
    out += fmt::format("{:<64} {:>14} {:>14} {:>8.3f}\n", "geometric mean", "", "", mean);
  }
  return out;
}

std::string CompareMarkdown(const std::string& a, const std::string& b,
                            const std::vector<Difference>& differences,
                            const std::vector<Pair>& pairs) {
  std::string out;
  if (!differences.empty()) {
    out += fmt::format("| | {} | {} |\n|---|---|---|\n", MarkdownCell(a), MarkdownCell(b));
    for (const Difference& d : differences) {
      out += fmt::format("| {} | {} | {} |\n", d.name, MarkdownCell(d.a), MarkdownCell(d.b));
    }
    out += "\n";
  }
  out += fmt::format("| img/s | {} | {} | ratio |\n|---|---|---|---|\n", MarkdownCell(a),
                     MarkdownCell(b));
  for (const Pair& p : pairs) {
    out += fmt::format("| {} | {} | {} | {} |\n", MarkdownCell(CaseText(Either(p).c)),
                       SpeedText(p.a), SpeedText(p.b), RatioText(p.ratio));
  }
  if (double mean = MeanRatio(pairs); mean > 0) {
    out += fmt::format("| geometric mean | | | {:.3f} |\n", mean);
  }
  return out;
}

std::vector<Difference> Differences(const Facts& a, const Facts& b) {
  auto value = [](const Facts& facts, const std::string& name) {
    auto found = std::find_if(facts.begin(), facts.end(),
                              [&](const auto& fact) { return fact.first == name; });
    return found == facts.end() ? "-" : found->second;
  };
  std::vector<Difference> out;
  for (const auto& [name, text] : a) {
    if (value(b, name) != text) out.push_back({name, text, value(b, name)});
  }
  for (const auto& [name, text] : b) {
    if (value(a, name) == "-") out.push_back({name, "-", text});
  }
  return out;
}

}  // namespace xp::bench
