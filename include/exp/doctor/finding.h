// What one check of `exp doctor` found: a row of its table.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace xp::doctor {

enum class Level {
  kOk,
  kAbsent,   // there is nothing to check here, or it can't be seen from here
  kWarning,  // it will train, slowly or at a risk
  kError,    // it won't train, or not rightly
};

const char* LevelName(Level level);  // "ok", "absent", "warning", "error"

struct Finding {
  std::string id;     // stable: "driver", "gpu.power", "disk.read"
  std::string group;  // "versions", "smoke", "health", "speed"
  Level level = Level::kOk;
  std::string found;   // "NVIDIA 470.42.01"
  std::string needed;  // "580.65.06 or newer for CUDA 13.0"; empty: nothing in particular
  std::string why;     // why it matters; for warnings and errors
  std::string fix;     // what to do
  // What was measured, by name with its unit: {"read_mb_s", 1500}.
  std::vector<std::pair<std::string, double>> numbers;
};

using Findings = std::vector<Finding>;

Level WorstLevel(const Findings& findings);  // kOk of none

}  // namespace xp::doctor
