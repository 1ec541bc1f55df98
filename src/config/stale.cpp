#include "src/config/stale.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exp/config/canonical.h"

namespace xp::config {
namespace {

struct Found {
  const Node* now = nullptr;
  std::vector<std::string> paths;
  std::string where;  // of the first
  std::string then;
};

bool HasComputed(const Node& node) {
  const Layer* layer = node.history().get();
  if (layer != nullptr && layer->from != nullptr) return true;
  if (node.IsList()) return std::any_of(node.items().begin(), node.items().end(), HasComputed);
  if (!node.IsDict()) return false;
  return std::any_of(node.entries().begin(), node.entries().end(),
                     [](const Entry& entry) { return HasComputed(entry.value); });
}

class Walker {
 public:
  explicit Walker(const Node& root) : root_(root) {}

  void Walk(const Node& node, const std::string& path) {
    const Layer* layer = node.history().get();
    if (layer != nullptr && layer->action == Action::kComputed && layer->from != nullptr)
      Check(node, *layer, path);
    if (node.IsDict()) {
      for (const Entry& entry : node.entries()) Walk(entry.value, JoinPath(path, entry.key));
    } else if (node.IsList()) {
      for (size_t i = 0; i < node.size(); ++i) Walk(node[i], JoinPath(path, std::to_string(i)));
    }
  }

  std::map<std::string, Found> found;

 private:
  void Check(const Node& node, const Layer& layer, const std::string& path) {
    for (const Source& source : *layer.from) {
      if (source.path == path) continue;
      const Node* now = root_.At(source.path);
      // Changed within the same file before or after: the author's business. What has no place is a
      // loop's variable.
      if (now == nullptr || Newest(*now) == layer.at.source || Newest(*now) == nullptr) continue;
      const Node& then = source.value != nullptr ? *source.value : node;
      if (Equal(*now, then)) continue;
      Found& entry = found[source.path];
      entry.now = now;
      entry.paths.push_back(path);
      if (entry.where.empty()) {
        entry.where = layer.at.Text();
        entry.then = Brief(then, 40);
      }
      return;  // once a value
    }
  }

  static const std::string* Newest(const Node& node) {
    return node.history() != nullptr ? node.history()->at.source : node.origin().source;
  }

  const Node& root_;
};

}  // namespace

std::vector<Notice> StaleValues(const Node& root) {
  if (!HasComputed(root)) return {};
  Walker walker(root);
  walker.Walk(root, "");
  std::vector<Notice> notices;
  for (const auto& [source, entry] : walker.found) {
    constexpr size_t kMost = 8;
    std::string list;
    for (size_t i = 0; i < std::min(kMost, entry.paths.size()); ++i)
      list += (i > 0 ? ", " : "") + entry.paths[i];
    if (entry.paths.size() > kMost) list += fmt::format(" and {} more", entry.paths.size() - kMost);
    std::string by =
        entry.now->history() != nullptr ? entry.now->history()->at.Text() : entry.now->Where();
    notices.push_back(
        {"stale-value",
         fmt::format("`{}` is {} now (set by {}), but these were built from it when it was {}: {}",
                     source, Brief(*entry.now, 40), by, entry.then, list),
         entry.where});
  }
  return notices;
}

}  // namespace xp::config
