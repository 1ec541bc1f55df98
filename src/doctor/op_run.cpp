#include "src/doctor/op_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "exp/base/hash.h"
#include "exp/base/philox.h"
#include "src/graph/half.h"

namespace xp::doctor {
namespace {

using graph::DType;
using graph::Shape;
using graph::TensorId;

template <class T>
std::vector<uint8_t> ToBytes(const std::vector<T>& values) {
  const auto* p = reinterpret_cast<const uint8_t*>(values.data());
  return {p, p + values.size() * sizeof(T)};
}

std::vector<uint8_t> Encode(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::kF32) return ToBytes(values);
  std::vector<uint16_t> narrow;
  narrow.reserve(values.size());
  for (float v : values) {
    narrow.push_back(dtype == DType::kBF16 ? graph::FloatToBf16(v) : graph::FloatToHalf(v));
  }
  return ToBytes(narrow);
}

double ValueAt(const OpRun::Output& o, size_t i) {
  if (o.dtype == DType::kF32) {
    float v = 0;
    std::memcpy(&v, o.bytes.data() + 4 * i, 4);
    return v;
  }
  uint16_t v = 0;
  std::memcpy(&v, o.bytes.data() + 2 * i, 2);
  return o.dtype == DType::kBF16 ? graph::Bf16ToFloat(v) : graph::HalfToFloat(v);
}

}  // namespace

OpRun::OpRun(DType compute) : graph_(std::make_shared<graph::ParamLayout>(), compute) {}

TensorId OpRun::Add(const std::string& name, Shape shape, DType dtype, std::vector<uint8_t> bytes) {
  TensorId id = graph_.AddInput(name, std::move(shape), dtype);
  inputs_.emplace_back(id, std::move(bytes));
  return id;
}

TensorId OpRun::Noise(const std::string& name, Shape shape, double scale) {
  RandomStream random(1, RandomPurpose::kTest, 0, static_cast<uint32_t>(HashBytes(name).low));
  std::vector<float> values(static_cast<size_t>(graph::NumElements(shape)));
  for (float& v : values) v = static_cast<float>(random.Uniform(-scale, scale));
  return Add(name, std::move(shape), graph_.compute(), Encode(values, graph_.compute()));
}

TensorId OpRun::Floats(const std::string& name, Shape shape, const std::vector<float>& values) {
  return Add(name, std::move(shape), DType::kF32, ToBytes(values));
}

TensorId OpRun::Ints(const std::string& name, Shape shape, const std::vector<int32_t>& values) {
  return Add(name, std::move(shape), DType::kI32, ToBytes(values));
}

TensorId OpRun::Out(const std::string& name, Shape shape) {
  return Out(name, std::move(shape), graph_.compute());
}

TensorId OpRun::Out(const std::string& name, Shape shape, DType dtype) {
  TensorId id = graph_.AddOutput(name, std::move(shape), dtype);
  outputs_.push_back(id);
  return id;
}

std::vector<OpRun::Output> OpRun::Run(graph::Backend& backend) const {
  graph::ParamBuffers params(backend, graph_.shared_layout(), graph_.compute(), true, 0, false);
  graph::Program program(backend, graph_, params);
  for (TensorId id : outputs_) {
    std::vector<uint8_t> poison(graph_.tensor(id).bytes(), 0xff);
    backend.Upload(program.Address(id), poison.data(), poison.size());
  }
  for (const auto& [id, bytes] : inputs_) program.SetInput(id, bytes.data(), bytes.size());
  program.Run();
  std::vector<Output> out;
  out.reserve(outputs_.size());
  for (TensorId id : outputs_) {
    Output o{graph_.tensor(id).name, graph_.tensor(id).dtype, {}};
    o.bytes.resize(graph_.tensor(id).bytes());
    program.Read(id, o.bytes.data(), o.bytes.size());
    out.push_back(std::move(o));
  }
  return out;
}

double Difference(const OpRun::Output& a, const OpRun::Output& b) {
  if (a.bytes.size() != b.bytes.size() || a.dtype != b.dtype) return 1;
  if (a.dtype == DType::kI32 || a.dtype == DType::kU32 || a.dtype == DType::kU8) {
    return a.bytes == b.bytes ? 0 : 1;
  }
  double most = 0, scale = 0;
  for (size_t i = 0; i < a.bytes.size() / graph::DTypeSize(a.dtype); ++i) {
    double x = ValueAt(a, i), y = ValueAt(b, i);
    if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(x - y));
    scale = std::max(scale, std::abs(x));
  }
  return scale > 0 ? most / scale : most;
}

}  // namespace xp::doctor
