#include "exp/bench/earlier.h"

#include <algorithm>

#include "exp/bench/throughput.h"

namespace xp::bench {
namespace {

std::string KeyOn(const Case& c) { return c.device + " " + Key(c); }

}  // namespace

EarlierRows::EarlierRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) keys_.push_back(KeyOn(row.c));
}

std::optional<size_t> EarlierRows::Take(const Case& asked) {
  Case c = asked;
  if (c.program == "exp") c.precision = PrecisionOf(c).precision;
  auto found = std::find(keys_.begin(), keys_.end(), KeyOn(c));
  if (found == keys_.end()) return std::nullopt;
  found->clear();
  return static_cast<size_t>(found - keys_.begin());
}

}  // namespace xp::bench
