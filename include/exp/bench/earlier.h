// A call of `exp bench` that is continued: which cases its rows answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exp/bench/row.h"

namespace xp::bench {

class EarlierRows {
 public:
  EarlierRows() = default;
  explicit EarlierRows(const std::vector<Row>& rows);
  // The index of the row that answers the case, each for one case only: a CPU's row of tf32 is one
  // of fp32, as that of fp32 is. nullopt where there is none.
  std::optional<size_t> Take(const Case& c);

 private:
  std::vector<std::string> keys_;  // empty: taken
};

}  // namespace xp::bench
