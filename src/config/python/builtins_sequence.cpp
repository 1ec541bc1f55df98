// The builtins that go through values one by one. Where Python's work while they are gone through,
// these have done so before.
#include <fmt/format.h>

#include <algorithm>

#include "src/config/python/evaluator.h"
#include "src/config/python/text_search.h"

namespace xp::config::python {

Value Evaluator::Length(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  const Value& value = arguments.positional[0];
  size_t count = 0;
  if (value.type == Type::kString) {
    count = CountCharacters(value.Text());
  } else if (value.IsSequence() || value.type == Type::kRange) {
    count = value.list->items.size();
  } else if (value.IsDict()) {
    count = value.dict->pairs.size();
  } else {
    Fail(at, fmt::format("{} has no length", WithArticle(value.type)),
         value.type == Type::kIterator ? "make it a list: list(...)" : "");
  }
  return Value::Int(static_cast<int64_t>(count));
}

// list, tuple, set
Value Evaluator::Collect(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 0, 1, name);
  const auto& given = arguments.positional;
  if (name == "set") {
    Value set = arena_.Set();
    if (!given.empty()) AddAll(at, set, given[0]);
    return set;
  }
  const bool unordered = !given.empty() && NoOrder(given[0]);
  Value list = arena_.List(given.empty() ? std::vector<Value>() : Members(at, given[0]),
                           name == "list" ? Type::kList : Type::kTuple);
  list.list->unordered = unordered;
  return list;
}

// One of each, in their order; nothing from the first that has ended, like zip().
std::optional<std::vector<Value>> Evaluator::Row(const Ast& at, std::vector<Cursor>& columns) {
  std::vector<Value> row;
  row.reserve(columns.size());
  for (Cursor& column : columns) {
    Value item;
    if (!Next(at, column, &item)) return std::nullopt;
    row.push_back(std::move(item));
  }
  Charge(at, row.size() * sizeof(Value));
  return row;
}

Value Evaluator::Zip(const Ast& at, const std::string& name, Arguments& arguments) {
  const std::optional<Value> strict = Keyword(arguments, "strict");
  Need(at, arguments, 0, SIZE_MAX, name);
  const auto& given = arguments.positional;
  if (given.empty()) return Iterator({});
  std::vector<Value> rows;
  if (strict && Truthy(*strict)) {
    std::vector<std::vector<Value>> columns;
    columns.reserve(given.size());
    for (const Value& value : given) columns.push_back(Iterate(at, value));
    for (const auto& column : columns) {
      if (column.size() != columns[0].size())
        Fail(at,
             fmt::format("zip(strict=True) of {} and {} values", columns[0].size(), column.size()));
    }
    for (size_t i = 0; i < columns[0].size(); ++i) {
      std::vector<Value> row;
      row.reserve(columns.size());
      for (const auto& column : columns) row.push_back(column[i]);
      Charge(at, row.size() * sizeof(Value));
      rows.push_back(arena_.List(std::move(row), Type::kTuple));
    }
    return Iterator(std::move(rows));
  }
  std::vector<Cursor> columns;
  for (const Value& value : given) {
    RequireOrder(at, value);
    columns.push_back(Begin(at, value));
  }
  while (std::optional<std::vector<Value>> row = Row(at, columns))
    rows.push_back(arena_.List(*std::move(row), Type::kTuple));
  return Iterator(std::move(rows));
}

// map(f, a, b) calls f with one of each, until one of them ends.
Value Evaluator::Map(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 2, SIZE_MAX, name);
  const auto& given = arguments.positional;
  const bool unordered = given.size() == 2 && NoOrder(given[1]);
  std::vector<Cursor> columns;
  for (size_t i = 1; i < given.size(); ++i) {
    if (!unordered) RequireOrder(at, given[i]);
    columns.push_back(Begin(at, given[i]));
  }
  std::vector<Value> items;
  while (std::optional<std::vector<Value>> row = Row(at, columns)) {
    Step(at);
    items.push_back(Invoke(at, given[0], {*std::move(row), {}}));
  }
  return Iterator(std::move(items), unordered);
}

