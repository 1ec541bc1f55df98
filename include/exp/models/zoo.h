// Models by name, with the sizes that throughput tables use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exp/models/model.h"

namespace xp::models {

struct ZooEntry {
  std::string name;   // "resnet50"
  int height, width;  // of an input image
  int max_boxes;      // detectors: ground truth boxes of an image
};

const std::vector<ZooEntry>& Zoo();

// Throws UsageError listing the names that exist.
const ZooEntry& FindInZoo(const std::string& name);
std::unique_ptr<Model> CreateFromZoo(const std::string& name);

}  // namespace xp::models
