// Goes through a value as Python's `for` does.
#pragma once

#include <cstddef>

#include "src/config/python/value.h"

namespace xp::config::python {

// A list's changes on the way are seen; an iterator goes on where it was left, and keeps its place.
// Throws a std::string, a message, for a value without items, and when a dict or set gets or loses
// some on the way.
class Cursor {
 public:
  Cursor(Arena& arena, const Value& whole);
  bool Next(Value* item);
  bool makes_pairs() const { return whole_.type == Type::kItems; }

 private:
  Arena& arena_;
  Value whole_;
  size_t at_ = 0;    // an element, or a byte of a string
  size_t size_ = 0;  // of a dict at the start
};

}  // namespace xp::config::python
