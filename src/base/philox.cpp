#include "exp/base/philox.h"

#include <cmath>

namespace xp {

uint32_t RandomStream::NextU32() {
  if (used_ == 4) {
    block_ = Philox(seed_, index_++, sample_, epoch_, purpose_);
    used_ = 0;
  }
  return block_.v[used_++];
}

void RandomStream::Seek(uint64_t word) {
  index_ = static_cast<uint32_t>(word / 4);
  block_ = Philox(seed_, index_++, sample_, epoch_, purpose_);
  used_ = static_cast<int>(word % 4);
}

double RandomStream::NextDouble() {
  uint64_t high = NextU32() >> 5;
  uint64_t low = NextU32() >> 6;
  return static_cast<double>((high << 26) | low) * (1.0 / 9007199254740992.0);
}

uint32_t RandomStream::Below(uint32_t n) {
  // Lemire's multiply-and-reject: https://arxiv.org/abs/1805.10941
  uint32_t threshold = (0u - n) % n;
  while (true) {
    uint64_t product = static_cast<uint64_t>(NextU32()) * n;
    if (static_cast<uint32_t>(product) >= threshold) return static_cast<uint32_t>(product >> 32);
  }
}

double RandomStream::Normal() {
  double u = 1.0 - NextDouble();  // (0, 1]
  double v = NextDouble();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

}  // namespace xp
