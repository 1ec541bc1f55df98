// Dicts and sets: making, updating, merging, copying.
#include <fmt/format.h>

#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

constexpr int kMaxCopy = 150;

}  // namespace

Value Evaluator::DictLike(const DictObject& other) {
  Value dict = arena_.Dict(other.config);
  dict.dict->ordered = other.ordered;
  return dict;
}

void Evaluator::AddAll(const Ast& at, const Value& set, const Value& from) {
  for (const Value& item : Members(at, from)) SetKey(at, *set.dict, item, Value::None());
}

Value Evaluator::DeepCopy(const Ast& at, const Value& value, Copies& done, int depth) {
  if (depth > kMaxCopy) Fail(at, "the value is nested too deeply, or holds itself");
  Step(at);
  if (value.type == Type::kIterator || value.IsView())
    Fail(at, fmt::format("{} can't be copied", WithArticle(value.type)),
         "make it a list: list(...)");
  const bool dict = value.type == Type::kDict || value.type == Type::kSet;
  if (!value.IsSequence() && !dict) return value;
  const void* object = dict ? static_cast<const void*>(value.dict) : value.list;
  Value out = value;
  if (auto known = done.find(object); known != done.end()) {
    if (dict) {
      out.dict = known->second.dict;
    } else {
      out.list = known->second.list;
    }
    return out;
  }
  if (!dict) {
    out.list = ListLike(value, {}).list;
    done[object] = out;
    Charge(at, value.list->items.size() * sizeof(Value));
    for (const Value& item : value.list->items)
      out.list->items.push_back(DeepCopy(at, item, done, depth + 1));
    return out;
  }
  out.dict = DictLike(*value.dict).dict;
  done[object] = out;
  Charge(at, value.dict->pairs.size() * sizeof(DictObject::Pair));
  for (const DictObject::Pair& pair : value.dict->pairs) {
    Value copy = DeepCopy(at, pair.value, done, depth + 1);
    out.dict->Set(pair.key, pair.id, value.dict->config ? Hook(at, copy) : std::move(copy));
  }
  return out;
}

// All dicts in it plain ones, imported names their dotted texts.
Value Evaluator::PlainCopy(const Ast& at, const Value& value, int depth) {
  if (depth > kMaxCopy) Fail(at, "the value is nested too deeply, or holds itself");
  Step(at);
  Value out = value;
  if (value.type == Type::kLazy) {
    out = Value::String(value.lazy->Text());
    out.origin = value.origin;
  } else if (value.IsSequence()) {
    out.list = ListLike(value, {}).list;
    Charge(at, value.list->items.size() * sizeof(Value));
    for (const Value& item : value.list->items)
      out.list->items.push_back(PlainCopy(at, item, depth + 1));
  } else if (value.type == Type::kDict) {
    out.dict = arena_.Dict().dict;
    Charge(at, value.dict->pairs.size() * sizeof(DictObject::Pair));
    for (const DictObject::Pair& pair : value.dict->pairs)
      out.dict->Set(pair.key, pair.id, PlainCopy(at, pair.value, depth + 1));
  }
  return out;
}

// left | right of dicts. Of ConfigDicts it copies, and goes into the dicts that both have.
Value Evaluator::Merged(const Ast& at, const Value& left, const Value& right) {
  const bool config = left.dict->config || right.dict->config;
  Value merged = arena_.Dict(config);
  if (config) {
    Copies copies;
    UpdateDict(at, *merged.dict, DeepCopy(at, left, copies), false);
  } else {
    UpdateDict(at, *merged.dict, left, false);
  }
  UpdateDict(at, *merged.dict, right, config);
  return merged;
}

// dict.update; a ConfigDict's goes into dicts that both have.
void Evaluator::UpdateDict(const Ast& at, DictObject& dict, const Value& from, bool recursive,
                           int depth) {
  if (depth > kMaxCopy) Fail(at, "the value is nested too deeply, or holds itself");
  if (from.type != Type::kDict) {
    for (const Value& pair : Iterate(at, from)) {
      std::vector<Value> parts = Iterate(at, pair);
      if (parts.size() != 2) Fail(at, "a dict is made of pairs");
      SetKey(at, dict, parts[0], parts[1]);
    }
    return;
  }
  for (const DictObject::Pair& pair : std::vector<DictObject::Pair>(from.dict->pairs)) {
    Step(at);
    DictObject::Pair* mine = recursive ? dict.Find(pair.id) : nullptr;
    if (mine != nullptr && mine->value.type == Type::kDict && pair.value.type == Type::kDict) {
      UpdateDict(at, *mine->value.dict, pair.value, true, depth + 1);
      dict.changed = true;
    } else {
      SetKey(at, dict, pair.key, dict.config ? Hook(at, pair.value) : pair.value);
    }
  }
}

// ConfigDict.merge: as the merging of files, `_delete_` included.
void Evaluator::MergeConfig(const Ast& at, DictObject& dict, const Value& from, int depth) {
  if (depth > kMaxCopy) Fail(at, "the value is nested too deeply, or holds itself");
  if (from.type != Type::kDict) Fail(at, "merge() takes a dict");
  const DictObject::Pair* flag = from.dict->Find("s_delete_");
  if (flag != nullptr && Truthy(flag->value)) dict.Clear();
  for (const DictObject::Pair& pair : std::vector<DictObject::Pair>(from.dict->pairs)) {
    if (pair.id == "s_delete_") continue;
    Step(at);
    DictObject::Pair* mine = dict.Find(pair.id);
    bool both =
        mine != nullptr && mine->value.type == Type::kDict && pair.value.type == Type::kDict;
    if (both) {
      dict.changed = true;
      MergeConfig(at, *mine->value.dict, pair.value, depth + 1);
      continue;
    }
    Copies copies;
    Value value = Hook(at, DeepCopy(at, pair.value, copies));
    if (value.type == Type::kDict) value.dict->Erase("s_delete_");
    SetKey(at, dict, pair.key, std::move(value));
  }
}

// dict, OrderedDict, ConfigDict
Value Evaluator::MakeDict(const Ast& at, const std::string& name, Arguments& arguments) {
  NeedCount(at, arguments, 0, 1, name);
  Value dict = arena_.Dict(name == "ConfigDict");
  dict.dict->ordered = name == "collections.OrderedDict";
  if (!arguments.positional.empty()) UpdateDict(at, *dict.dict, arguments.positional[0], false);
  for (auto& [key, value] : arguments.keywords) {
    Charge(at, sizeof(DictObject::Pair));
    dict.dict->Set(Value::String(key), "s" + key,
                   dict.dict->config ? Hook(at, value) : std::move(value));
  }
  return dict;
}

}  // namespace xp::config::python
