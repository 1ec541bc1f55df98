#include "graph/op_case.h"

#include <algorithm>
#include <cmath>

#include "catch.h"
#include "src/graph/half.h"

namespace xp::graph {

namespace {

float RoundTo(float v, DType dtype) {
  if (dtype == DType::kBF16) return Bf16ToFloat(FloatToBf16(v));
  if (dtype == DType::kF16) return HalfToFloat(FloatToHalf(v));
  return v;
}

TensorId AddInput(OpRunner& run, const std::string& name, const CaseTensor& t) {
  if (t.kind == Kind::kAbsent) return kNoTensor;
  if (t.kind == Kind::kI32) {
    return run.InputI32(name, t.shape, std::vector<int32_t>(t.values.begin(), t.values.end()));
  }
  if (t.kind == Kind::kU32) {
    return run.InputU32(name, t.shape, std::vector<uint32_t>(t.values.begin(), t.values.end()));
  }
  if (t.kind == Kind::kU8) {
    return run.InputU8(name, t.shape, std::vector<uint8_t>(t.values.begin(), t.values.end()));
  }
  std::vector<float> values(t.values.begin(), t.values.end());
  return t.kind == Kind::kF32 ? run.InputF32(name, t.shape, values)
                              : run.Input(name, t.shape, values);
}

TensorId AddOutput(OpRunner& run, const std::string& name, const CaseTensor& t) {
  if (t.kind == Kind::kAbsent) return kNoTensor;
  if (t.kind == Kind::kU8) return run.Output(name, t.shape, DType::kU8);
  if (t.IsInteger()) return run.Output(name, t.shape, DType::kI32);
  return t.kind == Kind::kF32 ? run.Output(name, t.shape, DType::kF32) : run.Output(name, t.shape);
}

// The largest magnitude among finite elements.
double Magnitude(const std::vector<double>& values) {
  double most = 0;
  for (double v : values) most = std::isfinite(v) ? std::max(most, std::fabs(v)) : most;
  return most;
}

void Compare(const CaseTensor& output, const std::vector<double>& got,
             const std::vector<double>& expected, DType dtype, bool exact, double tolerance) {
  REQUIRE(got.size() == expected.size());
  double unit = 0;
  if (output.kind == Kind::kCompute && dtype == DType::kBF16) unit = 1.0 / 256;
  if (output.kind == Kind::kCompute && dtype == DType::kF16) unit = 1.0 / 2048;
  double slack = tolerance * std::max(Magnitude(expected), 1e-6);
  if (dtype == DType::kF16 && unit > 0) slack += 6e-8;  // the smallest subnormal
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    bool same = std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i];
    if (!same && !exact && !output.IsInteger()) {
      same = std::fabs(got[i] - expected[i]) <= slack + unit * std::fabs(expected[i]);
    }
    if (!same && wrong++ == 0) first = i;
  }
  INFO(wrong << " of " << got.size() << " elements differ; the first, " << first << ": "
             << (wrong ? got[first] : 0) << " instead of " << (wrong ? expected[first] : 0));
  CHECK(wrong == 0);
}

bool SameBits(const CaseResult& a, const CaseResult& b) {
  for (size_t o = 0; o < a.size(); ++o) {
    for (size_t i = 0; i < a[o].size(); ++i) {
      if (a[o][i] != b[o][i] && !(std::isnan(a[o][i]) && std::isnan(b[o][i]))) return false;
    }
  }
  return true;
}

}  // namespace

CaseResult RunCase(Backend& backend, DType dtype, const OpCase& c, int repeats) {
  OpRunner run(backend, dtype);
  std::vector<TensorId> in, out;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    in.push_back(AddInput(run, "in" + std::to_string(i), c.inputs[i]));
  }
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    out.push_back(AddOutput(run, "out" + std::to_string(i), c.outputs[i]));
  }
  run.graph().AddOp(c.type, in, out, c.attrs, "case");
  CaseResult result, again;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    run.Run();
    again.clear();
    for (size_t i = 0; i < out.size(); ++i) {
      again.emplace_back();
      if (out[i] == kNoTensor) continue;
      if (c.outputs[i].kind == Kind::kU8) {
        std::vector<uint8_t> v = run.Bytes(out[i]);
        again.back().assign(v.begin(), v.end());
      } else if (c.outputs[i].IsInteger()) {
        std::vector<int32_t> v = run.Ints(out[i]);
        again.back().assign(v.begin(), v.end());
      } else {
        std::vector<float> v = run.Floats(out[i]);
        again.back().assign(v.begin(), v.end());
      }
    }
    if (repeat == 0) result = again;
    CHECK(SameBits(result, again));
  }
  return result;
}

OpCase Rounded(const OpCase& c, DType dtype) {
  OpCase out = c;
  for (CaseTensor& t : out.inputs) {
    if (t.kind != Kind::kCompute) continue;
    for (double& v : t.values) v = RoundTo(static_cast<float>(v), dtype);
  }
  return out;
}

void CompareBackends(const OpCase& c, const std::vector<size_t>& exact, double tolerance,
                     const std::vector<DType>& types) {
  for (Backend* backend : TestBackends()) {
    if (!backend->is_cuda()) continue;
    for (DType dtype : types.empty() ? TestTypes(*backend) : types) {
      OpCase rounded = Rounded(c, dtype);
      CaseResult expected = RunCase(*TestBackends()[0], DType::kF32, rounded, 1);
      CaseResult got = RunCase(*backend, dtype, rounded);
      for (size_t i = 0; i < c.outputs.size(); ++i) {
        INFO(OpName(c.type) << " on " << backend->name() << ", " << DTypeName(dtype) << ", output "
                            << i);
        bool same = std::find(exact.begin(), exact.end(), i) != exact.end();
        Compare(c.outputs[i], got[i], expected[i], dtype, same, tolerance);
      }
    }
  }
}

}  // namespace xp::graph
