// Full-width parity: what tests/models/full_width.sh runs, with PyTorch's own rounding as the
// yardstick.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "catch.h"

// The file of that name in the folder that full_width.sh wrote (EXP_FULL_FIXTURES).
inline std::string FullFixture(const std::string& file) {
  const char* folder = std::getenv("EXP_FULL_FIXTURES");
  if (folder == nullptr) FAIL("EXP_FULL_FIXTURES names no folder: run tests/models/full_width.sh");
  return std::string(folder) + "/" + file;
}

// Relative errors against float64, ours and those of PyTorch in float32, of losses and gradients.
class Errors {
 public:
  // Fails where ours is neither small nor within three times PyTorch's.
  void Add(const std::string& name, double ours, double torchs, double small) {
    INFO(name << ": " << ours << ", PyTorch in float32 " << torchs);
    CHECK(ours < std::max(small, 3 * torchs));
    if (ours > ours_) worst_ = name;
    ours_ = std::max(ours_, ours);
    torchs_ = std::max(torchs_, torchs);
    ++count_;
  }
  int count() const { return count_; }
  void Print(const char* what) const {
    std::printf("%s: %d compared, largest relative error %.2g (%s), PyTorch's in float32 %.2g\n",
                what, count_, ours_, worst_.c_str(), torchs_);
  }

 private:
  double ours_ = 0, torchs_ = 0;
  std::string worst_ = "none";
  int count_ = 0;
};
