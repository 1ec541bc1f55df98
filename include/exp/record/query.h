// Reads the store with SQL of the user's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exp/record/store.h"
#include "exp/record/value.h"

namespace xp::record {

struct QueryResult {
  std::vector<std::string> columns;
  std::vector<std::vector<std::optional<Value>>> rows;  // empty: NULL
};

// One statement that only reads; the function run_state(run.seq) gives running, killed, ... Throws
// UsageError for a statement that is wrong, that would write, or a second one behind it.
QueryResult Query(const Store& store, const std::string& sql);

}  // namespace xp::record
