// Opens a split of the config's `data` dict (mmdetection's key names; docs/data.md lists them all).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exp/data/loader.h"

namespace xp::config {
class Reader;
}

namespace xp::data {

// `split`: "train" (shuffled, augmented) or "val", "test" (in order, as they are). Reads
// data.<split>.*, data.samples_per_gpu and data.workers_per_gpu. Throws UsageError for what can't
// be read or used.
std::unique_ptr<Loader> OpenLoader(const config::Reader& config, const std::string& split,
                                   uint64_t seed);

}  // namespace xp::data
