#include "src/config/override.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "exp/config/schema.h"
#include "src/config/merge.h"
#include "src/config/suggest.h"
#include "src/config/yaml.h"

namespace xp::config {
namespace {

// The position of the `=` that ends the key: the first outside quotes.
size_t KeyEnd(std::string_view text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == quote) quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    } else if (text[i] == '=') {
      return i;
    }
  }
  return std::string_view::npos;
}

// An override in a message.
std::string Cut(const std::string& text) { return Abridged(text, 200); }

void SetOrigins(Node& node, const Origin& origin) {
  node.set_origin(origin);
  if (node.IsList()) {
    for (Node& item : node.mutable_items()) SetOrigins(item, origin);
  } else if (node.IsDict()) {
    std::vector<std::string> keys;
    for (const Entry& entry : node.entries()) keys.push_back(entry.key);
    for (const std::string& key : keys) SetOrigins(*node.FindMutable(key), origin);
  }
}

class Applier {
 public:
  Applier(const Override& change, Node& root, const LoadOptions& options,
          std::vector<Notice>* warnings, std::vector<Dropped>* dropped)
      : change_(change), root_(root), options_(options), warnings_(warnings), dropped_(dropped) {}

  void Run() {
    Walk(root_, 0, "");
    if (changed_ == 0 && warnings_ != nullptr) {
      warnings_->push_back({"override-no-change",
                            fmt::format("`{}` changes nothing: the value is {} already",
                                        Cut(change_.text), Brief(change_.value)),
                            change_.origin.Text()});
    }
  }

 private:
  [[noreturn]] void Fail(const std::string& what, const std::string& expected,
                         const std::string& next) const {
    throw UsageError({.what = fmt::format("{} (in `{}`)", what, Cut(change_.text)),
                      .where = change_.origin.Text(),
                      .expected = expected,
                      .next = next});
  }

  void Walk(Node& node, size_t depth, const std::string& path) {
    const std::string& key = change_.keys[depth];
    const bool last = depth + 1 == change_.keys.size();
    if (node.IsList()) return WalkList(node, depth, path);
    if (!node.IsDict()) {
      Fail(fmt::format("`{}` is {}, it has no `{}`", path.empty() ? "the config" : path,
                       Brief(node), key),
           "a key inside a dict or a list",
           node.Where().empty() ? "" : "it is set at " + node.Where());
    }
    if (last) return Last(node, key, JoinPath(path, key));
    Node* child = node.FindMutable(key);
    if (child == nullptr || (child->IsNull() && change_.kind != OverrideKind::kDelete)) {
      if (!MayCreate(depth)) Unknown(node, key, path);
      Node dict = Node::Dict();
      dict.set_origin(change_.origin);
      if (child != nullptr) Supersede(*child, Action::kOverridden, dict);
      child = &node.Set(key, std::move(dict));
    }
    Walk(*child, depth + 1, JoinPath(path, key));
  }