Value Evaluator::Filter(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 2, 2, name);
  const auto& given = arguments.positional;
  std::vector<Value> kept;
  for (Value& item : Members(at, given[1])) {
    Step(at);
    const bool bare = given[0].type == Type::kNone;
    if (Truthy(bare ? item : Invoke(at, given[0], {{item}, {}}))) kept.push_back(std::move(item));
  }
  return Iterator(std::move(kept), NoOrder(given[1]));
}

// any and all stop at the first that decides.
Value Evaluator::AnyAll(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  const bool any = name == "any";
  Cursor cursor = Begin(at, arguments.positional[0]);
  for (Value item; Next(at, cursor, &item);) {
    if (Truthy(item) == any) return Value::Bool(any);
  }
  return Value::Bool(!any);
}

Value Evaluator::Sum(const Ast& at, const std::string& name, Arguments& arguments) {
  PutKeyword(arguments, "start", 1);
  Need(at, arguments, 1, 2, name);
  const auto& given = arguments.positional;
  Value total = given.size() == 2 ? given[1] : Value::Int(0);
  if (total.type == Type::kString) Fail(at, "sum() adds no strings", "join them: ''.join(...)");
  const bool unordered = NoOrder(given[0]);
  for (const Value& item : Members(at, given[0])) {
    if (unordered && !item.IsIntegral()) Fail(at, kNoOrder, kSortIt);  // floats round on the way
    total = Binary(at, "+", total, item);
  }
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
    Charge(at, 2 * sizeof(Value));
    Value index = Integers(at, "+", start, static_cast<int64_t>(pairs.size()));
    pairs.push_back(arena_.List({std::move(index), std::move(item)}, Type::kTuple));
  }
  return Iterator(std::move(pairs));
}

Value Evaluator::Reversed(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  const Value& whole = arguments.positional[0];
  if (whole.type == Type::kSet || whole.type == Type::kIterator)
    Fail(at, fmt::format("{} can't be reversed", WithArticle(whole.type)),
         "make it a list: list(...)");
  std::vector<Value> items = Iterate(at, whole);
  std::reverse(items.begin(), items.end());
  return Iterator(std::move(items));
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
  if (items.size() == 1) {
    if (key) RequireOrder(at, items[0]);  // the first of those that measure the same
    items = Members(at, items[0]);
  }
  if (items.empty() && fallback) return *fallback;
  if (items.empty()) Fail(at, fmt::format("{}() of nothing", name), "give a default");
  auto measure = [&](const Value& item) { return key ? Invoke(at, *key, {{item}, {}}) : item; };
  Value best = items[0];
  Value best_measure = measure(best);
  for (size_t i = 1; i < items.size(); ++i) {
    Value candidate = measure(items[i]);
    const std::partial_ordering order = Compare(candidate, best_measure, looked());
    if (name == "min" ? std::is_lt(order) : std::is_gt(order)) {
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
  const bool unordered = key && NoOrder(arguments.positional[0]);
  for (Value& item : Members(at, arguments.positional[0])) {
    Step(at);
    Value measure = key ? Invoke(at, *key, {{item}, {}}) : item;
    keyed.emplace_back(std::move(measure), std::move(item));
  }
  const bool descending = reverse && Truthy(*reverse);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const std::partial_ordering order = Compare(a.first, b.first, looked());
    if (order == std::partial_ordering::unordered) throw std::string("NaN can't be sorted");
    return descending ? std::is_gt(order) : std::is_lt(order);
  });
  for (size_t i = 1; i < keyed.size() && unordered; ++i) {
    if (std::is_eq(Compare(keyed[i - 1].first, keyed[i].first, looked())))
      Fail(at, kNoOrder, "sort it by a key that differs for all");
  }
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (auto& [measure, item] : keyed) sorted.push_back(std::move(item));
  return arena_.List(std::move(sorted));
}

}  // namespace xp::config::python
