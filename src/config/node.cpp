#include "exp/config/node.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <mutex>
#include <unordered_set>

#include "exp/base/error.h"
#include "exp/base/utf8.h"

namespace xp::config {

const char* KindName(Kind kind) {
  static constexpr const char* kNames[] = {"null",     "a bool", "an int", "a float",
                                           "a string", "a list", "a dict"};
  return kNames[static_cast<size_t>(kind)];
}

const char* ActionName(Action action) {
  static constexpr const char* kNames[] = {"written",    "computed",     "merged",
                                           "overridden", "interpolated", "deleted"};
  return kNames[static_cast<size_t>(action)];
}

const std::string* InternName(std::string_view name) {
  static std::mutex mutex;
  static std::unordered_set<std::string> names;  // nodes don't move when it grows
  std::lock_guard lock(mutex);
  return &*names.emplace(name).first;
}

std::string Origin::Text() const {
  if (source == nullptr) return "";
  if (line == 0) return *source;
  return *source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

struct Node::ListData {
  std::vector<Node> items;
};

// Keys in order, and past kIndexFrom entries an open-addressing table of positions, so that a
// config with 100,000 keys still loads in linear time. The table keeps part of each hash: a probe
// reads a key only when it may be the one.
struct Node::DictData {
  static constexpr size_t kIndexFrom = 12;
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Cell {
    uint32_t entry = kFree;
    uint32_t hash = 0;
  };
  std::vector<Entry> entries;
  std::vector<Cell> table;

  static size_t Hash(std::string_view key) { return std::hash<std::string_view>()(key); }
  size_t Slot(std::string_view key, size_t hash) const {
    size_t mask = table.size() - 1;
    size_t slot = hash & mask;
    while (table[slot].entry != kFree && (table[slot].hash != static_cast<uint32_t>(hash >> 32) ||
                                          entries[table[slot].entry].key != key)) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }
  void Index(size_t entry) {
    size_t hash = Hash(entries[entry].key);
    table[Slot(entries[entry].key, hash)] = {static_cast<uint32_t>(entry),
                                             static_cast<uint32_t>(hash >> 32)};
  }
  void Reindex() {
    table.clear();
    if (entries.size() <= kIndexFrom) return;
    size_t size = 64;
    while (size < entries.size() * 3) size *= 2;
    table.assign(size, Cell());
    for (size_t i = 0; i < entries.size(); ++i) Index(i);
  }
  Entry* Find(std::string_view key) {
    if (table.empty()) {
      auto it = std::find_if(entries.begin(), entries.end(),
                             [&](const Entry& entry) { return entry.key == key; });
      return it == entries.end() ? nullptr : &*it;
    }
    uint32_t at = table[Slot(key, Hash(key))].entry;
    return at == kFree ? nullptr : &entries[at];
  }
  Node& Add(std::string_view key, Node value) {
    entries.push_back({std::string(key), std::move(value)});
    if (entries.size() * 2 > table.size()) {
      Reindex();
    } else if (!table.empty()) {
      Index(entries.size() - 1);
    }
    return entries.back().value;
  }
};

Node Node::List(std::vector<Node> items) {
  Node node;
  node.value_ = std::make_shared<ListData>(ListData{std::move(items)});
  return node;
}

Node Node::Dict() {
  Node node;
  node.value_ = std::make_shared<DictData>();
  return node;
}

size_t Node::size() const {
  if (IsList()) return items().size();
  return IsDict() ? entries().size() : 0;
}

const std::vector<Node>& Node::items() const {
  return std::get<std::shared_ptr<ListData>>(value_)->items;
}

std::vector<Node>& Node::mutable_items() {
  auto& data = std::get<std::shared_ptr<ListData>>(value_);
  if (data.use_count() > 1) data = std::make_shared<ListData>(*data);
  return data->items;
}

const std::vector<Entry>& Node::entries() const {
  return std::get<std::shared_ptr<DictData>>(value_)->entries;
}

Node::DictData& Node::MutableDict() {
  auto& data = std::get<std::shared_ptr<DictData>>(value_);
  if (data.use_count() > 1) data = std::make_shared<DictData>(*data);
  return *data;
}

const Node* Node::Find(std::string_view key) const {
  if (!IsDict()) return nullptr;
  const Entry* entry = std::get<std::shared_ptr<DictData>>(value_)->Find(key);
  return entry == nullptr ? nullptr : &entry->value;
}

Node* Node::FindMutable(std::string_view key) {
  if (Find(key) == nullptr) return nullptr;
  return &MutableDict().Find(key)->value;
}

Node& Node::Set(std::string_view key, Node value) {
  DictData& dict = MutableDict();
  if (Entry* entry = dict.Find(key)) return entry->value = std::move(value);
  return dict.Add(key, std::move(value));
}

bool Node::Erase(std::string_view key) {
  if (Find(key) == nullptr) return false;
  DictData& dict = MutableDict();
  dict.entries.erase(dict.entries.begin() + (dict.Find(key) - dict.entries.data()));
  dict.Reindex();
  return true;
}

const Node* Node::At(std::string_view path) const {
  const Node* node = this;
  for (const std::string& key : SplitPath(path)) {
    if (node->IsList()) {
      int64_t index = 0;
      auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc() || end != key.data() + key.size()) return nullptr;
      if (index < 0) index += static_cast<int64_t>(node->size());
      if (index < 0 || index >= static_cast<int64_t>(node->size())) return nullptr;
      node = &node->items()[static_cast<size_t>(index)];
    } else {
      node = node->Find(key);
    }
    if (node == nullptr) return nullptr;
  }
  return node;
}

std::vector<Layer> Node::History() const {
  std::vector<Layer> layers;
  for (const Layer* layer = history_.get(); layer != nullptr; layer = layer->older.get()) {
    layers.push_back(*layer);
    layers.back().older = nullptr;
  }
  std::reverse(layers.begin(), layers.end());
  if (layers.empty()) {
    Layer only;
    only.at = origin_;
    only.value = *this;
    layers.push_back(std::move(only));
  }
  return layers;
}

Layer::~Layer() {
  std::shared_ptr<const Layer> next = std::move(older);
  // Takes the chain apart link by link; without this each link would free the next from its own
  // destructor.
  while (next != nullptr && next.use_count() == 1) {
    std::shared_ptr<const Layer> after = std::move(const_cast<Layer&>(*next).older);
    next = std::move(after);
  }
}

void Supersede(const Node& before, Action action, Node& next, std::string note) {
  auto snapshot = [](const Node& node) {
    Node copy = node;
    copy.set_history(nullptr);
    return copy;
  };
  std::shared_ptr<const Layer> older = before.history();
  if (older == nullptr) {
    auto first = std::make_shared<Layer>();
    first->at = before.origin();
    first->value = snapshot(before);
    older = std::move(first);
  }
  // A value that has layers of its own (it was resolved in its own file first) keeps them, above
  // before's.
  std::vector<Layer> own;
  if (next.history() != nullptr) {
    own = next.History();
  } else {
    Layer layer;
    layer.at = next.origin();
    if (action != Action::kMerged) layer.value = snapshot(next);
    own.push_back(std::move(layer));
  }
  own.back().action = action;
  if (!note.empty()) own.back().note = std::move(note);
  for (Layer& layer : own) {
    auto link = std::make_shared<Layer>(std::move(layer));
    link->older = std::move(older);
    older = std::move(link);
  }
  next.set_history(std::move(older));
}

namespace {

bool EqualDicts(const Node& a, const Node& b) {
  for (const Entry& entry : a.entries()) {
    const Node* other = b.Find(entry.key);
    if (other == nullptr || !Equal(entry.value, *other)) return false;
  }
  return true;
}

}  // namespace

bool Equal(const Node& a, const Node& b) {
  if (a.kind() != b.kind() || a.tag() != b.tag()) return false;
  switch (a.kind()) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
      return a.AsBool() == b.AsBool();
    case Kind::kInt:
      return a.AsInt() == b.AsInt();
    case Kind::kFloat:
      return a.AsDouble() == b.AsDouble() || (std::isnan(a.AsDouble()) && std::isnan(b.AsDouble()));
    case Kind::kString:
      return a.AsString() == b.AsString();
    case Kind::kList:
      return &a.items() == &b.items() ||
             std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                        [](const Node& x, const Node& y) { return Equal(x, y); });
    case Kind::kDict:
      return &a.entries() == &b.entries() || (a.size() == b.size() && EqualDicts(a, b));
  }
  return false;
}

