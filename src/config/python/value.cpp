#include "src/config/python/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/config/python/numbers.h"

namespace xp::config::python {
namespace {

constexpr size_t kIndexFrom = 12;
constexpr size_t kMostSources = 16;
constexpr int kMaxDepth = 150;
constexpr size_t kMaxKey = 1 << 20;  // of a tuple's text

}  // namespace

const char* TypeName(Type type) {
  static constexpr const char* kNames[] = {
      "None",     "bool",      "int",         "float",      "str",    "list",     "tuple",
      "dict",     "set",       "function",    "type",       "module", "ellipsis", "range",
      "iterator", "dict_keys", "dict_values", "dict_items", "int"};
  return kNames[static_cast<size_t>(type)];
}

std::string WithArticle(Type type) {
  std::string name = TypeName(type);
  if (type == Type::kNone) return name;
  return (name[0] == 'i' || name[0] == 'e' ? "an " : "a ") + name;
}

Value Value::Bool(bool value) {
  Value out;
  out.type = Type::kBool;
  out.boolean = value;
  return out;
}

Value Value::Int(int64_t value) {
  Value out;
  out.type = Type::kInt;
  out.integer = value;
  return out;
}

Value Value::Float(double value) {
  Value out;
  out.type = Type::kFloat;
  out.number = value;
  return out;
}

Value Value::String(std::string value) {
  Value out;
  out.type = Type::kString;
  out.string = std::make_shared<const std::string>(std::move(value));
  return out;
}

Value Value::Big(std::string digits) {
  Value out = String(std::move(digits));
  out.type = Type::kBig;
  return out;
}

Value Value::Module(std::string name) {
  Value out = String(std::move(name));
  out.type = Type::kModule;
  return out;
}

const DictObject::Pair* DictObject::Find(const std::string& id) const {
  return const_cast<DictObject*>(this)->Find(id);
}

DictObject::Pair* DictObject::Find(const std::string& id) {
  if (pairs.size() >= kIndexFrom) {
    auto it = index.find(id);
    return it == index.end() ? nullptr : &pairs[it->second];
  }
  for (Pair& pair : pairs) {
    if (pair.id == id) return &pair;
  }
  return nullptr;
}

Value& DictObject::Set(const Value& key, const std::string& id, Value value) {
  changed = true;
  if (Pair* pair = Find(id)) return pair->value = std::move(value);
  pairs.push_back({key, id, std::move(value)});
  if (pairs.size() == kIndexFrom) {
    for (size_t i = 0; i < pairs.size(); ++i) index[pairs[i].id] = i;
  } else if (pairs.size() > kIndexFrom) {
    index[id] = pairs.size() - 1;
  }
  return pairs.back().value;
}

bool DictObject::Erase(const std::string& id) {
  Pair* pair = Find(id);
  if (pair == nullptr) return false;
  changed = true;
  const auto place = static_cast<size_t>(pair - pairs.data());
  index.erase(id);
  pairs.erase(pairs.begin() + static_cast<long>(place));
  if (pairs.size() < kIndexFrom) {
    index.clear();
  } else if (place < pairs.size()) {
    for (auto& [key, at] : index) at -= at > place ? 1 : 0;
  }
  return true;
}

void DictObject::Clear() {
  changed = true;
  pairs.clear();
  index.clear();
}

std::string LazyAdvice(const LazyObject& lazy, const std::string& otherwise) {
  const std::string& module = lazy.module;
  const bool relative = module.starts_with('.');
  if (!relative && !module.starts_with("detectron2.config") &&
      !module.starts_with("detectron2.model_zoo") && lazy.Text() != "detectron2.model_zoo" &&
      module != "omegaconf") {
    return otherwise;
  }
  const std::string program =
      "of detectron2's LazyConfig, which is a program, give what it makes: LazyConfig.save(cfg, "
      "\"config.yaml\")";
  return relative ? "import bases inside `with read_base():`; " + program : program;
}

Value Arena::List(std::vector<Value> items, Type type) {
  budget_.bytes -= sizeof(ListObject);
  lists_.push_back({std::move(items)});
  Value out;
  out.type = type;
  out.list = &lists_.back();
  return out;
}

Value Arena::Dict(bool config) {
  budget_.bytes -= sizeof(DictObject);
  dicts_.emplace_back();
  dicts_.back().config = config;
  Value out;
  out.type = Type::kDict;
  out.dict = &dicts_.back();
  return out;
}

Value Arena::Set() {
  Value out = Dict();
  out.type = Type::kSet;
  return out;
}

Value Arena::Function(FunctionObject function) {
  budget_.bytes -= static_cast<int64_t>(sizeof(FunctionObject) + function.name.size() +
                                        function.defaults.size() * sizeof(Value) +
                                        function.captured.size() * sizeof(function.captured[0]));
  functions_.push_back(std::move(function));
  Value out;
  out.type = Type::kFunction;
  out.function = &functions_.back();
  return out;
}

Value Arena::Lazy(LazyObject lazy) {
  budget_.bytes -= static_cast<int64_t>(sizeof(LazyObject) + lazy.module.size() + lazy.name.size());
  lazies_.push_back(std::move(lazy));
  Value out;
  out.type = Type::kLazy;
  out.lazy = &lazies_.back();
  return out;
}

bool KeyId(const Value& key, std::string* id, int depth) {
  switch (key.type) {
    case Type::kString:
      *id = "s" + key.Text();
      return true;
    case Type::kNone:
      *id = "n";
      return true;
    case Type::kBool:
    case Type::kInt:
      *id = "i" + std::to_string(key.AsInt());
      return true;
    case Type::kBig:
      *id = "i" + key.Text();
      return true;
    case Type::kFloat: {  // a whole one is the same key as the int
      if (std::isnan(key.number)) return false;
      const bool whole = std::floor(key.number) == key.number;
      *id = whole && key.number >= -0x1p63 && key.number < 0x1p63
                ? "i" + std::to_string(static_cast<int64_t>(key.number))
            : whole && key.number >= 0x1p63 && key.number < 0x1p64
                ? "i" + std::to_string(static_cast<uint64_t>(key.number))
                : "f" + FloatRepr(key.number);
      return true;
    }
    case Type::kTuple: {
      if (NoOrder(key)) return false;
      *id = "t";
      for (const Value& item : key.list->items) {
        std::string part;
        if (depth > 20 || id->size() > kMaxKey || !KeyId(item, &part, depth + 1)) return false;
        *id += std::to_string(part.size()) + ":" + part;
      }
      return true;
    }
    case Type::kLazy:
      *id = "l" + key.lazy->Text();
      return true;
    default:
      return false;
  }
}

size_t Weight(const Value& value) {
  constexpr size_t kShort = 256;
  if (value.type == Type::kString) return value.Text().size() <= kShort ? 1 : value.Text().size();
  if (value.IsList()) return value.list->items.size() + 1;
  return value.IsDict() ? value.dict->pairs.size() + 1 : 1;
}

bool NoOrder(const Value& value) {
  if (value.type == Type::kSet) return value.dict->pairs.size() > 1;
  return value.IsList() && value.list->unordered && value.list->items.size() > 1;
}

bool Truthy(const Value& value) {
  switch (value.type) {
    case Type::kNone:
      return false;
    case Type::kBool:
    case Type::kInt:
      return value.AsInt() != 0;
    case Type::kFloat:
      return value.number != 0;
    case Type::kString:
      return !value.Text().empty();
    case Type::kList:
    case Type::kTuple:
    case Type::kRange:
      return !value.list->items.empty();
    case Type::kDict:
    case Type::kSet:
    case Type::kKeys:
    case Type::kValues:
    case Type::kItems:
      return !value.dict->pairs.empty();
    default:
      return true;
  }
}

namespace {

bool IsNan(const Value& value) { return value.type == Type::kFloat && std::isnan(value.number); }

void Look(Looked looked, const Value& value) {
  *looked.left -= value.type == Type::kString ? static_cast<int64_t>(Weight(value)) : 1;
  if (*looked.left < 0) throw std::string("the config takes too long to evaluate");
  if (looked.depth > kMaxDepth) throw std::string("values nested too deeply to compare");
}

bool EqualPairs(const DictObject& a, const DictObject& b, Looked looked) {
  if (a.pairs.size() != b.pairs.size()) return false;
  for (size_t i = 0; i < a.pairs.size(); ++i) {
    const DictObject::Pair& pair = a.pairs[i];
    if (a.ordered && b.ordered && b.pairs[i].id != pair.id) return false;
    const DictObject::Pair* other = b.Find(pair.id);
    if (other == nullptr || !EqualElements(pair.value, other->value, looked)) return false;
  }
  return true;
}

}  // namespace

bool Equal(const Value& a, const Value& b, Looked looked) {
  Look(looked, a);
  if (a.IsReal() && b.IsReal()) return std::is_eq(CompareNumbers(a, b));
  auto keys = [](const Value& value) {
    return value.type == Type::kSet || value.type == Type::kKeys;
  };
  if (keys(a) && keys(b)) {
    *looked.left -= static_cast<int64_t>(Weight(a));
    return a.dict->pairs.size() == b.dict->pairs.size() &&
           std::all_of(a.dict->pairs.begin(), a.dict->pairs.end(),
                       [&](const auto& pair) { return b.dict->Find(pair.id) != nullptr; });
  }
  if (a.IsView() && b.IsDict() && b.type != Type::kDict)
    throw fmt::format("{} can't be compared with {}", TypeName(a.type), TypeName(b.type));
  if (b.IsView() && a.type == Type::kSet) return Equal(b, a, looked);
  if (a.type != b.type) return false;
  const Looked inside{looked.left, looked.depth + 1};
  switch (a.type) {
    case Type::kString:
    case Type::kModule:
      return a.Text() == b.Text();
    case Type::kFunction:
      if (a.function->code == nullptr && a.function->self.type == Type::kNone)
        return b.function->code == nullptr && a.function->name == b.function->name;
      return a.function == b.function;
    case Type::kIterator:
      return a.list == b.list;
    case Type::kList:
    case Type::kTuple:
    case Type::kRange: {
      if (a.list == b.list) return true;
      if (NoOrder(a) || NoOrder(b)) throw std::string(kNoOrder);
      if (a.list->items.size() != b.list->items.size()) return false;
      for (size_t i = 0; i < a.list->items.size(); ++i) {
        if (!EqualElements(a.list->items[i], b.list->items[i], inside)) return false;
      }
      return true;
    }
    case Type::kDict:
      return a.dict == b.dict || EqualPairs(*a.dict, *b.dict, inside);
    case Type::kNone:
    case Type::kEllipsis:
      return true;
    case Type::kLazy:
      return a.lazy->Text() == b.lazy->Text();
    default:
      return false;
  }
}

bool EqualElements(const Value& a, const Value& b, Looked looked) {
  if (IsNan(a) && IsNan(b)) throw std::string("whether two NaN are one object isn't known");
  return Equal(a, b, looked);
}

std::partial_ordering Compare(const Value& a, const Value& b, Looked looked) {
  Look(looked, a);
  if (a.IsReal() && b.IsReal()) return CompareNumbers(a, b);
  if (a.type == Type::kString && b.type == Type::kString) return a.Text().compare(b.Text()) <=> 0;
  if (a.IsSequence() && a.type == b.type) {
    const Looked inside{looked.left, looked.depth + 1};
    if (NoOrder(a) || NoOrder(b)) throw std::string(kNoOrder);
    const auto& x = a.list->items;
    const auto& y = b.list->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!EqualElements(x[i], y[i], inside)) return Compare(x[i], y[i], inside);
    }
    return x.size() <=> y.size();
  }
  throw fmt::format("{} and {} can't be ordered", TypeName(a.type), TypeName(b.type));
}

Sources Join(const Sources& a, const Sources& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  auto joined = std::make_shared<std::vector<Source>>(*a);
  for (const Source& source : *b) {
    bool known = false;
    for (const Source& mine : *a) known = known || mine.path == source.path;
    if (!known && joined->size() < kMostSources) joined->push_back(source);
  }
  return joined;
}

}  // namespace xp::config::python
