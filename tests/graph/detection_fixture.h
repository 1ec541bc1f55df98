// What the comparisons of detection operations with torchvision's numbers (tests/fixtures) share.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "catch.h"
#include "graph/fixture.h"
#include "graph/op_case.h"
#include "kernels/anchors.h"
#include "src/graph/cpu/box_matching.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph {

using kernels::Box;

inline std::vector<Box> Boxes(const std::vector<float>& v) {
  std::vector<Box> out;
  for (size_t i = 0; i + 3 < v.size(); i += 4) out.push_back({v[i], v[i + 1], v[i + 2], v[i + 3]});
  return out;
}

inline std::vector<float> Floats(const std::vector<double>& v, size_t begin, size_t count) {
  auto from = v.begin() + static_cast<long>(begin);
  return {from, from + static_cast<long>(count)};
}

inline void CheckNear(const std::vector<double>& got, const std::vector<float>& expected,
                      double tolerance) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::fabs(got[i] - expected[i]));
    if (std::isnan(got[i])) worst = HUGE_VAL;
  }
  CHECK(worst <= tolerance);
}

inline void CheckNear(const std::vector<float>& got, const std::vector<float>& expected,
                      double tolerance) {
  CheckNear(std::vector<double>(got.begin(), got.end()), expected, tolerance);
}

// torchvision's AnchorGenerator: rounded base anchors, stride = image size / map size.
inline AnchorLevel Level(int image_h, int image_w, int h, int w, float size) {
  AnchorLevel level{h, w, static_cast<float>(image_h / h), static_cast<float>(image_w / w), {}};
  for (float ratio : {0.5f, 1.0f, 2.0f}) {
    float root = std::sqrt(ratio), width = size / root, height = size * root;
    for (float v : {-width, -height, width, height}) level.base.push_back(std::nearbyint(v / 2));
  }
  return level;
}

inline std::vector<AnchorLevel> SmallLevels() {
  std::vector<AnchorLevel> levels;
  int h[] = {24, 12, 6, 3, 2}, w[] = {32, 16, 8, 4, 2};
  for (int l = 0; l < 5; ++l) {
    levels.push_back(Level(96, 128, h[l], w[l], static_cast<float>(8 << l)));
  }
  return levels;
}

inline const Fixture& Ops() {
  static const Fixture fixture("ops.safetensors");
  return fixture;
}
inline const Fixture& Frcnn() {
  static const Fixture fixture("frcnn_small.safetensors");
  return fixture;
}
inline const Fixture& Ssd() {
  static const Fixture fixture("ssd.safetensors");
  return fixture;
}

// Two images' worth of `name`0, `name`1 in rows of `capacity`.
inline std::vector<float> Stack(const Fixture& f, const std::string& name, size_t images,
                                size_t capacity, size_t width) {
  std::vector<float> out(images * capacity * width, 0.0f);
  for (size_t n = 0; n < images; ++n) {
    std::vector<float> v = f.Floats(name + std::to_string(n));
    std::copy(v.begin(), v.end(), out.begin() + static_cast<long>(n * capacity * width));
  }
  return out;
}

inline CaseTensor GtBoxes() {
  return Given(Kind::kF32, {2, 6, 4}, Stack(Frcnn(), "input.boxes", 2, 6, 4));
}
inline CaseTensor GtCounts() { return Given<int>(Kind::kI32, {2}, {4, 2}); }
inline CaseTensor Key() { return Given<uint32_t>(Kind::kU32, {4}, {7, 0, 3, 0}); }

inline void AddMaps(OpCase* c) {
  for (const char* name : {"train.rpn.objectness", "train.rpn.deltas"}) {
    for (int l = 0; l < 5; ++l) {
      std::string key = name + std::to_string(l);
      Shape s = Frcnn().shape(key);
      c->inputs.push_back(Given(Kind::kCompute, {s[0], s[2], s[3], s[1]}, Frcnn().Nhwc(key)));
    }
  }
}

}  // namespace xp::graph
