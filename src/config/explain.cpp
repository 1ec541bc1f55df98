#include "exp/config/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "src/config/suggest.h"

namespace xp::config {
namespace {

std::string Place(const Origin& origin) {
  std::string text = origin.Text();
  return text.empty() ? "(unknown place)" : text;
}

std::string Shown(const Node& node) {
  if (node.IsNull()) return "null";
  return Brief(node, 100);
}

// One line a layer: "  configs/a.yaml:3:7  written 0.02".
std::string Layers(const Node& node) {
  std::string out;
  std::vector<Layer> layers = node.History();
  size_t width = 0;
  for (const Layer& layer : layers) width = std::max(width, Place(layer.at).size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const bool merged_dict = node.IsDict() && layer.value.IsNull();
    std::string what;
    if (layer.action == Action::kMerged) {
      what = "merged another layer's keys";
    } else if (merged_dict) {
      what = "a dict begins";
    } else {
      what = fmt::format("{} {}", ActionName(layer.action), Shown(layer.value));
    }
    if (layer.action == Action::kDeleted) {
      what = fmt::format("replaced the whole value (_delete_) by {}", Shown(layer.value));
    }
    if (i > 0 && layer.action != Action::kMerged && !layers[i - 1].value.IsNull()) {
      what += fmt::format(", replaced {}", Shown(layers[i - 1].value));
    }
    if (!layer.note.empty()) what += ", " + layer.note;
    out += fmt::format("  {:<{}}  {}\n", Place(layer.at), width, what);
  }
  return out;
}

void Leaves(const Node& node, const std::string& path, size_t left,
            std::vector<std::pair<std::string, const Node*>>& out) {
  if (out.size() >= left) return;
  if (node.IsDict() && node.size() > 0) {
    for (const Entry& entry : node.entries())
      Leaves(entry.value, JoinPath(path, entry.key), left, out);
  } else if (node.IsList() && std::any_of(node.items().begin(), node.items().end(),
                                          [](const Node& item) { return item.IsDict(); })) {
    for (size_t i = 0; i < node.size(); ++i)
      Leaves(node[i], JoinPath(path, std::to_string(i)), left, out);
  } else {
    out.emplace_back(path, &node);
  }
}

std::string Comment(const Node& node) {
  std::string text = Place(node.origin());
  const std::vector<Layer> layers = node.History();
  if (layers.empty()) return text;
  if (!layers.back().note.empty()) {  // made from other values
    text += ", " + layers.back().note;
  } else if (layers.size() > 1) {
    const Layer& before = layers[layers.size() - 2];
    text += fmt::format(", replaced {} of {}", Brief(before.value, 40), Place(before.at));
  }
  if (layers.size() > 2) text += fmt::format(", {} layers", layers.size());
  return text;
}

std::vector<std::string> AllPaths(const Node& root) {
  std::vector<std::string> names;
  std::vector<std::pair<std::string, const Node*>> todo{{"", &root}};
  while (!todo.empty() && names.size() < 20000) {
    auto [path, node] = todo.back();
    todo.pop_back();
    if (!node->IsDict()) continue;
    for (const Entry& entry : node->entries()) {
      names.push_back(JoinPath(path, entry.key));
      todo.emplace_back(names.back(), &entry.value);
    }
  }
  return names;
}

// What was at `path` before it was dropped, alone or with what is around it; null: nothing.
const Node* DroppedValue(const Dropped& dropped, const std::string& path) {
  if (dropped.path == path) return &dropped.value;
  if (path.rfind(dropped.path + ".", 0) != 0) return nullptr;
  return dropped.value.At(path.substr(dropped.path.size() + 1));
}

}  // namespace

std::string Explain(const Resolved& resolved, const std::string& path) {
  std::string out;
  for (const Dropped& dropped : resolved.dropped) {
    const Node* value = DroppedValue(dropped, path);
    if (value == nullptr || value->IsNull()) continue;
    const bool whole = dropped.path == path;
    out += fmt::format("  {}  deleted {}{} ({})\n", Place(dropped.by),
                       whole ? "" : "with " + dropped.path + ": ", Shown(*value),
                       Place(value->origin()));
  }
  const Node* node = resolved.root.At(path);
  if (node == nullptr && !out.empty()) return fmt::format("{} isn't set\n{}", path, out);
  if (node == nullptr) {
    throw UsageError({.what = fmt::format("the config has no key `{}`", path),
                      .where = resolved.sources.empty() ? "" : resolved.sources.front().path,
                      .next = DidYouMean(Nearest(path, AllPaths(resolved.root)))});
  }
  std::string head = node->IsDict() ? fmt::format("{} (a dict of {})", path, node->size())
                                    : fmt::format("{} = {}", path, Shown(*node));
  out = head + "\n" + Layers(*node) + out;
  if (!node->IsContainer()) return out;
  std::vector<std::pair<std::string, const Node*>> leaves;
  constexpr size_t kMost = 1000;
  Leaves(*node, path, kMost, leaves);
  for (const auto& [leaf_path, leaf] : leaves) {
    if (leaf == node) continue;
    out += fmt::format("{} = {}\n{}", leaf_path, Shown(*leaf), Layers(*leaf));
  }
  return out;
}

std::string ExplainAll(const Resolved& resolved) {
  std::vector<std::pair<std::string, const Node*>> leaves;
  Leaves(resolved.root, "", SIZE_MAX, leaves);
  size_t width = 0;
  constexpr size_t kWidest = 60;
  std::vector<std::string> lines;
  for (const auto& [path, leaf] : leaves) {
    lines.push_back(fmt::format("{}: {}", path, Brief(*leaf, 80)));
    if (lines.back().size() <= kWidest) width = std::max(width, lines.back().size());
  }
  std::string out;
  for (size_t i = 0; i < leaves.size(); ++i) {
    out += fmt::format("{:<{}}  # {}\n", lines[i], width, Comment(*leaves[i].second));
  }
  for (const Dropped& dropped : resolved.dropped) {
    if (dropped.value.IsNull()) continue;
    out += fmt::format("# {} was deleted by {}: {} ({})\n", dropped.path, Place(dropped.by),
                       Brief(dropped.value), Place(dropped.value.origin()));
  }
  return out;
}

namespace {

void Compare(const Node* a, const Node* b, const std::string& path, std::string& out) {
  if (a != nullptr && b != nullptr && Equal(*a, *b)) return;
  if (a != nullptr && b != nullptr && a->IsDict() && b->IsDict() && a->tag() == b->tag()) {
    for (const Entry& entry : a->entries())
      Compare(&entry.value, b->Find(entry.key), JoinPath(path, entry.key), out);
    for (const Entry& entry : b->entries()) {
      if (!a->Has(entry.key)) Compare(nullptr, &entry.value, JoinPath(path, entry.key), out);
    }
    return;
  }
  if (a != nullptr && b != nullptr && a->IsList() && b->IsList() && a->size() == b->size()) {
    bool dicts = std::all_of(a->items().begin(), a->items().end(),
                             [](const Node& item) { return item.IsDict(); });
    if (dicts) {
      for (size_t i = 0; i < a->size(); ++i)
        Compare(&(*a)[i], &(*b)[i], JoinPath(path, std::to_string(i)), out);
      return;
    }
  }
  out += path + "\n";
  if (a != nullptr) out += fmt::format("  - {}  # {}\n", Shown(*a), Comment(*a));
  if (b != nullptr) out += fmt::format("  + {}  # {}\n", Shown(*b), Comment(*b));
}

}  // namespace

std::string Difference(const Resolved& a, const Resolved& b) {
  std::string out;
  Compare(&a.root, &b.root, "", out);
  return out;
}

}  // namespace xp::config
