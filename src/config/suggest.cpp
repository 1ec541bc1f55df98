#include "src/config/suggest.h"

#include <algorithm>
#include <array>
#include <utility>

namespace xp::config {
namespace {

constexpr size_t kLongestName = 64;  // the distance is quadratic in it

constexpr size_t kMostCandidates = 20'000;

// Optimal string alignment distance, case counts as half an edit (so everything is doubled).
// Neither is longer than kLongestName. Only the last three rows of the table are kept.
size_t Distance(std::string_view a, std::string_view b) {
  using Row = std::array<size_t, kLongestName + 1>;
  std::array<Row, 3> rows;
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = 2 * j;
  for (size_t i = 1; i <= a.size(); ++i) {
    Row& row = rows[i % 3];
    const Row& above = rows[(i + 2) % 3];
    const Row& two_above = rows[(i + 1) % 3];
    row[0] = 2 * i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t cost = a[i - 1] == b[j - 1]                               ? 0
                    : std::tolower(a[i - 1]) == std::tolower(b[j - 1]) ? 1
                                                                       : 2;
      row[j] = std::min({above[j] + 2, row[j - 1] + 2, above[j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_above[j - 2] + 2);
    }
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::vector<std::string> Nearest(std::string_view name, const std::vector<std::string>& candidates,
                                 size_t limit) {
  std::vector<std::pair<size_t, std::string>> near;
  if (name.size() > kLongestName) return {};
  size_t compared = 0;
  size_t farthest = 2 * (name.size() / 3 + 1);
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestName || ++compared > kMostCandidates) continue;
    // `lr` for `learning_rate`-like cases are not edits; a name inside the other is near too.
    bool inside = name.size() > 3 && candidate.find(name) != std::string::npos;
    size_t longer = std::max(name.size(), candidate.size());
    size_t added = longer - std::min(name.size(), candidate.size());
    if (2 * added > farthest && !inside) continue;
    size_t distance = Distance(name, candidate);
    if (distance <= farthest || inside)
      near.emplace_back(inside ? std::min(distance, farthest) : distance, candidate);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(limit, near.size()); ++i) names.push_back(near[i].second);
  return names;
}

std::string DidYouMean(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string out = "did you mean ";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += "`" + names[i] + "`";
  }
  return out + "?";
}

}  // namespace xp::config
