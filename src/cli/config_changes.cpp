#include "src/cli/config_changes.h"

#include <algorithm>
#include <map>

#include "exp/config/canonical.h"

namespace xp::cli {
namespace {

using Leaves = std::map<std::string, std::string>;

void Collect(const config::Node& node, const std::string& path, Leaves* leaves) {
  auto below = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (node.IsDict() && node.size() > 0) {
    for (const auto& entry : node.entries()) Collect(entry.value, below(entry.key), leaves);
    return;
  }
  bool nested = node.IsList() && std::any_of(node.items().begin(), node.items().end(),
                                             [](const config::Node& n) { return n.IsDict(); });
  if (nested) {
    for (size_t i = 0; i < node.size(); ++i) Collect(node[i], below(std::to_string(i)), leaves);
    return;
  }
  (*leaves)[path] = config::CanonicalJson(node);
}

}  // namespace

std::vector<std::string> ConfigChanges(const config::Node& before, const config::Node& now) {
  Leaves a, b;
  Collect(before, "", &a);
  Collect(now, "", &b);
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [path, value] : a) both[path] = {value, "(absent)"};
  for (const auto& [path, value] : b) {
    auto [at, added] = both.emplace(path, std::pair{"(absent)", value});
    if (!added) at->second.second = value;
  }
  std::vector<std::string> lines;
  for (const auto& [path, values] : both) {
    if (values.first != values.second)
      lines.push_back(path + ": " + values.first + " -> " + values.second);
  }
  return lines;
}

}  // namespace xp::cli
