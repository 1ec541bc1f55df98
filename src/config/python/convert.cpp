// Nodes into the evaluator's values and back.
#include <fmt/format.h>

#include <unordered_set>

#include "exp/base/error.h"
#include "src/config/python/evaluator.h"
#include "src/config/scalar.h"

namespace xp::config::python {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxValues = 10'000'000;

class Converter {
 public:
  Node Convert(const Value& value, int depth, size_t* weight) {
    *weight += 1;
    Node node = Content(value, depth, weight);
    node.set_origin(value.origin);
    if (value.tag != nullptr) node.set_tag(*value.tag);
    node.set_history(value.history);
    bool known = value.history != nullptr && value.history->from == value.from;
    if (value.from != nullptr && !known) {
      auto layer = std::make_shared<Layer>();
      layer->action = Action::kComputed;
      layer->at = value.origin;
      layer->value = node;
      layer->value.set_history(nullptr);
      layer->from = value.from;
      for (const Source& source : *value.from)
        layer->note += (layer->note.empty() ? "from " : ", ") + source.path;
      layer->older = value.history;
      node.set_history(std::move(layer));
    }
    return node;
  }

 private:
  [[noreturn]] static void Fail(const Value& value, const std::string& what,
                                const std::string& next = {}) {
    throw UsageError({.what = what,
                      .where = value.origin.Text(),
                      .expected = "plain values: numbers, strings, lists, dicts",
                      .next = next});
  }

  Node Content(const Value& value, int depth, size_t* weight) {
    switch (value.type) {
      case Type::kNone:
        return Node();
      case Type::kBool:
        return Node(value.boolean);
      case Type::kInt:
        return Node(value.integer);
      case Type::kFloat:
        return Node(value.number);
      case Type::kString:
        return Node(value.Text());
      case Type::kBig: {
        Node node(value.Text());
        node.set_tag(kBigInt);
        return node;
      }
      case Type::kLazy:
        return Node(value.lazy->Text());
      case Type::kList:
      case Type::kTuple:
      case Type::kRange:
      case Type::kDict:
      case Type::kSet:
        return Container(value, depth, weight);
      case Type::kIterator:
      case Type::kKeys:
      case Type::kValues:
      case Type::kItems:
        Fail(value, fmt::format("{} can't be a config value", WithArticle(value.type)),
             "make it a list: list(...)");
      default:
        Fail(value, fmt::format("{} can't be a config value", WithArticle(value.type)));
    }
  }

  // An object that several names share is converted once; its size counts each time, which stops
  // bombs.
  Node Container(const Value& value, int depth, size_t* weight) {
    const void* object = value.IsList() ? static_cast<const void*>(value.list) : value.dict;
    auto done = done_.find(object);
    if (done == done_.end()) {
      if (depth > kMaxDepth || !open_.insert(object).second)
        Fail(value, "the value is nested too deeply, or holds itself");
      size_t own = 0;
      Node node = Fresh(value, depth, &own);
      open_.erase(object);
      done = done_.emplace(object, std::make_pair(std::move(node), own)).first;
    }
    *weight += done->second.second;
    if (*weight > kMaxValues) Fail(value, "the config has more than ten million values");
    return done->second.first;
  }

  Node Fresh(const Value& value, int depth, size_t* weight) {
    if (value.IsList()) {
      if (NoOrder(value)) Fail(value, kNoOrder, kSortIt);
      std::vector<Node> items;
      items.reserve(value.list->items.size());
      for (const Value& item : value.list->items) items.push_back(Convert(item, depth + 1, weight));
      return Node::List(std::move(items));
    }
    if (value.type == Type::kSet) {
      std::vector<Node> items;
      for (const DictObject::Pair& pair : value.dict->pairs)
        items.push_back(Convert(pair.key, depth + 1, weight));
      return Node::List(std::move(items));
    }
    Node dict = Node::Dict();
    for (const DictObject::Pair& pair : value.dict->pairs) {
      const std::string key = KeyText(pair.key);
      if (pair.key.type != Type::kString && value.dict->Find("s" + key) != nullptr)
        Fail(pair.value,
             fmt::format("the dict has the keys {0} and '{0}', which a config can't tell apart",
                         key),
             "rename one");
      dict.Set(key, Convert(pair.value, depth + 1, weight));
    }
    return dict;
  }

  std::unordered_map<const void*, std::pair<Node, size_t>> done_;
  std::unordered_set<const void*> open_;
};

}  // namespace

Node ToNode(const Value& value) {
  size_t weight = 0;
  return Converter().Convert(value, 0, &weight);
}

Value FromNode(Arena& arena, const Node& node) {
  arena.budget().bytes -= sizeof(DictObject::Pair);
  if (arena.budget().bytes < 0) {
    throw UsageError(
        {.what = "the config takes more than 256 MiB to evaluate", .where = node.Where()});
  }
  Value value;
  switch (node.kind()) {
    case Kind::kNull:
      break;
    case Kind::kBool:
      value = Value::Bool(node.AsBool());
      break;
    case Kind::kInt:
      value = Value::Int(node.AsInt());
      break;
    case Kind::kFloat:
      value = Value::Float(node.AsDouble());
      break;
    case Kind::kString:
      value = node.tag() == kBigInt ? Value::Big(node.AsString()) : Value::String(node.AsString());
      break;
    case Kind::kList: {
      std::vector<Value> items;
      for (const Node& item : node.items()) items.push_back(FromNode(arena, item));
      value = arena.List(std::move(items));
      break;
    }
    case Kind::kDict:
      value = arena.Dict(true);
      for (const Entry& entry : node.entries()) {
        value.dict->Set(Value::String(entry.key), "s" + entry.key, FromNode(arena, entry.value));
      }
      break;
  }
  value.origin = node.origin();
  value.history = node.history();
  if (value.history != nullptr) value.from = value.history->from;
  if (!node.tag().empty() && value.type != Type::kBig) value.tag = InternName(node.tag());
  return value;
}

}  // namespace xp::config::python
