#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

const std::set<std::string>& Methods(Type type) {
  static const std::set<std::string> string{
      "format",  "format_map", "join",      "split",       "rsplit",     "splitlines",
      "replace", "startswith", "endswith",  "lower",       "upper",      "casefold",
      "strip",   "lstrip",     "rstrip",    "title",       "capitalize", "swapcase",
      "find",    "rfind",      "index",     "rindex",      "count",      "zfill",
      "center",  "ljust",      "rjust",     "partition",   "rpartition", "removeprefix",
      "isdigit", "isdecimal",  "isnumeric", "isalpha",     "isalnum",    "removesuffix",
      "isspace", "isupper",    "islower",   "isidentifier"};
  static const std::set<std::string> list{"append",  "extend", "insert", "pop",   "index", "copy",
                                          "reverse", "count",  "remove", "clear", "sort"};
  static const std::set<std::string> tuple{"index", "count"};
  static const std::set<std::string> dict{"update",     "pop",     "get",   "keys",
                                          "values",     "items",   "copy",  "clear",
                                          "setdefault", "popitem", "merge", "to_dict"};
  static const std::set<std::string> set{"add",     "update",       "union",      "copy",
                                         "discard", "intersection", "difference", "remove"};
  static const std::set<std::string> none;
  switch (type) {
    case Type::kString:
      return string;
    case Type::kList:
      return list;
    case Type::kTuple:
      return tuple;
    case Type::kDict:
      return dict;
    case Type::kSet:
      return set;
    default:
      return none;
  }
}

}  // namespace

bool Evaluator::HasMethod(const Value& object, const std::string& name) {
  return Methods(object.type).count(name) > 0;
}

Value Evaluator::Method(const Ast& at, const FunctionObject& method, Arguments& arguments) {
  const Value& self = method.self;
  switch (self.type) {
    case Type::kString:
      return StringMethod(at, method.name, self, arguments);
    case Type::kList:
    case Type::kTuple:
      return ListMethod(at, method.name, self, arguments);
    case Type::kDict:
      return DictMethod(at, method.name, self, arguments);
    default:
      break;
  }
  return SetMethod(at, method.name, self, arguments);
}

Value Evaluator::SetMethod(const Ast& at, const std::string& name, const Value& self,
                           Arguments& arguments) {
  if (name == "add" || name == "discard" || name == "remove") {
    Need(at, arguments, 1, 1, name);
    if (name == "add") {
      SetKey(at, *self.dict, arguments.positional[0], Value::None());
    } else if (!EraseKey(at, self, Id(at, arguments.positional[0])) && name == "remove") {
      Fail(at, "the set doesn't hold it");
    }
    return Value::None();
  }
  Need(at, arguments, 0, SIZE_MAX, name);
  if (name == "copy") NeedCount(at, arguments, 0, 0, name);
  Value set = name == "update" ? self : arena_.Set();
  if (name != "update") AddAll(at, set, self);
  for (const Value& other : arguments.positional) {
    Value right = arena_.Set();
    AddAll(at, right, other);
    if (name == "intersection" || name == "difference") {
      set = Sets(at, name == "intersection" ? "&" : "-", set, right);
    } else {
      AddAll(at, set, right);
    }
  }
  return name == "update" ? Value::None() : set;
}

