// What differs between runs, and only that, the most telling first.
#pragma once

#include <string>
#include <vector>

#include "exp/record/reader.h"
#include "exp/snapshot/compare.h"

namespace xp::record {

struct Difference {
  std::string section;              // "config", "code", "data", "environment", "machine", "metrics"
  std::string name;                 // "optimizer.lr"
  std::vector<std::string> values;  // one a run; empty: absent
  std::vector<std::string> origins;  // of config values, one a run
  int weight = 0;                    // within its section, higher is more telling
};

// Two or more runs. Changed files and (where LoadImageLists was called) images are named when there
// are two.
std::vector<Difference> DiffRuns(const Store& store, const std::vector<Run>& runs);

// The files of the code that ran, with unified diffs if asked for.
snapshot::CodeComparison CompareFiles(const Store& store, const Run& a, const Run& b, bool patches);

}  // namespace xp::record
