// Configs of other projects: exp resolves and checks them, and trains by its own keys only.
#pragma once

#include <optional>
#include <string>

#include "exp/config/node.h"

namespace xp::config {

struct ForeignKey {
  std::string project;  // "mmdetection 3 (mmengine)"
  std::string path;     // of its key that the config has: "train_dataloader"
};

// The first key that only another project's configs have.
std::optional<ForeignKey> FindForeignKey(const Node& root);

}  // namespace xp::config
