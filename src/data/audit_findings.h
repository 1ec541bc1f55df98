// Collects problems by code, with the severity and the advice that belong to each code.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exp/data/audit.h"

namespace xp::data {

class FindingList {
 public:
  explicit FindingList(int examples) : examples_(examples) {}

  void Add(Problem problem);
  // Errors first, then by code.
  std::vector<Finding> Take();

 private:
  int examples_;
  std::map<std::string, Finding> findings_;
};

}  // namespace xp::data
