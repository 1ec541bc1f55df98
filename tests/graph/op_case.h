// One operation with its inputs, run on any backend and type, so that a test states a case once.
#pragma once

#include <string>
#include <vector>

#include "graph/run_graph.h"

namespace xp::graph {

// A tensor of a case. kCompute follows the type that is tested; inputs are rounded to it.
enum class Kind { kCompute, kF32, kI32, kU32, kU8, kAbsent };

struct CaseTensor {
  Kind kind = Kind::kCompute;
  Shape shape;
  std::vector<double> values;  // of an input

  bool IsInteger() const { return kind == Kind::kI32 || kind == Kind::kU32 || kind == Kind::kU8; }
};

template <typename T>
CaseTensor Given(Kind kind, Shape shape, const std::vector<T>& values) {
  return {kind, std::move(shape), std::vector<double>(values.begin(), values.end())};
}

struct OpCase {
  OpType type;
  OpAttrs attrs;
  std::vector<CaseTensor> inputs, outputs;
};

// Outputs as doubles, in order; an absent one is empty.
using CaseResult = std::vector<std::vector<double>>;

// Runs `repeats` times and checks that each gives the same bits.
CaseResult RunCase(Backend& backend, DType dtype, const OpCase& c, int repeats = 3);

// The case with its kCompute inputs rounded to a type, so that the CPU sees what the device sees.
OpCase Rounded(const OpCase& c, DType dtype);

// Runs the case on every backend and type: the CPU's f32 result is checked by `check` where one is
// given; every other result is compared with the CPU's for the same rounded inputs. Integers and
// outputs named exact must be equal; others agree within `tolerance` of the largest magnitude of
// that output, plus the rounding of the type for kCompute outputs. Three runs must give the same
// bits.
// `types`: only those, for operations that a device has for some.
void CompareBackends(const OpCase& c, const std::vector<size_t>& exact = {},
                     double tolerance = 1e-5, const std::vector<DType>& types = {});

}  // namespace xp::graph
