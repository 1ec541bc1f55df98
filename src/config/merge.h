// Laying one config over another, as mmengine does (Config._merge_a_into_b), without its faults.
#pragma once

#include <string>
#include <vector>

#include "exp/config/load.h"
#include "exp/config/node.h"

namespace xp::config {

// Merges `over` into `base` (both dicts): dicts merge key by key, anything else replaces.
// `_delete_: true` in a dict replaces the whole dict below it, and never stays in the result
// (mmdetection#6657). A dict whose keys are all indices (or
// `*`) changes elements of a list; any other dict over a list or a scalar is an error that names
// both places. `path` is where the dicts stand in the config ("" for the root). Dropped values are
// added to *dropped when given.
void MergeInto(Node& base, const Node& over, const std::string& path,
               std::vector<Dropped>* dropped);

// Removes `_delete_` everywhere in `node`.
void StripDelete(Node& node);

// Adds the entries of another base; keys that both have must be equal, else an error with both
// places (ViT-Adapter#98).
void AddBase(Node& bases, const Node& base);

// mmengine: the outermost dicts with a `type` of a base from another package get `_scope_:
// package`.
void SetScope(Node& node, const std::string& scope);

}  // namespace xp::config
