#include "src/config/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "exp/base/error.h"
#include "exp/config/canonical.h"

namespace xp::config {
namespace {

constexpr std::string_view kDelete = "_delete_";

// Whether the dict asks to replace what it lies over.
bool Deletes(const Node& dict, const std::string& path) {
  const Node* flag = dict.Find(kDelete);
  if (flag == nullptr) return false;
  if (!flag->IsBool()) {
    throw UsageError({.what = fmt::format("`{}` is {}", JoinPath(path, kDelete), Brief(*flag)),
                      .where = flag->Where(),
                      .expected = "true or false, without quotes",
                      .next = "write true to replace the dict whole"});
  }
  return flag->AsBool();
}

bool HasDelete(const Node& node) {
  if (node.IsList()) return std::any_of(node.items().begin(), node.items().end(), HasDelete);
  if (!node.IsDict()) return false;
  if (node.Has(kDelete)) return true;
  return std::any_of(node.entries().begin(), node.entries().end(),
                     [](const Entry& entry) { return HasDelete(entry.value); });
}

bool IsIndex(const std::string& key) {
  if (key == "*") return true;
  size_t from = key.size() > 1 && key[0] == '-' ? 1 : 0;
  return !key.empty() && key.find_first_not_of("0123456789", from) == std::string::npos;
}

bool OnlyIndices(const Node& dict) {
  bool any = false;
  for (const Entry& entry : dict.entries()) {
    if (entry.key == kDelete) continue;
    if (!IsIndex(entry.key)) return false;
    any = true;
  }
  return any;
}

void Replace(Node& base, const Node& over, Action action) {
  Node next = over;
  StripDelete(next);
  Supersede(base, action, next);
  base = std::move(next);
}

// Keeps in the dict's history that another layer was merged into it, without keeping its old
// content.
void NoteMerge(Node& base, const Node& over) {
  auto layer = std::make_shared<Layer>();
  layer->action = Action::kMerged;
  layer->at = over.origin();
  layer->older = base.history();
  if (layer->older == nullptr) {
    auto first = std::make_shared<Layer>();
    first->at = base.origin();
    layer->older = std::move(first);
  }
  base.set_history(std::move(layer));
}

void MergeValue(Node& base, const Node& over, const std::string& path,
                std::vector<Dropped>* dropped);

void MergeElements(Node& base, const Node& over, const std::string& path,
                   std::vector<Dropped>* dropped) {
  auto count = static_cast<int64_t>(base.size());
  for (const Entry& entry : over.entries()) {
    if (entry.key == kDelete) continue;
    int64_t from = 0;
    int64_t to = count;
    if (entry.key != "*") {
      const char* end = entry.key.data() + entry.key.size();
      const bool fits = std::from_chars(entry.key.data(), end, from).ec == std::errc();
      if (from < 0) from += count;
      to = from + 1;
      if (!fits || from < 0 || from >= count) {
        throw UsageError({.what = fmt::format("`{}` has no element {}", path, entry.key),
                          .where = entry.value.Where(),
                          .expected = count == 0 ? "elements: it is empty"
                                                 : fmt::format("an index from 0 to {}", count - 1),
                          .next = "write the whole list, or correct the index"});
      }
    }
    for (int64_t i = from; i < to; ++i) {
      MergeValue(base.mutable_items()[static_cast<size_t>(i)], entry.value,
                 JoinPath(path, std::to_string(i)), dropped);
    }
  }
}

[[noreturn]] void CannotMerge(const Node& base, const Node& over, const std::string& path) {
  std::string what;
  std::string next;
  if (base.IsList()) {
    what = fmt::format("a dict is laid over `{}`, which is a list of {} ({})", path, base.size(),
                       base.Where());
    next = fmt::format(
        "change elements by index (`{0}: {{0: {{...}}}}`, `--set {0}.0.key=...`, `--set "
        "{0}.*.key=...` for all), write the whole list, or add `_delete_: true` to replace it by "
        "the dict",
        path);
  } else {
    what =
        fmt::format("a dict is laid over `{}`, which is {} ({})", path, Brief(base), base.Where());
    next = "add `_delete_: true` to the dict to replace the value";
  }
  throw UsageError({.what = what,
                    .where = over.Where(),
                    .expected = std::string(KindName(base.kind())),
                    .next = next});
}

void MergeValue(Node& base, const Node& over, const std::string& path,
                std::vector<Dropped>* dropped) {
  // A tagged value (PaddleDetection's `!COCODataSet {...}`) is an object of its own, not a dict to
  // merge.
  bool object = !over.tag().empty() || !base.tag().empty();
  if (!over.IsDict() || base.IsNull() || object) return Replace(base, over, Action::kWritten);
  if (Deletes(over, path)) {
    if (dropped != nullptr) dropped->push_back({path, base, over.origin()});
    return Replace(base, over, Action::kDeleted);
  }
  if (base.IsDict()) return MergeInto(base, over, path, dropped);
  if (base.IsList() && OnlyIndices(over)) return MergeElements(base, over, path, dropped);
  CannotMerge(base, over, path);
}

}  // namespace

void StripDelete(Node& node) {
  if (!HasDelete(node)) return;
  if (node.IsList()) {
    for (Node& item : node.mutable_items()) StripDelete(item);
    return;
  }
  Deletes(node, "");  // complains about a flag that isn't a bool
  node.Erase(kDelete);
  std::vector<std::string> keys;
  for (const Entry& entry : node.entries()) keys.push_back(entry.key);
  for (const std::string& key : keys) StripDelete(*node.FindMutable(key));
}

void MergeInto(Node& base, const Node& over, const std::string& path,
               std::vector<Dropped>* dropped) {
  if (!path.empty()) NoteMerge(base, over);
  for (const Entry& entry : over.entries()) {
    if (entry.key == kDelete) continue;
    Node* mine = base.FindMutable(entry.key);
    if (mine == nullptr) {
      Node next = entry.value;
      // It deletes nothing; mmengine would leave it in the result.
      if (dropped != nullptr && next.Has(kDelete))
        dropped->push_back({JoinPath(path, entry.key), Node(), next.origin()});
      StripDelete(next);
      base.Set(entry.key, std::move(next));
    } else {
      MergeValue(*mine, entry.value, JoinPath(path, entry.key), dropped);
    }
  }
  if (!over.tag().empty()) base.set_tag(over.tag());
}

void AddBase(Node& bases, const Node& base) {
  for (const Entry& entry : base.entries()) {
    const Node* mine = bases.Find(entry.key);
    if (mine == nullptr) {
      bases.Set(entry.key, entry.value);
    } else if (!Equal(*mine, entry.value)) {
      throw UsageError(
          {.what = fmt::format("two bases set `{}` differently: {} here, {} at {}", entry.key,
                               Brief(entry.value), Brief(*mine), mine->Where()),
           .where = entry.value.Where(),
           .expected = "bases that don't share a top-level key, or that agree on its value",
           .next =
               "move the shared key into one base, or chain the bases (one names the other in its "
               "`_base_`)"});
    }
  }
}

void SetScope(Node& node, const std::string& scope) {
  if (node.IsList()) {
    for (Node& item : node.mutable_items()) SetScope(item, scope);
    return;
  }
  if (!node.IsDict()) return;
  if (node.Has("type")) {
    const Node* present = node.Find("_scope_");
    if (present == nullptr || present->IsNull()) {
      Node value(scope);
      value.set_origin(node.origin());
      node.Set("_scope_", std::move(value));
    }
    return;
  }
  for (size_t i = 0; i < node.size(); ++i)
    SetScope(*node.FindMutable(node.entries()[i].key), scope);
}

}  // namespace xp::config
