#include <cstring>
#include <stdexcept>

#include "exp/graph/program.h"
#include "src/graph/half.h"

namespace xp::graph {

ParamBuffers::ParamBuffers(Backend& backend, std::shared_ptr<const ParamLayout> layout,
                           DType compute, bool training, int optimizer_slots, bool accumulate)
    : backend_(backend), layout_(std::move(layout)), compute_(compute), slots_(optimizer_slots) {
  auto add = [&](Storage storage, int64_t elements, DType dtype) {
    size_t bytes = static_cast<size_t>(elements) * DTypeSize(dtype);
    buffers_[static_cast<int>(storage)] = backend_.Allocate(bytes);
  };
  int64_t params = layout_->param_elements();
  add(Storage::kParam, params, DType::kF32);
  add(Storage::kState, layout_->state_elements(), DType::kF32);
  if (compute_ != DType::kF32) add(Storage::kParamCompute, params, compute_);
  if (!training) return;
  add(Storage::kGrad, compute_ == DType::kF32 ? params : layout_->grad_elements(), DType::kF32);
  if (compute_ != DType::kF32) add(Storage::kGradCompute, params, compute_);
  if (slots_ > 0) add(Storage::kOptimizer, params * slots_, DType::kF32);
  if (accumulate) add(Storage::kAccumulated, params, DType::kF32);
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
