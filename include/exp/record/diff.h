// What differs between runs, and only that, the most telling first.
#pragma once

#include <string>
#include <vector>

#include "exp/record/reader.h"

namespace xp::record {

struct Difference {
  std::string section;               // "config", "code", "data", "environment", "machine", "metrics"
  std::string name;                  // "optimizer.lr"
  std::vector<std::string> values;   // one a run; empty: absent
  std::vector<std::string> origins;  // of config values, one a run
  int weight = 0;                    // within its section, higher is more telling
};

// Two or more runs. Store is asked for image lists, to name changed files.
std::vector<Difference> DiffRuns(const Store& store, const std::vector<Run>& runs);

}  // namespace xp::record