namespace {

constexpr size_t kMostKeys = 200;

}  // namespace

std::vector<std::string> SplitPath(std::string_view path, const std::string& where) {
  std::vector<std::string> keys;
  if (path.empty()) return keys;
  auto bad = [&](const std::string& what) {
    return UsageError(
        {.what = what + " in the key `" + Abridged(path, 200) + "`",
         .where = where,
         .expected = "names joined by dots, such as optimizer.lr or a.0.\"key.with.dots\""});
  };
  for (size_t at = 0; at <= path.size(); ++at) {
    std::string key;
    if (at < path.size() && (path[at] == '"' || path[at] == '\'')) {
      char quote = path[at++];
      while (at < path.size() && path[at] != quote) {
        if (path[at] == '\\' && quote == '"' && at + 1 < path.size()) ++at;
        key += path[at++];
      }
      if (at == path.size()) throw bad("a quote isn't closed");
      ++at;
      if (at < path.size() && path[at] != '.') throw bad("a dot is missing after a quoted name");
    } else {
      while (at < path.size() && path[at] != '.') key += path[at++];
      if (key.empty()) throw bad("a name is empty");
    }
    keys.push_back(std::move(key));
    // Trees are no deeper than 100; joining the names again and again is quadratic.
    if (keys.size() > kMostKeys) throw bad("more than 200 names");
  }
  return keys;
}

std::string JoinPath(std::string_view prefix, std::string_view key) {
  bool plain = !key.empty() && key.find_first_of(".\"'=\\ \n") == std::string_view::npos;
  std::string out(prefix);
  if (!out.empty()) out += '.';
  if (plain) return out.append(key);
  out += '"';
  for (char c : key) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace xp::config