  void WalkList(Node& list, size_t depth, const std::string& path) {
    const std::string& key = change_.keys[depth];
    const bool last = depth + 1 == change_.keys.size();
    auto count = static_cast<int64_t>(list.size());
    int64_t from = 0;
    int64_t to = count;
    if (key != "*") {
      auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), from);
      bool number = error == std::errc() && end == key.data() + key.size();
      if (number && from < 0) from += count;
      if (!number || from < 0 || from >= count) {
        Fail(fmt::format("`{}` is a list of {}, it has no `{}`", path, count, key),
             fmt::format("an index from 0 to {} (or -1 for the last), or * for all", count - 1),
             change_.kind == OverrideKind::kAdd && last
                 ? fmt::format("append with {}+=[...]", path)
                 : fmt::format("write {0}.0{1}=..., or {0}.*{1}=... for all elements", path,
                               number ? "" : "." + key));
      }
      to = from + 1;
    } else if (count == 0) {
      Fail(fmt::format("`{}` is an empty list", path), "elements for * to stand for", "");
    }
    if (last && change_.kind == OverrideKind::kDelete) {
      for (int64_t i = to - 1; i >= from; --i) {
        auto at = list.mutable_items().begin() + i;
        if (dropped_ != nullptr)
          dropped_->push_back({JoinPath(path, std::to_string(i)), *at, change_.origin});
        list.mutable_items().erase(at);
        ++changed_;
      }
      return;
    }
    if (change_.kind == OverrideKind::kAdd && last) {
      Fail(fmt::format("`{}` is a list", path), "", fmt::format("append with {}+=[...]", path));
    }
    for (int64_t i = from; i < to; ++i) {
      Node& item = list.mutable_items()[static_cast<size_t>(i)];
      std::string item_path = JoinPath(path, std::to_string(i));
      if (last) {
        Change(item, item_path);
      } else {
        Walk(item, depth + 1, item_path);
      }
    }
  }

  void Last(Node& dict, const std::string& key, const std::string& path) {
    Node* mine = dict.FindMutable(key);
    switch (change_.kind) {
      case OverrideKind::kAdd:
        if (mine != nullptr) {
          Fail(fmt::format("`{}` exists already, as {}{}", path, Brief(*mine),
                           mine->Where().empty() ? "" : " (" + mine->Where() + ")"),
               "a key that doesn't exist yet", "write it without the +");
        }
        dict.Set(key, change_.value);
        ++changed_;
        return;
      case OverrideKind::kDelete:
        if (mine == nullptr)
          Unknown(dict, key, path.substr(0, path.size() - std::min(path.size(), key.size() + 1)));
        if (dropped_ != nullptr) dropped_->push_back({path, *mine, change_.origin});
        dict.Erase(key);
        ++changed_;
        return;
      case OverrideKind::kSet:
      case OverrideKind::kAppend:
        break;
    }
    if (mine == nullptr) {
      if (!MayCreate(change_.keys.size() - 1)) Unknown(dict, key, Parent());
      dict.Set(key, change_.value);
      ++changed_;
      return;
    }
    Change(*mine, path);
  }

  std::string Parent() const {
    std::string parent;
    for (size_t i = 0; i + 1 < change_.keys.size(); ++i) parent = JoinPath(parent, change_.keys[i]);
    return parent;
  }

  void Change(Node& node, const std::string& path) {
    Node before = node;
    if (change_.kind == OverrideKind::kAppend) {
      Append(node, path);
    } else if (change_.value.IsDict() && (node.IsDict() || node.IsList())) {
      Node holder = Node::Dict();
      holder.Set("v", node);
      Node over = Node::Dict();
      over.Set("v", change_.value);
      MergeInto(holder, over, "", dropped_);
      node = *holder.Find("v");
    } else {
      DoubtText(node, path);
      Node next = change_.value;
      Supersede(node, Action::kOverridden, next);
      node = std::move(next);
    }
    if (!Equal(before, node)) ++changed_;
  }

  // mmengine's --cfg-options makes a list of `k=0,1,2`; here it is a text, as in YAML.
  void DoubtText(const Node& list, const std::string& path) {
    const Node& value = change_.value;
    if (warnings_ == nullptr || !list.IsList() || !value.IsString()) return;
    const std::string& text = value.AsString();
    if (text.find(',') == std::string::npos || !change_.text.ends_with(text)) return;  // quoted
    warnings_->push_back({"override-list",
                          fmt::format("`{}` was a list and is now the text `{}`: write {}=[{}] for "
                                      "a list, or quotes around a text",
                                      path, Abridged(text, 80), path, Abridged(text, 80)),
                          change_.origin.Text()});
  }

  void Append(Node& node, const std::string& path) {
    if (!node.IsList()) {
      Fail(fmt::format("`{}` is {}, not a list", path, Brief(node)), "a list to append to", "");
    }
    Node next = node;
    next.set_history(nullptr);
    if (change_.value.IsList()) {
      for (const Node& item : change_.value.items()) next.Append(item);
    } else {
      next.Append(change_.value);
    }
    next.set_origin(change_.origin);
    Supersede(node, Action::kOverridden, next, "appended");
    node = std::move(next);
  }

  // Whether the keys up to `depth` may be made: asked for with +, or known to the schema.
  bool MayCreate(size_t depth) const {
    if (change_.kind == OverrideKind::kAdd) return true;
    if (change_.kind != OverrideKind::kSet || !options_.schema_keys) return false;
    return SchemaKnows({change_.keys.begin(), change_.keys.begin() + static_cast<long>(depth) + 1});
  }

  [[noreturn]] void Unknown(const Node& dict, const std::string& key,
                            const std::string& parent) const {
    const size_t bracket = key.find('[');  // as in Python and OmegaConf
    const Node* list = dict.Find(key.substr(0, bracket));
    if (bracket != std::string::npos && list != nullptr && list->IsList()) {
      Fail(fmt::format("nothing knows the key `{}`", JoinPath(parent, key)),
           "an element of a list after a dot",
           fmt::format("write {}.{}", JoinPath(parent, key.substr(0, bracket)),
                       key.substr(bracket + 1, key.find(']') - bracket - 1)));
    }
    std::vector<std::string> names;
    for (const Entry& entry : dict.entries()) names.push_back(entry.key);
    if (options_.schema_keys && change_.kind != OverrideKind::kDelete) {
      std::vector<std::string> keys =
          parent.empty() ? std::vector<std::string>{} : SplitPath(parent);
      for (std::string& name : SchemaNames(keys)) names.push_back(std::move(name));
    }
    std::vector<std::string> near;
    for (const std::string& name : Nearest(key, names)) near.push_back(JoinPath(parent, name));
    if (near.empty()) Elsewhere(root_, "", key, near);
    std::string next = DidYouMean(near);
    if (change_.kind == OverrideKind::kSet) {
      next += std::string(next.empty() ? "" : " ") + "To add a new key write +" + Cut(change_.text);
    }
    Fail(fmt::format("nothing knows the key `{}`", JoinPath(parent, key)),
         parent.empty() ? "a key of the config" : "a key of `" + parent + "`", next);
  }

  // The same name elsewhere in the config: `lr` for `optimizer.lr`.
  static void Elsewhere(const Node& dict, const std::string& path, const std::string& key,
                        std::vector<std::string>& near) {
    if (!dict.IsDict()) return;
    for (const Entry& entry : dict.entries()) {
      if (near.size() >= 3) return;
      std::string full = JoinPath(path, entry.key);
      if (entry.key == key) near.push_back(full);
      Elsewhere(entry.value, full, key, near);
    }
  }

  const Override& change_;
  Node& root_;
  const LoadOptions& options_;
  std::vector<Notice>* warnings_;
  std::vector<Dropped>* dropped_;
  size_t changed_ = 0;
};

}  // namespace

