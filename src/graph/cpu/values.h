// Elements of a tensor of the compute type, as floats, a block at a time: fp32 memory is used where
// it lies, a block of a 16-bit type is widened into scratch that stays in the first-level cache and
// rounded on its way out. So one fp32 loop serves every type, with one pass over memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "exp/graph/tensor.h"
#include "src/graph/cpu/narrow.h"

namespace xp::graph::cpu {

class InValues {
 public:
  InValues() = default;
  InValues(DType type, const void* data) : type_(type), data_(data) {}

  explicit operator bool() const { return data_ != nullptr; }

  // Elements [at, at + n); `scratch` holds n floats.
  const float* Floats(int64_t at, int64_t n, float* scratch) const {
    if (type_ == DType::kF32) return static_cast<const float*>(data_) + at;
    Widen(type_, static_cast<const uint16_t*>(data_) + at, n, scratch);
    return scratch;
  }

 private:
  DType type_ = DType::kF32;
  const void* data_ = nullptr;
};

class OutValues {
 public:
  OutValues() = default;
  // `elements` of the whole tensor decide whether it is worth keeping in the caches.
  OutValues(DType type, void* data, int64_t elements)
      : type_(type), stream_(WorthStreaming(type, elements)), data_(data) {}

  explicit operator bool() const { return data_ != nullptr; }

  // Where to write elements [at, at + n) before Put(): `scratch` holds n floats.
  float* Place(int64_t at, float* scratch) const {
    return type_ == DType::kF32 && !stream_ ? static_cast<float*>(data_) + at : scratch;
  }
  // `place` is what Place() gave for `at`.
  void Put(int64_t at, int64_t n, const float* place) const {
    if (type_ != DType::kF32) {
      Narrow(type_, place, n, static_cast<uint16_t*>(data_) + at);
    } else if (stream_) {
      StreamOut(place, n, static_cast<float*>(data_) + at);
    }
  }

 private:
  // Next to a map that no cache holds, stores past the caches spare reading what is overwritten.
  static bool WorthStreaming(DType type, int64_t elements) {
    constexpr int64_t kBytes = 8 << 20;
    return type == DType::kF32 && elements * static_cast<int64_t>(sizeof(float)) >= kBytes;
  }

  DType type_ = DType::kF32;
  bool stream_ = false;
  void* data_ = nullptr;
};

// Elements [at, at + n) of `data` = `values`, for results that are made elsewhere.
inline void PutFloats(DType type, const float* values, int64_t n, void* data, int64_t at) {
  if (type == DType::kF32) {
    std::copy(values, values + n, static_cast<float*>(data) + at);
  } else {
    Narrow(type, values, n, static_cast<uint16_t*>(data) + at);
  }
}

}  // namespace xp::graph::cpu
