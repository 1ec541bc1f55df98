#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

const std::set<std::string>& Methods(Type type) {
  static const std::set<std::string> string{
      "format", "join",  "split",   "rsplit", "replace", "startswith", "endswith",
      "lower",  "upper", "strip",   "lstrip", "rstrip",  "title",      "capitalize",
      "find",   "count", "isdigit", "zfill",  "index",   "partition"};
  static const std::set<std::string> list{"append",  "extend", "insert", "pop",   "index", "copy",
                                          "reverse", "count",  "remove", "clear", "sort"};
  static const std::set<std::string> tuple{"index", "count"};
  static const std::set<std::string> dict{"update",     "pop",     "get",   "keys",
                                          "values",     "items",   "copy",  "clear",
                                          "setdefault", "popitem", "merge", "to_dict"};
  static const std::set<std::string> set{"add", "update", "union", "copy", "discard", "remove"};
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

std::string Stripped(const std::string& text, const std::string& what, bool left, bool right) {
  size_t from = left ? text.find_first_not_of(what) : 0;
  if (from == std::string::npos) return "";
  size_t to = right ? text.find_last_not_of(what) + 1 : text.size();
  return to <= from ? "" : text.substr(from, to - from);
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
  if (method.name == "add" || method.name == "discard" || method.name == "remove") {
    Need(at, arguments, 1, 1, method.name);
    if (method.name == "add") {
      SetKey(at, *self.dict, arguments.positional[0], Value::None());
    } else if (!self.dict->Erase(Id(at, arguments.positional[0])) && method.name == "remove") {
      Fail(at, "the set doesn't hold it");
    }
    return Value::None();
  }
  Value set = method.name == "update" ? self : arena_.Set();
  if (method.name != "update") UpdateDict(at, *set.dict, self, false);
  for (const Value& other : arguments.positional) {
    for (const Value& item : Iterate(at, other)) SetKey(at, *set.dict, item, Value::None());
  }
  return method.name == "update" ? Value::None() : set;
}

Value Evaluator::StringMethod(const Ast& at, const std::string& name, const Value& self,
                              Arguments& arguments) {
  const std::string& text = self.Text();
  auto& given = arguments.positional;
  auto word = [&](size_t i) -> const std::string& {
    if (i >= given.size() || given[i].type != Type::kString)
      Fail(at, fmt::format("str.{}() takes a string", name));
    return given[i].Text();
  };
  if (name == "format") return Value::String(FormatTemplate(at, text, arguments));
  if (name == "join") {
    Need(at, arguments, 1, 1, "join");
    std::string out;
    Value joined;
    bool first = true;
    Sources from;
    for (const Value& item : Iterate(at, given[0])) {
      if (item.type != Type::kString)
        Fail(at, fmt::format("str.join() takes strings, one is a {}", TypeName(item.type)));
      out += (first ? "" : text) + item.Text();
      first = false;
      from = Join(from, item.from);
      Charge(at, item.Text().size() + text.size());
    }
    joined = Value::String(std::move(out));
    joined.from = from;
    return joined;
  }
  if (name == "lower" || name == "upper" || name == "title" || name == "capitalize") {
    std::string out = text;
    bool start = true;
    for (char& c : out) {
      bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      bool up = name == "upper" || (name != "lower" && start);
      if (letter) c = static_cast<char>(up ? std::toupper(c) : std::tolower(c));
      start = name == "title" && !letter;
    }
    return Value::String(std::move(out));
  }
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    std::string what = given.empty() || given[0].type == Type::kNone ? " \t\n\r\f\v" : word(0);
    return Value::String(Stripped(text, what, name != "rstrip", name != "lstrip"));
  }
  if (name == "replace") {
    const std::string& from = word(0);
    const std::string& to = word(1);
    if (from.empty()) Fail(at, "str.replace() needs something to replace");
    std::string out;
    size_t pos = 0;
    for (size_t hit = text.find(from); hit != std::string::npos; hit = text.find(from, pos)) {
      out.append(text, pos, hit - pos).append(to);
      pos = hit + from.size();
      Charge(at, to.size() + 1);
    }
    return Value::String(out.append(text, pos));
  }
  if (name == "split" || name == "rsplit" || name == "partition") {
    if (name == "rsplit" && given.size() > 1)
      Fail(at, "str.rsplit() with a count can't be used in a config");
    std::vector<Value> parts;
    int64_t most = given.size() > 1 && given[1].IsIntegral() ? given[1].AsInt() : -1;
    if (name == "partition") most = 1;
    bool spaces = given.empty() || given[0].type == Type::kNone;
    std::string separator = spaces ? " " : word(0);
    if (separator.empty()) Fail(at, "an empty separator");
    std::string rest = spaces ? Stripped(text, " \t\n\r\f\v", true, true) : text;
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
      size_t hit = spaces ? rest.find_first_of(" \t\n\r\f\v") : rest.find(separator);
      if (hit == std::string::npos) break;
      Charge(at, sizeof(Value) + rest.size());
      parts.push_back(Value::String(rest.substr(0, hit)));
      rest = rest.substr(hit + (spaces ? 1 : separator.size()));
      if (spaces) rest = Stripped(rest, " \t\n\r\f\v", true, false);
    }
    if (name == "partition") {
      bool found = !parts.empty();
      Value head = found ? parts[0] : Value::String(rest);
      return arena_.List(
          {head, Value::String(found ? separator : ""), Value::String(found ? rest : "")},
          Type::kTuple);
    }
    if (!spaces || !rest.empty()) parts.push_back(Value::String(rest));
    return arena_.List(std::move(parts));
  }
  if (name == "isdigit") {
    return Value::Bool(!text.empty() && text.find_first_not_of("0123456789") == std::string::npos);
  }
  if (name == "zfill") {
    Need(at, arguments, 1, 1, name);
    if (!given[0].IsIntegral() || given[0].AsInt() > 1000)
      Fail(at, "str.zfill() takes an int up to 1000");
    auto width = static_cast<size_t>(std::max<int64_t>(0, given[0].AsInt()));
    bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
    std::string zeros(width > text.size() ? width - text.size() : 0, '0');
    return Value::String(sign ? text[0] + zeros + text.substr(1) : zeros + text);
  }
  if (name == "startswith" || name == "endswith") {
    Need(at, arguments, 1, 1, name);
    std::vector<Value> options =
        given[0].type == Type::kTuple ? given[0].list->items : std::vector<Value>{given[0]};
    for (const Value& option : options) {
      if (option.type != Type::kString) Fail(at, fmt::format("str.{}() takes a string", name));
      const std::string& part = option.Text();
      if (part.size() > text.size()) continue;
      size_t from = name == "startswith" ? 0 : text.size() - part.size();
      if (text.compare(from, part.size(), part) == 0) return Value::Bool(true);
    }
    return Value::Bool(false);
  }
  if (name == "count") {
    const std::string& part = word(0);
    int64_t count = 0;
    for (size_t hit = part.empty() ? std::string::npos : text.find(part); hit != std::string::npos;
         hit = text.find(part, hit + part.size()))
      ++count;
    return Value::Int(count);
  }
  size_t hit = text.find(word(0));
  if (hit == std::string::npos && name == "index") Fail(at, "str.index() finds nothing");
  return Value::Int(hit == std::string::npos ? -1 : static_cast<int64_t>(hit));
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
  if (name == "copy") return arena_.List(items);
  if (name == "reverse") {
    std::reverse(items.begin(), items.end());
    return Value::None();
  }
  if (name == "clear") {
    items.clear();
    return Value::None();
  }
  if (name == "sort") {
    items = Sorted(at, items, arguments).list->items;
    return Value::None();
  }
  Need(at, arguments, 1, 1, name);
  if (name == "count") {
    return Value::Int(std::count_if(items.begin(), items.end(),
                                    [&](const Value& item) { return Equal(item, given[0]); }));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (!Equal(items[i], given[0])) continue;
    if (name == "index") return Value::Int(static_cast<int64_t>(i));
    items.erase(items.begin() + static_cast<long>(i));
    return Value::None();
  }
  Fail(at, fmt::format("the list doesn't hold {}", Repr(given[0])));
}

