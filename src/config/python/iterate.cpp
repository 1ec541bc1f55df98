// What is gone through item by item: by `for`, comprehensions, builtins.
#include <fmt/format.h>

#include "src/config/python/cursor.h"
#include "src/config/python/evaluator.h"
#include "src/config/python/text_search.h"

namespace xp::config::python {

Cursor::Cursor(Arena& arena, const Value& whole) : arena_(arena), whole_(whole) {
  if (whole.IsDict()) size_ = whole.dict->pairs.size();
  if (!whole.IsList() && !whole.IsDict() && whole.type != Type::kString)
    throw fmt::format("{} can't be gone through item by item", WithArticle(whole.type));
}

bool Cursor::Next(Value* item) {
  if (whole_.type == Type::kString) {
    const std::string_view character = FirstCharacter(std::string_view(whole_.Text()).substr(at_));
    if (character.empty()) return false;
    at_ += character.size();
    *item = Value::String(std::string(character));
    return true;
  }
  if (whole_.IsList()) {
    ListObject& list = *whole_.list;
    size_t& at = whole_.type == Type::kIterator ? list.next : at_;
    if (at >= list.items.size()) return false;
    *item = list.items[at++];
    return true;
  }
  const std::vector<DictObject::Pair>& pairs = whole_.dict->pairs;
  if (pairs.size() != size_)
    throw fmt::format("the {} gets or loses elements while it is gone through",
                      whole_.type == Type::kSet ? "set" : "dict");
  if (at_ >= pairs.size()) return false;
  const DictObject::Pair& pair = pairs[at_++];
  *item = whole_.type == Type::kValues  ? pair.value
          : whole_.type == Type::kItems ? arena_.List({pair.key, pair.value}, Type::kTuple)
                                        : pair.key;
  return true;
}

bool Evaluator::Next(const Ast& at, Cursor& cursor, Value* item) {
  try {
    if (!cursor.Next(item)) return false;
  } catch (const std::string& message) {
    Fail(at, message, "go through a copy: list(...)");
  }
  if (cursor.makes_pairs()) Charge(at, 2 * sizeof(Value));
  return true;
}

Cursor Evaluator::Begin(const Ast& at, const Value& whole) {
  Look(at, whole);
  try {
    return Cursor(arena_, whole);
  } catch (const std::string& message) {
    Fail(at, message);
  }
}

void Evaluator::RequireOrder(const Ast& at, const Value& whole) const {
  if (NoOrder(whole)) Fail(at, kNoOrder, kSortIt);
}

std::vector<Value> Evaluator::Iterate(const Ast& at, const Value& whole) {
  RequireOrder(at, whole);
  return Members(at, whole);
}

std::vector<Value> Evaluator::Members(const Ast& at, const Value& whole) {
  std::vector<Value> items;
  Cursor cursor = Begin(at, whole);
  for (Value item; Next(at, cursor, &item);) {
    Charge(at, sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

Value Evaluator::Iterator(std::vector<Value> items, bool unordered) {
  Value iterator = arena_.List(std::move(items), Type::kIterator);
  iterator.list->unordered = unordered;
  return iterator;
}

Value Evaluator::ListLike(const Value& other, std::vector<Value> items) {
  Value list = arena_.List(std::move(items), other.type);
  list.list->unordered = other.list->unordered;
  return list;
}

}  // namespace xp::config::python
