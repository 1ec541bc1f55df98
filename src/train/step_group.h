// One optimizer step: its batches, their losses. Training, and looking into what went wrong, run
// the same code, so a step run again gives the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/train/setup.h"

namespace xp::train {

struct StepGroup {
  int64_t step = 0;         // optimizer steps done before this one
  int64_t first_batch = 0;  // of the epoch
  double lr = 0;
  std::vector<PendingLosses> parts;  // a micro-step each
  std::vector<int> part_images;
  std::vector<int64_t> image_ids;
  int images = 0;
  double data_seconds = 0;  // waited for the loader
};

// What the parts gave, once they are done.
struct StepLosses {
  std::vector<NamedValues> parts;
  NamedValues mean;       // over the step's images
  double total = 0;       // the sum of the means
  double grad_norm = -1;  // of the whole step, where the graph computes it; else -1
};

// Takes the batches of the step that begins at the loader's `*batch` and enqueues them, the update
// after the last; `*batch` moves on. `on_batch` sees each batch before it is used. False when the
// loader has no more.
bool RunGroup(Setup& setup, uint64_t seed, int64_t* batch, data::Batch* scratch, StepGroup* group,
              const std::function<void(const data::Batch&)>& on_batch = {});
// The same for batches at hand. Without `update` the gradients are left and nothing else changes
// but batch-norm statistics.
void RunBatches(Setup& setup, uint64_t seed, std::span<const data::Batch> batches, bool update,
                StepGroup* group);

// Blocks until the step is done.
StepLosses WaitForLosses(Setup& setup, StepGroup& group);

}  // namespace xp::train
