// The builtins that go through values one by one. Where Python gives iterators, these give lists.
#include <fmt/format.h>

#include <algorithm>

#include "src/config/python/evaluator.h"

namespace xp::config::python {

Value Evaluator::Length(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  const Value& value = arguments.positional[0];
  if (value.type == Type::kString)
    return Value::Int(static_cast<int64_t>(Iterate(at, value).size()));
  if (value.IsSequence()) return Value::Int(static_cast<int64_t>(value.list->items.size()));
  if (value.type == Type::kDict || value.type == Type::kSet)
    return Value::Int(static_cast<int64_t>(value.dict->pairs.size()));
  Fail(at, fmt::format("{} has no length", WithArticle(value.type)));
}

// list, tuple, set, frozenset
Value Evaluator::Collect(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 0, 1, name);
  const auto& given = arguments.positional;
  std::vector<Value> items = given.empty() ? std::vector<Value>() : Iterate(at, given[0]);
  if (name == "list" || name == "tuple")
    return arena_.List(std::move(items), name == "list" ? Type::kList : Type::kTuple);
  Value set = arena_.Set();
  for (const Value& item : items) SetKey(at, *set.dict, item, Value::None());
  return set;
}

Value Evaluator::Zip(const Ast& at, const std::string&, Arguments& arguments) {
  std::vector<std::vector<Value>> columns;
  columns.reserve(arguments.positional.size());
  for (const Value& value : arguments.positional) columns.push_back(Iterate(at, value));
  std::vector<Value> rows;
  size_t count = columns.empty() ? 0 : SIZE_MAX;
  for (const auto& column : columns) count = std::min(count, column.size());
  for (size_t i = 0; i < count; ++i) {
    std::vector<Value> row;
    row.reserve(columns.size());
    for (const auto& column : columns) row.push_back(column[i]);
    rows.push_back(arena_.List(std::move(row), Type::kTuple));
  }
  return arena_.List(std::move(rows));
}

// map, filter
Value Evaluator::MapFilter(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 2, 2, name);
  const auto& given = arguments.positional;
  std::vector<Value> items;
  for (const Value& item : Iterate(at, given[1])) {
    Step(at);
    Value result = given[0].type == Type::kNone ? item : Invoke(at, given[0], {{item}, {}});
    if (name == "map") {
      items.push_back(std::move(result));
    } else if (Truthy(result)) {
      items.push_back(item);
    }
  }
  return arena_.List(std::move(items));
}

// any, all
Value Evaluator::AnyAll(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  const std::vector<Value> items = Iterate(at, arguments.positional[0]);
  return Value::Bool(name == "any" ? std::any_of(items.begin(), items.end(), Truthy)
                                   : std::all_of(items.begin(), items.end(), Truthy));
}

// The `start` of sum() and enumerate(), by place or by name.
Value Evaluator::Start(const Arguments& arguments) {
  if (arguments.positional.size() == 2) return arguments.positional[1];
  for (const auto& [word, value] : arguments.keywords) {
    if (word == "start") return value;
  }
  return Value::Int(0);
}

Value Evaluator::Sum(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 2, name);
  Value total = Start(arguments);
  for (const Value& item : Iterate(at, arguments.positional[0]))
    total = Binary(at, "+", total, item);
  return total;
}

Value Evaluator::Enumerate(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 2, name);
  const Value start = Start(arguments);
  if (!start.IsIntegral()) Fail(at, "enumerate() starts at an int");
  std::vector<Value> pairs;
  for (Value& item : Iterate(at, arguments.positional[0])) {
    Value index = Integers(at, "+", start.AsInt(), static_cast<int64_t>(pairs.size()));
    pairs.push_back(arena_.List({std::move(index), std::move(item)}, Type::kTuple));
  }
  return arena_.List(std::move(pairs));
}

Value Evaluator::Reversed(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  std::vector<Value> items = Iterate(at, arguments.positional[0]);
  std::reverse(items.begin(), items.end());
  return arena_.List(std::move(items));
}

Value Evaluator::Extreme(const Ast& at, const std::string& name, Arguments& arguments) {
  std::vector<Value> items = arguments.positional;
  if (items.size() == 1) items = Iterate(at, items[0]);
  const Value* key = nullptr;
  for (const auto& [word, value] : arguments.keywords) {
    if (word == "default" && items.empty()) return value;
    if (word == "key") key = &value;
    if (word != "default" && word != "key")
      Fail(at, fmt::format("{}() can't take the argument `{}`", name, word));
  }
  if (items.empty()) Fail(at, fmt::format("{}() of nothing", name));
  auto measure = [&](const Value& item) {
    return key == nullptr ? item : Invoke(at, *key, {{item}, {}});
  };
  Value best = items[0];
  Value best_measure = measure(best);
  for (size_t i = 1; i < items.size(); ++i) {
    Value candidate = measure(items[i]);
    int order = Compare(candidate, best_measure);
    if (name == "min" ? order < 0 : order > 0) {
      best = items[i];
      best_measure = candidate;
    }
  }
  return best;
}

Value Evaluator::Sorted(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  std::vector<Value> items = Iterate(at, arguments.positional[0]);
  bool reverse = false;
  const Value* key = nullptr;
  for (const auto& [word, value] : arguments.keywords) {
    if (word == "reverse") {
      reverse = Truthy(value);
    } else if (word == "key") {
      key = &value;
    } else {
      Fail(at, fmt::format("sorted() can't take the argument `{}`", word));
    }
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Step(at);
    Value measure =
        key == nullptr || key->type == Type::kNone ? item : Invoke(at, *key, {{item}, {}});
    keyed.emplace_back(std::move(measure), std::move(item));
  }
  // NaN makes the order inconsistent, which a merge sort survives where std::sort may not.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    int order = Compare(a.first, b.first);
    return reverse ? order > 0 : order < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (auto& [measure, item] : keyed) sorted.push_back(std::move(item));
  return arena_.List(std::move(sorted));
}

}  // namespace xp::config::python
