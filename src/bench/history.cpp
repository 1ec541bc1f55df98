// Cases through all calls of a store.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exp/bench/report.h"
#include "src/bench/cells.h"

namespace xp::bench {
namespace {

void FillRatios(std::vector<CaseHistory::Point>& points) {
  double first = 0;
  for (CaseHistory::Point& p : points) {
    const double speed = p.row->status == Status::kOk ? p.row->images_per_second : 0;
    if (first <= 0) first = speed;
    p.ratio = first > 0 ? speed / first : 0;
  }
}

}  // namespace

std::vector<CaseHistory> Through(const std::vector<Call>& calls,
                                 const std::vector<std::string>& models) {
  std::vector<CaseHistory> cases;
  std::map<std::string, size_t> places;  // of a key in `cases`
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    for (const Row& row : call->rows) {
      const bool wanted =
          models.empty() || std::find(models.begin(), models.end(), row.c.model) != models.end();
      if (!wanted) continue;
      auto [place, added] = places.try_emplace(Key(row.c), cases.size());
      if (added) cases.push_back({CaseText(row.c), {}});
      cases[place->second].points.push_back({&*call, &row, 0});
    }
  }
  for (CaseHistory& c : cases) FillRatios(c.points);
  return cases;
}

std::string HistoryMarkdown(const std::vector<Call>& calls, const std::vector<CaseHistory>& cases) {
  std::string out;
  for (const Call& call : calls) {
    out += fmt::format("- {}", MarkdownCell(call.Title()));
    for (const auto& [name, text] : call.facts) {
      out += fmt::format("; {}: {}", name, MarkdownCell(text));
    }
    out += "\n";
  }
  out += "\n| case | call | measured | img/s | ratio |\n|---|---|---|---|---|\n";
  for (const CaseHistory& c : cases) {
    for (const CaseHistory::Point& p : c.points) {
      out += fmt::format("| {} | {} | {} | {} | {} |\n", MarkdownCell(c.text),
                         MarkdownCell(p.call->Title()), TimeText(p.row->measured_ns),
                         SpeedText(p.row), RatioText(p.ratio));
    }
  }
  return out;
}

}  // namespace xp::bench
