// What `exp eval` and `exp predict` are pointed at: a run of the store, or a file of weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exp/config/node.h"

namespace xp::cli {

struct ModelRequest {
  std::string target;  // RUN, or a .safetensors or .pth file
  std::string config;  // a config file, instead of the recorded one
  std::vector<std::string> set;
  std::string store;
  std::string which = "last";  // of a run's checkpoints: "last" or "best"
};

struct ModelSource {
  config::Node config;
  std::filesystem::path weights;  // absolute
  std::string run_id;             // empty: not known
  std::filesystem::path store;    // absolute: where that run is recorded; empty: nowhere known
  std::filesystem::path folder;   // what the config's paths are relative to; empty: this one
};

// Throws UsageError where the target is neither, has no checkpoint that can be used, or no config
// is known.
ModelSource FindModel(const ModelRequest& request);

}  // namespace xp::cli
