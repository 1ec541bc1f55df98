// Hands out parts of a workspace. Run once with a null base it adds up how much is needed, so that
// a layout is written down in one place.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xp::kernels {

class Scratch {
 public:
  explicit Scratch(void* base) : base_(reinterpret_cast<uintptr_t>(base)) {}

  template <typename T>
  T* Take(int64_t count) {
    uintptr_t at = base_ + used_;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }
  size_t used() const { return used_; }

 private:
  uintptr_t base_;
  size_t used_ = 0;
};

}  // namespace xp::kernels
