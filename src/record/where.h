// The small language of `exp ls --where`; private to src/record.
//
//   expression = term { "or" term } ; term = factor { "and" factor }
//   factor = "not" factor | "(" expression ")" | operand [ op operand ]
//   op = "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" (contains)
//   operand = number | 'text' | "text" | true | false | null | name; a quote in a text of such
//             quotes is written twice
//   name = letters, digits, _ . / @ - : and all beyond ASCII, parts in quotes behind a dot
//          (metric."a b", metric."a \"b\"") | `any text`
// A bare name asks whether the run has it. A comparison with a name that a run lacks is false. Of
// several values (tags) one is enough, and != holds where none is equal. NaN equals NaN. A number
// without quotes is a text where it meets one (tag = 2024); in quotes it never is a number. Words
// (and, or, not) in any case of letters.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exp/record/value.h"

namespace xp::record {

class Where {
 public:
  // Throws UsageError with the column.
  explicit Where(const std::string& text);
  ~Where();
  Where(Where&&) noexcept;

  // The names that it asks for.
  const std::vector<std::string>& names() const { return names_; }
  // Of these, those that can't be meant as texts: all but what stands right of a comparison of a
  // name.
  const std::vector<std::string>& subjects() const { return subjects_; }
  // `get` gives all values of a name (a run may have several tags); none: it lacks the name.
  using Get = std::function<std::vector<Value>(const std::string&)>;
  bool Matches(const Get& get) const;

  struct Node;

 private:
  std::unique_ptr<Node> root_;  // nullptr: everything matches
  std::vector<std::string> names_, subjects_;
};

// -1, 0, 1 as usual; 2 where they can't be compared (NaN, or a number with a text).
int CompareValues(const Value& a, const Value& b);
// An order of all values: numbers, NaN, texts; with `reverse` only each of these is turned round,
// so that the best of a metric comes before the runs that diverged.
bool SortsBefore(const Value& a, const Value& b, bool reverse);

}  // namespace xp::record