Value Evaluator::DictMethod(const Ast& at, const std::string& name, const Value& self,
                            Arguments& arguments) {
  DictObject& dict = *self.dict;
  auto& given = arguments.positional;
  if (name == "update") {
    Need(at, arguments, 0, 1, name);
    if (!given.empty()) UpdateDict(at, dict, given[0], dict.config);
    Value words = arena_.Dict();
    for (auto& [word, value] : arguments.keywords)
      words.dict->Set(Value::String(word), "s" + word, std::move(value));
    UpdateDict(at, dict, words, dict.config);
    return Value::None();
  }
  if (name == "merge") {
    Need(at, arguments, 1, 1, name);
    MergeConfig(at, dict, given[0]);
    return Value::None();
  }
  if (name == "keys" || name == "values" || name == "items") {
    std::vector<Value> items;
    for (const DictObject::Pair& pair : dict.pairs) {
      items.push_back(name == "keys"     ? pair.key
                      : name == "values" ? pair.value
                                         : arena_.List({pair.key, pair.value}, Type::kTuple));
    }
    Charge(at, items.size() * sizeof(Value));
    return arena_.List(std::move(items));
  }
  if (name == "copy" || name == "to_dict") {
    Value copy = arena_.Dict(name == "copy" && dict.config);
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
  for (auto& [word, value] : arguments.keywords) {
    if (word == "default") given.push_back(value);
  }
  Need(at, arguments, 1, 2, name);
  std::string id = Id(at, given[0]);
  DictObject::Pair* pair = dict.Find(id);
  if (pair != nullptr) {
    Value value = pair->value;
    if (name == "pop") dict.Erase(id);
    return value;
  }
  Value fallback = given.size() > 1 ? given[1] : Value::None();
  if (name == "setdefault") SetKey(at, dict, given[0], fallback);
  // A ConfigDict's pop never fails; a plain dict's does without a default.
  if (name == "pop" && given.size() == 1 && !dict.config)
    Fail(at, fmt::format("the dict has no key {}", Repr(given[0])));
  return fallback;
}

}  // namespace xp::config::python
