// Runs a step again that a run saved because its numbers weren't finite.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xp::config {
class Node;
}

namespace xp::train {

struct ReplayOptions {
  std::string device = "auto";
  int threads = 0;
  std::vector<std::string> plans;  // StartEvent::plans of the run
  std::filesystem::path folder;    // work_dir/nonfinite_step_N
};

struct ReplayResult {
  std::string text;        // losses, gradients by layer, for people
  bool same = false;       // the losses have the bits that the run reported
  std::string difference;  // the first that hasn't
};

// Needs the run's whole config; its data need not be there. Throws UsageError where the folder's
// files are absent, damaged or of another model.
ReplayResult ReplayStep(const config::Node& config, const ReplayOptions& options);

}  // namespace xp::train
