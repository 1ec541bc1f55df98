// The files that a run learns from: its data sets and the weights that it begins with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exp/config/node.h"
#include "exp/record/reader.h"
#include "exp/snapshot/redact.h"
#include "src/cli/describe_config.h"

namespace xp::cli {

// What StopSignals say of FingerprintInputs.
inline constexpr const char* kHashesKept = "the hashes so far are kept";

// A row for each of data.train, data.val and data.test whose files are there (the trainer says what
// it misses), and for each file of weights (`load_from`, `init_cfg`). Hashes of images are
// remembered in the store's folder. Where StopSignals ask for it: an Error of the kind
// kInterrupted.
std::vector<record::DatasetRow> FingerprintInputs(const config::Node& root,
                                                  const SnapshotOptions& options,
                                                  const std::filesystem::path& store,
                                                  snapshot::Redactor& redactor);

// What of a recorded run's inputs has other contents now, a line each as ConfigChanges has them.
// What wasn't recorded isn't compared; `weights`: whether those it began with count. The run's
// lists of images must have been loaded.
std::vector<std::string> InputChanges(const record::Run& run,
                                      const std::vector<record::DatasetRow>& now, bool weights);

}  // namespace xp::cli
