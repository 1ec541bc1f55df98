// Reads `lr_config` (mmcv's key names) into a schedule.
#pragma once

#include "exp/config/reader.h"
#include "exp/train/schedule.h"

namespace xp::train {

// lr_config.by_epoch (default true) decides the unit of `step` and of the policies; the warm-up
// counts steps unless lr_config.warmup_by_epoch.
Schedule ReadSchedule(const config::Reader& config, double base_lr, int64_t steps_per_epoch,
                      int max_epochs);

}  // namespace xp::train