Override ParseOverride(std::string_view text, const std::string& source,
                       std::vector<Notice>* warnings) {
  RequireUtf8(text, source);
  Override change;
  change.text = text;
  change.origin.source = InternName(source);
  auto fail = [&](const std::string& what) {
    return UsageError({.what = fmt::format("{} in `{}`", what, Abridged(text, 80)),
                       .where = source,
                       .expected = "key=value, +key=value, ~key or key+=[value]"});
  };
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::string_view key = text;
  if (!text.empty() && text[0] == '~') {
    change.kind = OverrideKind::kDelete;
    key = text.substr(1);
    if (KeyEnd(key) != std::string_view::npos) throw fail("~ deletes and takes no value");
  } else {
    size_t end = KeyEnd(text);
    if (end == std::string_view::npos) throw fail("`=` is missing");
    key = text.substr(0, end);
    if (!key.empty() && key[0] == '+') {
      change.kind = OverrideKind::kAdd;
      key.remove_prefix(1);
      if (!key.empty() && key[0] == '+') throw fail("a key can't begin with two +");
    } else if (!key.empty() && key.back() == '+') {
      change.kind = OverrideKind::kAppend;
      key.remove_suffix(1);
    }
    std::string warning;
    change.value = ParseOverrideValue(text.substr(end + 1), source, &warning);
    SetOrigins(change.value, change.origin);
    if (!warning.empty() && warnings != nullptr)
      warnings->push_back({"leading-zero", warning, source});
  }
  while (!key.empty() && key.front() == ' ') key.remove_prefix(1);
  while (!key.empty() && key.back() == ' ') key.remove_suffix(1);
  if (key.empty()) throw fail("the key is missing");
  change.keys = SplitPath(key, source);
  for (const std::string& part : change.keys) change.path = JoinPath(change.path, part);
  return change;
}

void Apply(const Override& change, Node& root, const LoadOptions& options,
           std::vector<Notice>* warnings, std::vector<Dropped>* dropped) {
  Applier(change, root, options, warnings, dropped).Run();
}

void NoteOverridden(const std::vector<Override>& changes, std::vector<Notice>* warnings) {
  if (warnings == nullptr) return;
  // From the last to the first: the earliest later change that replaces each path.
  std::unordered_map<std::string, size_t> replaced;
  std::vector<Notice> found;
  for (size_t i = changes.size(); i > 0; --i) {
    const Override& change = changes[i - 1];
    size_t by = changes.size();
    std::string path;
    for (const std::string& key : change.keys) {
      path = JoinPath(path, key);
      auto it = replaced.find(path);
      if (it != replaced.end()) by = std::min(by, it->second);
    }
    if (by < changes.size()) {
      found.push_back({"override-overridden",
                       fmt::format("`{}` has no effect: {} sets `{}` again", Cut(change.text),
                                   changes[by].origin.Text(), changes[by].path),
                       change.origin.Text()});
    }
    if (change.kind == OverrideKind::kDelete ||
        (change.kind == OverrideKind::kSet && !change.value.IsDict()))
      replaced[change.path] = i - 1;
  }
  std::reverse(found.begin(), found.end());
  for (Notice& notice : found) warnings->push_back(std::move(notice));
}

std::string OverridePlace(const LoadOptions& options, size_t index) {
  const size_t placed = options.override_places.size();
  return index < placed ? options.override_places[index]
                        : fmt::format("--set #{}", index - placed + 1);
}

void ApplyOverrides(Node& root, const std::vector<std::string>& overrides,
                    const LoadOptions& options, std::vector<Notice>* warnings) {
  std::vector<Override> changes;
  for (size_t i = 0; i < overrides.size(); ++i) {
    changes.push_back(ParseOverride(overrides[i], OverridePlace(options, i), warnings));
    Apply(changes.back(), root, options, warnings, nullptr);
  }
  NoteOverridden(changes, warnings);
}

}  // namespace xp::config
