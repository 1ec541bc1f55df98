// From a resolved config to what the record keeps of it, without secrets.
#pragma once

#include <string>
#include <vector>

#include "exp/config/node.h"
#include "exp/record/writer.h"
#include "exp/snapshot/code.h"
#include "exp/snapshot/dataset.h"
#include "exp/snapshot/redact.h"

namespace xp::cli {

// What the config's `snapshot` section asks for.
struct SnapshotOptions {
  snapshot::CodeOptions code;
  snapshot::RedactOptions redact;
  snapshot::DatasetOptions data;
  bool data_off = false;
  bool python = false;
  double gpu_interval = 1;
  std::vector<std::string> variables;
};
SnapshotOptions ReadSnapshotOptions(const config::Node& root);

// Remembers every text below a key with a secret's name.
void LearnConfigSecrets(const config::Node& root, snapshot::Redactor& redactor);
// The same tree with marks where secrets were; origins and histories are kept.
config::Node RedactConfig(const config::Node& root, snapshot::Redactor& redactor);
// The leaves of a redacted tree; a list of plain values is one leaf.
std::vector<record::ConfigValue> DescribeConfig(const config::Node& root,
                                                snapshot::Redactor& redactor);

}  // namespace xp::cli
