// What the tests of layers (nn_*_test.cpp) share: repeatable values, and comparison with a
// reference computed in double.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exp/graph/tensor.h"

namespace xp::graph {

// `n` values spread over [low, high), a function of `seed`, that the type `dtype` holds exactly:
// the reference then sees what the backend sees.
std::vector<float> Values(int64_t n, uint64_t seed, DType dtype, double low = -1, double high = 1);

// How far a result of that type may be from the reference, as a share of the largest value. fp32
// leaves room for sums in another order.
double Tolerance(DType dtype);

// Every element of `got` is within tolerance * max |want| (+ 1e-30) of `want`, and not NaN.
void CheckClose(const std::string& what, const std::vector<float>& got,
                const std::vector<double>& want, double tolerance);

}  // namespace xp::graph
