#include "graph/nn_check.h"

#include <algorithm>
#include <cmath>

#include "catch.h"
#include "src/graph/half.h"

namespace xp::graph {
namespace {

uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

float RoundTo(DType dtype, float value) {
  if (dtype == DType::kBF16) return Bf16ToFloat(FloatToBf16(value));
  if (dtype == DType::kF16) return HalfToFloat(FloatToHalf(value));
  return value;
}

}  // namespace

std::vector<float> Values(int64_t n, uint64_t seed, DType dtype, double low, double high) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    const double unit = static_cast<double>(Mix(seed * 1000003 + i) >> 11) * 0x1p-53;
    values[i] = RoundTo(dtype, static_cast<float>(low + (high - low) * unit));
  }
  return values;
}

double Tolerance(DType dtype) {
  if (dtype == DType::kBF16) return 1.0 / 128;
  if (dtype == DType::kF16) return 1.0 / 1024;
  return 2e-6;
}

void CheckClose(const std::string& what, const std::vector<float>& got,
                const std::vector<double>& want, double tolerance) {
  INFO(what);
  REQUIRE(got.size() == want.size());
  double scale = 1e-30;
  for (double w : want) scale = std::max(scale, std::fabs(w));
  size_t worst = 0;
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double e = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!(e <= error)) {  // NaN too
      error = e;
      worst = i;
      if (std::isnan(e)) break;
    }
  }
  INFO("element " << worst << " is " << (got.empty() ? 0.0f : got[worst]) << ", expected "
                  << (want.empty() ? 0.0 : want[worst]) << ", largest " << scale);
  CHECK(error <= tolerance * scale);
}

}  // namespace xp::graph
