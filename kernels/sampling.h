// Which anchors and proposals a step looks at: each draws a 32-bit number that is a pure function
// of seed, step, image, purpose and its own index, and the k smallest are taken (ties: the lower
// index). So a choice depends neither on the number of threads nor on the device.
#pragma once

#include "exp/base/philox.h"

namespace xp::kernels {

// step_key as the ops take it: seed (low, high), step, and the number of the batch's first image
// (0 when this process has the whole batch).
struct StepKey {
  uint64_t seed;
  uint32_t step, first_image;
};

XP_HOST_DEVICE inline StepKey ReadStepKey(const uint32_t* key) {
  return {static_cast<uint64_t>(key[0]) | (static_cast<uint64_t>(key[1]) << 32), key[2], key[3]};
}

// The four draws of elements 4 * block .. 4 * block + 3.
XP_HOST_DEVICE inline Philox4 SampleKeys(const StepKey& key, RandomPurpose purpose, uint32_t image,
                                         uint32_t block) {
  return Philox(key.seed, block, key.first_image + image, key.step, static_cast<uint32_t>(purpose));
}

XP_HOST_DEVICE inline uint32_t SampleKey(const StepKey& key, RandomPurpose purpose, uint32_t image,
                                         uint32_t element) {
  Philox4 block = SampleKeys(key, purpose, image, element >> 2);
  // Not v[element & 3]: an index known only at run time would put the array into local memory.
  uint32_t low = (element & 1) ? block.v[1] : block.v[0];
  uint32_t high = (element & 1) ? block.v[3] : block.v[2];
  return (element & 2) ? high : low;
}

}  // namespace xp::kernels
