// The part of the audit that reads image files.
#pragma once

#include <string>
#include <vector>

#include "exp/base/hash.h"
#include "exp/data/audit.h"

namespace xp::data {

struct FileCheck {
  std::vector<Problem> problems;
  Hash128 hash;
  int64_t bytes = -1;  // -1: not there
  std::string format;  // empty: not read
};

// Checks the file of each image of a part, in the order of its images.
std::vector<FileCheck> CheckFiles(const AuditPart& part, const AuditOptions& options);

}  // namespace xp::data
