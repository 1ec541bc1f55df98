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

Value Evaluator::Zip(const Ast& at, const std::string& name, Arguments& arguments) {
  const std::optional<Value> strict = Keyword(arguments, "strict");
  Need(at, arguments, 0, SIZE_MAX, name);
  std::vector<std::vector<Value>> columns;
  columns.reserve(arguments.positional.size());
  for (const Value& value : arguments.positional) columns.push_back(Iterate(at, value));
  std::vector<Value> rows;
  size_t count = columns.empty() ? 0 : SIZE_MAX;
  for (const auto& column : columns) count = std::min(count, column.size());
  for (const auto& column : columns) {
    if (strict && Truthy(*strict) && column.size() != count)
      Fail(at, fmt::format("zip(strict=True) of {} and {} values", count, column.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    std::vector<Value> row;
    row.reserve(columns.size());
    for (const auto& column : columns) row.push_back(column[i]);
    rows.push_back(arena_.List(std::move(row), Type::kTuple));
  }
  return arena_.List(std::move(rows));
}

// map(f, a, b) calls f with one of each, until one of them ends.
Value Evaluator::MapFilter(const Ast& at, const std::string& name, Arguments& arguments) {
  const bool maps = name == "map";
  Need(at, arguments, 2, maps ? SIZE_MAX : 2, name);
  const auto& given = arguments.positional;
  std::vector<std::vector<Value>> columns;
  for (size_t i = 1; i < given.size(); ++i) columns.push_back(Iterate(at, given[i]));
  size_t count = SIZE_MAX;
  for (const auto& column : columns) count = std::min(count, column.size());
  std::vector<Value> items;
  for (size_t row = 0; row < count; ++row) {
    Step(at);
    Arguments call;
    for (const auto& column : columns) call.positional.push_back(column[row]);
    const bool bare = !maps && given[0].type == Type::kNone;  // filter(None, ...)
    Value result = bare ? columns[0][row] : Invoke(at, given[0], std::move(call));
    if (maps) {
      items.push_back(std::move(result));
    } else if (Truthy(result)) {
      items.push_back(columns[0][row]);
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

Value Evaluator::Sum(const Ast& at, const std::string& name, Arguments& arguments) {
  PutKeyword(arguments, "start", 1);
  Need(at, arguments, 1, 2, name);
  const auto& given = arguments.positional;
  Value total = given.size() == 2 ? given[1] : Value::Int(0);
  if (total.type == Type::kString) Fail(at, "sum() adds no strings", "join them: ''.join(...)");
  for (const Value& item : Iterate(at, given[0])) total = Binary(at, "+", total, item);
  return total;
}

Value Evaluator::Enumerate(const Ast& at, const std::string& name, Arguments& arguments) {
  PutKeyword(arguments, "start", 1);
  Need(at, arguments, 1, 2, name);
  const auto& given = arguments.positional;
  if (given.size() == 2 && !given[1].IsIntegral()) Fail(at, "enumerate() starts at an int");
  const int64_t start = given.size() == 2 ? given[1].AsInt() : 0;
  std::vector<Value> pairs;
  for (Value& item : Iterate(at, given[0])) {
    Value index = Integers(at, "+", start, static_cast<int64_t>(pairs.size()));
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

// min, max
Value Evaluator::Extreme(const Ast& at, const std::string& name, Arguments& arguments) {
  std::optional<Value> key = Keyword(arguments, "key");
  if (key && key->type == Type::kNone) key.reset();
  std::optional<Value> fallback = Keyword(arguments, "default");
  Need(at, arguments, 1, SIZE_MAX, name);
  std::vector<Value> items = arguments.positional;
  if (fallback && items.size() > 1)
    Fail(at, fmt::format("{}() of several values takes no default", name));
  if (items.size() == 1) items = Iterate(at, items[0]);
  if (items.empty() && fallback) return *fallback;
  if (items.empty()) Fail(at, fmt::format("{}() of nothing", name), "give a default");
  auto measure = [&](const Value& item) { return key ? Invoke(at, *key, {{item}, {}}) : item; };
  Value best = items[0];
  Value best_measure = measure(best);
  for (size_t i = 1; i < items.size(); ++i) {
    Value candidate = measure(items[i]);
    const std::partial_ordering order = Compare(candidate, best_measure, looked());
    if (name == "min" ? order < 0 : order > 0) {
      best = items[i];
      best_measure = candidate;
    }
  }
  return best;
}

Value Evaluator::Sorted(const Ast& at, const std::string& name, Arguments& arguments) {
  const std::optional<Value> reverse = Keyword(arguments, "reverse");
  std::optional<Value> key = Keyword(arguments, "key");
  if (key && key->type == Type::kNone) key.reset();
  Need(at, arguments, 1, 1, name);
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : Iterate(at, arguments.positional[0])) {
    Step(at);
    Value measure = key ? Invoke(at, *key, {{item}, {}}) : item;
    keyed.emplace_back(std::move(measure), std::move(item));
  }
  const bool descending = reverse && Truthy(*reverse);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const std::partial_ordering order = Compare(a.first, b.first, looked());
    if (order == std::partial_ordering::unordered) throw std::string("NaN can't be sorted");
    return descending ? order > 0 : order < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (auto& [measure, item] : keyed) sorted.push_back(std::move(item));
  return arena_.List(std::move(sorted));
}

}  // namespace xp::config::python