Value Evaluator::ListMethod(const Ast& at, const std::string& name, const Value& self,
                            Arguments& arguments) {
  auto& items = self.list->items;
  auto& given = arguments.positional;
  if (name == "append") {
    Need(at, arguments, 1, 1, name);
    Charge(at, sizeof(Value));
    items.push_back(given[0]);
    return Value::None();
  }
  if (name == "extend") {
    Need(at, arguments, 1, 1, name);
    std::vector<Value> more = Iterate(at, given[0]);
    items.insert(items.end(), more.begin(), more.end());
    return Value::None();
  }
  if (name == "insert" || name == "pop" || name == "index") RequireOrder(at, self);
  if (name == "insert" || name == "reverse" || name == "remove" ||
      (name == "pop" && !given.empty()))
    Look(at, self);  // what stands behind moves
  if (name == "insert") {
    Need(at, arguments, 2, 2, name);
    if (!given[0].IsIntegral()) Fail(at, "list.insert() takes an index");
    auto count = static_cast<int64_t>(items.size());
    int64_t index = given[0].AsInt() < 0 ? given[0].AsInt() + count : given[0].AsInt();
    index = std::min(std::max<int64_t>(index, 0), count);
    Charge(at, sizeof(Value));
    items.insert(items.begin() + index, given[1]);
    return Value::None();
  }
  if (name == "pop") {
    Need(at, arguments, 0, 1, name);
    if (!given.empty() && !given[0].IsIntegral()) Fail(at, "list.pop() takes an index");
    size_t index = Position(at, given.empty() ? -1 : given[0].AsInt(), items.size());
    Value value = items[index];
    items.erase(items.begin() + static_cast<long>(index));
    return value;
  }
  const bool bare = name == "copy" || name == "reverse" || name == "clear";
  if (bare) Need(at, arguments, 0, 0, name);
  if (name == "copy") {
    Charge(at, items.size() * sizeof(Value));
    return ListLike(self, items);
  }
  if (name == "reverse") {
    std::reverse(items.begin(), items.end());
    return Value::None();
  }
  if (name == "clear") {
    items.clear();
    return Value::None();
  }
  if (name == "sort") {
    NeedCount(at, arguments, 0, 0, name);
    Arguments sorted{{self}, arguments.keywords};
    items = Sorted(at, name, sorted).list->items;
    self.list->unordered = false;
    return Value::None();
  }
  Need(at, arguments, 1, name == "index" ? 3 : 1, name);
  if (name == "count") {
    return Value::Int(std::count_if(items.begin(), items.end(), [&](const Value& item) {
      return EqualElements(item, given[0], looked());
    }));
  }
  SliceParts part;  // of index()
  if (given.size() > 1) part.from = given[1];
  if (given.size() > 2) part.to = given[2];
  const SliceBounds within = Bounds(at, part, items.size());
  for (int64_t i = within.from; i < within.to; ++i) {
    if (!EqualElements(items[static_cast<size_t>(i)], given[0], looked())) continue;
    if (name == "index") return Value::Int(i);
    items.erase(items.begin() + i);
    return Value::None();
  }
  Fail(at, fmt::format("the list doesn't hold {}", Shown(given[0])));
}

Value Evaluator::DictMethod(const Ast& at, const std::string& name, const Value& self,
                            Arguments& arguments) {
  DictObject& dict = *self.dict;
  auto& given = arguments.positional;
  if (name == "update") {
    NeedCount(at, arguments, 0, 1, name);
    if (!given.empty()) UpdateDict(at, dict, given[0], dict.config);
    Value words = arena_.Dict();
    for (auto& [word, value] : arguments.keywords)
      words.dict->Set(Value::String(word), "s" + word, std::move(value));
    UpdateDict(at, dict, words, dict.config);
    return Value::None();
  }
  if (name == "merge") {
    Need(at, arguments, 1, 1, name);
    // mmengine builds the dict anew: what names a dict in it keeps the old one.
    Copies copies;
    const Value merged = DeepCopy(at, self, copies);
    MergeConfig(at, *merged.dict, given[0]);
    dict.Clear();
    for (const DictObject::Pair& pair : merged.dict->pairs) dict.Set(pair.key, pair.id, pair.value);
    return Value::None();
  }
  const bool bare = name == "keys" || name == "values" || name == "items" || name == "copy" ||
                    name == "to_dict" || name == "clear" || name == "popitem";
  if (bare) Need(at, arguments, 0, 0, name);
  if (name == "keys" || name == "values" || name == "items") {
    Value view = self;
    view.type = name == "keys" ? Type::kKeys : name == "values" ? Type::kValues : Type::kItems;
    // A ConfigDict's values() and items() are lists.
    return dict.config && name != "keys" ? arena_.List(Iterate(at, view)) : view;
  }
  if (name == "to_dict") return PlainCopy(at, self);
  if (name == "copy") {
    Value copy = DictLike(dict);
    UpdateDict(at, *copy.dict, self, false);
    return copy;
  }
  if (name == "clear") {
    dict.Clear();
    return Value::None();
  }
  if (name == "popitem") {
    if (dict.pairs.empty()) Fail(at, "the dict is empty");
    DictObject::Pair last = dict.pairs.back();
    dict.Erase(last.id);
    return arena_.List({last.key, last.value}, Type::kTuple);
  }
  // pop, get, setdefault: a key and perhaps a default.
  if (dict.config) PutKeyword(arguments, "default", 1);
  Need(at, arguments, 1, 2, name);
  std::string id = Id(at, given[0]);
  DictObject::Pair* pair = dict.Find(id);
  if (pair != nullptr) {
    Value value = pair->value;
    if (name == "pop") EraseKey(at, self, id);
    return value;
  }
  Value fallback = given.size() > 1 ? given[1] : Value::None();
  if (name == "setdefault") SetKey(at, dict, given[0], dict.config ? Hook(at, fallback) : fallback);
  // A ConfigDict's pop never fails; a plain dict's does without a default.
  if (name == "pop" && given.size() == 1 && !dict.config)
    Fail(at, fmt::format("the dict has no key {}", Shown(given[0])));
  return fallback;
}

}  // namespace xp::config::python
