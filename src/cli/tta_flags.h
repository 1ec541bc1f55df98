// --tta-flip and --tta-scales of `exp eval` and `exp predict`.
#pragma once

#include <string>
#include <vector>
#include "exp/train/inference.h"
#include "src/cli/arguments.h"

namespace xp::cli {

struct TtaFlags {
  bool flip = false;
  std::vector<std::string> scales;  // "1333x800"
};

void AddTtaFlags(Command command, TtaFlags& flags);
// Throws UsageError for a scale that is none.
train::TestTimeAugmentation ReadTta(const TtaFlags& flags);

}  // namespace xp::cli
