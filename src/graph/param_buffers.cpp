#include <cstring>
#include <stdexcept>

#include "exp/graph/program.h"
#include "src/graph/half.h"

namespace xp::graph {

namespace {

// Calls add(storage, bytes) for each buffer there is.
template <typename Add>
void EachBuffer(const ParamLayout& layout, DType compute, bool training, int optimizer_slots,
                bool accumulate, const Add& add) {
  const bool copy = compute != DType::kF32;
  auto of = [&](Storage storage, int64_t elements, DType dtype) {
    add(storage, static_cast<size_t>(elements) * DTypeSize(dtype));
  };
  const int64_t params = layout.param_elements();
  of(Storage::kParam, params, DType::kF32);
  of(Storage::kState, layout.state_elements(), DType::kF32);
  if (copy) of(Storage::kParamCompute, params, compute);
  if (!training) return;
  of(Storage::kGrad, copy ? layout.grad_elements() : params, DType::kF32);
  if (copy) of(Storage::kGradCompute, params, compute);
  if (optimizer_slots > 0) of(Storage::kOptimizer, params * optimizer_slots, DType::kF32);
  if (accumulate) of(Storage::kAccumulated, params, DType::kF32);
}

}  // namespace

size_t ParamBuffers::BytesNeeded(const ParamLayout& layout, DType compute, bool training,
                                 int optimizer_slots, bool accumulate) {
  size_t total = 0;
  EachBuffer(layout, compute, training, optimizer_slots, accumulate,
             [&](Storage, size_t bytes) { total += bytes; });
  return total;
}

ParamBuffers::ParamBuffers(Backend& backend, std::shared_ptr<const ParamLayout> layout,
                           DType compute, bool training, int optimizer_slots, bool accumulate)
    : backend_(backend), layout_(std::move(layout)), compute_(compute), slots_(optimizer_slots) {
  EachBuffer(*layout_, compute_, training, slots_, accumulate, [&](Storage storage, size_t bytes) {
    buffers_[static_cast<int>(storage)] = backend_.Allocate(bytes);
  });
}

void* ParamBuffers::Data(Storage storage) const {
  auto it = buffers_.find(static_cast<int>(storage));
  return it == buffers_.end() ? nullptr : it->second->data();
}

size_t ParamBuffers::Bytes(Storage storage) const {
  auto it = buffers_.find(static_cast<int>(storage));
  return it == buffers_.end() ? 0 : it->second->bytes();
}

size_t ParamBuffers::TotalBytes() const {
  size_t total = 0;
  for (const auto& [storage, buffer] : buffers_) total += buffer->bytes();
  return total;
}

std::vector<float> ParamBuffers::Read(Storage storage) const {
  std::vector<float> values;
  Read(storage, &values);
  return values;
}

void ParamBuffers::Read(Storage storage, std::vector<float>* values) const {
  values->resize(Bytes(storage) / sizeof(float));
  if (!values->empty()) backend_.Download(values->data(), Data(storage), Bytes(storage));
}

void ParamBuffers::Write(Storage storage, const std::vector<float>& values) {
  if (values.size() * sizeof(float) != Bytes(storage)) {
    throw std::logic_error("a flat buffer is written with another size");
  }
  if (!values.empty()) backend_.Upload(Data(storage), values.data(), Bytes(storage));
  if (storage == Storage::kParam) WriteComputeCopy(values);
}

void ParamBuffers::WriteComputeCopy(const std::vector<float>& values) {
  if (compute_ == DType::kF32) return;
  std::vector<uint16_t> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    rounded[i] = compute_ == DType::kBF16 ? FloatToBf16(values[i]) : FloatToHalf(values[i]);
  }
  backend_.Upload(Data(Storage::kParamCompute), rounded.data(), rounded.size() * sizeof(uint16_t));
}

}  // namespace xp::graph
