// Random cases for the tests of detection operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "exp/base/philox.h"
#include "graph/op_case.h"
#include "kernels/boxes.h"

namespace xp::graph {

struct Random {
  explicit Random(uint32_t seed) : stream(seed, RandomPurpose::kTest, 0, 0) {}

  float Uniform(float low, float high) { return static_cast<float>(stream.Uniform(low, high)); }
  int Below(int n) { return static_cast<int>(stream.Below(static_cast<uint32_t>(n))); }
  std::vector<float> Normals(int64_t count, float scale) {
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(scale * static_cast<float>(stream.Normal()));
    return out;
  }
  // Within the image, at least one pixel wide.
  kernels::Box Box(float height, float width) {
    float x = Uniform(0, width - 1), y = Uniform(0, height - 1);
    return {x, y, std::min(x + 1 + Uniform(0, width * 0.6f), width),
            std::min(y + 1 + Uniform(0, height * 0.6f), height)};
  }

  RandomStream stream;
};

inline std::vector<float> Flatten(const std::vector<kernels::Box>& boxes) {
  std::vector<float> out;
  for (const kernels::Box& b : boxes) out.insert(out.end(), {b.x1, b.y1, b.x2, b.y2});
  return out;
}

inline kernels::Box BoxAt(const std::vector<double>& v, size_t row) {
  auto f = [&](size_t i) { return static_cast<float>(v[row * 4 + i]); };
  return {f(0), f(1), f(2), f(3)};
}

// Boxes of `images` images in rows of `capacity`; rows beyond the counts hold a box that must not
// be seen.
inline CaseTensor RandomBoxes(Random& random, const std::vector<int>& counts, int capacity,
                              float height, float width) {
  std::vector<kernels::Box> boxes;
  for (int count : counts) {
    for (int i = 0; i < capacity; ++i) {
      boxes.push_back(i < count ? random.Box(height, width) : kernels::Box{0, 0, width, height});
    }
  }
  return Given(Kind::kF32, {static_cast<int64_t>(counts.size()), capacity, 4}, Flatten(boxes));
}

inline CaseTensor Counts(const std::vector<int>& counts) {
  return Given(Kind::kI32, {static_cast<int64_t>(counts.size())}, counts);
}

inline CaseTensor StepKey(uint32_t seed, uint32_t step) {
  return Given<uint32_t>(Kind::kU32, {4}, {seed, seed * 7919u, step, 0});
}

// An odd pyramid of two levels, three anchors a cell, for an image of 61 x 83.
inline std::vector<AnchorLevel> OddLevels() {
  std::vector<float> small{-6, -4, 6, 4, -4, -4, 4, 4, -4, -7, 4, 7}, large = small;
  for (float& v : large) v *= 3;
  return {{15, 21, 4, 4, small}, {8, 11, 8, 8, large}};
}

inline std::vector<kernels::Box> AllAnchors(const std::vector<AnchorLevel>& levels) {
  std::vector<kernels::Box> out;
  for (const AnchorLevel& l : levels) {
    for (int y = 0; y < l.height; ++y) {
      for (int x = 0; x < l.width; ++x) {
        for (size_t a = 0; a + 3 < l.base.size(); a += 4) {
          float dx = static_cast<float>(x) * l.stride_x, dy = static_cast<float>(y) * l.stride_y;
          out.push_back(
              {l.base[a] + dx, l.base[a + 1] + dy, l.base[a + 2] + dx, l.base[a + 3] + dy});
        }
      }
    }
  }
  return out;
}

// Compares an op's gradient outputs with central differences of its losses, on the CPU: input
// `input`, gradient output `gradient`, for `probes` elements. The seed of both losses is 1.
void CheckGradient(const OpCase& c, size_t input, size_t gradient, int probes, double scale = 1);

}  // namespace xp::graph
