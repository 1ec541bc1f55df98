// --tta-flip and --tta-scales of `exp eval` and `exp predict`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "exp/train/inference.h"

namespace xp::cli {

struct TtaFlags {
  bool flip = false;
  std::vector<std::string> scales;  // "1333x800"
};

void AddTtaFlags(CLI::App& command, TtaFlags& flags);
// Throws UsageError for a scale that is none.
train::TestTimeAugmentation ReadTta(const TtaFlags& flags);

}  // namespace xp::cli
