#include "src/config/suggest.h"

#include <algorithm>
#include <utility>

namespace xp::config {
namespace {

constexpr size_t kLongestName = 64;  // the distance is quadratic in it

constexpr size_t kMostCandidates = 20'000;

// Optimal string alignment distance, case counts as half an edit (so everything is doubled).
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = 2 * i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = 2 * j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t cost = a[i - 1] == b[j - 1]                               ? 0
                    : std::tolower(a[i - 1]) == std::tolower(b[j - 1]) ? 1
                                                                       : 2;
      d[i][j] = std::min({d[i - 1][j] + 2, d[i][j - 1] + 2, d[i - 1][j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 2);
      }
    }
  }
  return d[a.size()][b.size()];
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
