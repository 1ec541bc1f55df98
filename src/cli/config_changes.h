// How one resolved config differs from another.
#pragma once

#include <string>
#include <vector>

#include "exp/config/node.h"

namespace xp::cli {

// "optimizer.lr: 0.01 -> 0.02", a leaf a line, in order of the keys; "(absent)" where one side has
// none. Lists of plain values are one leaf.
std::vector<std::string> ConfigChanges(const config::Node& before, const config::Node& now);

}  // namespace xp::cli
