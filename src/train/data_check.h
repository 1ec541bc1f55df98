// What `exp data check` says about the annotations and the files, before a run begins.
#pragma once

#include <vector>

#include "exp/config/reader.h"
#include "exp/data/audit.h"
#include "src/train/setup.h"

namespace xp::train {

// Audits the parts without reading images. Each finding is one warning, "data." and its code, that
// names every record left out. Throws UsageError for errors (missing images, unless the part has
// `on_error: skip`), and under `policy: strict` for the first warning. Notes are left to `exp data
// check`; classes against the head are checked elsewhere.
void CheckData(const config::Reader& config, std::vector<data::AuditPart> parts, const Warn& warn);

}  // namespace xp::train
