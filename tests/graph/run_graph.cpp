#include "graph/run_graph.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "graph/kernel_bounds.h"
#include "src/graph/half.h"

namespace xp::graph {
namespace {

std::vector<uint8_t> ToBytes(const void* data, size_t size) {
  const auto* p = static_cast<const uint8_t*>(data);
  return {p, p + size};
}

}  // namespace

std::vector<uint8_t> EncodeFloats(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::kF32) return ToBytes(values.data(), values.size() * 4);
  std::vector<uint16_t> rounded;
  for (float v : values) rounded.push_back(dtype == DType::kBF16 ? FloatToBf16(v) : FloatToHalf(v));
  return ToBytes(rounded.data(), rounded.size() * 2);
}

std::vector<Backend*> TestBackends() {
  static std::unique_ptr<Backend> cpu = CreateCpuBackend(2);
  static std::unique_ptr<Backend> cuda = []() -> std::unique_ptr<Backend> {
    std::string reason;
    // tests/cuda tries every engine; here the time goes into other things.
    if (CudaCompiledIn() && CudaDeviceCount(&reason) > 0) {
      return CreateCudaBackend({.engines_tried = 3});
    }
    std::printf("CUDA is skipped: %s\n", CudaCompiledIn() ? reason.c_str() : "not compiled in");
    return nullptr;
  }();
  std::vector<Backend*> all{cpu.get()};
  if (cuda) all.push_back(cuda.get());
  return all;
}

std::vector<DType> TestTypes(const Backend&) { return {DType::kF32, DType::kBF16, DType::kF16}; }

OpRunner::OpRunner(Backend& backend, DType compute)
    : backend_(backend), graph_(std::make_shared<ParamLayout>(), compute) {}

TensorId OpRunner::Add(const std::string& name, Shape shape, DType dtype,
                       std::vector<uint8_t> bytes) {
  TensorId id = graph_.AddInput(name, std::move(shape), dtype);
  inputs_.emplace_back(id, std::move(bytes));
  return id;
}

TensorId OpRunner::Input(const std::string& name, Shape shape, const std::vector<float>& values) {
  return Add(name, std::move(shape), graph_.compute(), EncodeFloats(values, graph_.compute()));
}

TensorId OpRunner::InputF32(const std::string& name, Shape shape,
                            const std::vector<float>& values) {
  return Add(name, std::move(shape), DType::kF32, EncodeFloats(values, DType::kF32));
}

TensorId OpRunner::InputI32(const std::string& name, Shape shape,
                            const std::vector<int32_t>& values) {
  return Add(name, std::move(shape), DType::kI32, ToBytes(values.data(), values.size() * 4));
}

TensorId OpRunner::InputU32(const std::string& name, Shape shape,
                            const std::vector<uint32_t>& values) {
  return Add(name, std::move(shape), DType::kU32, ToBytes(values.data(), values.size() * 4));
}

TensorId OpRunner::InputU8(const std::string& name, Shape shape,
                           const std::vector<uint8_t>& values) {
  return Add(name, std::move(shape), DType::kU8, values);
}

TensorId OpRunner::Output(const std::string& name, Shape shape) {
  return Output(name, std::move(shape), graph_.compute());
}

TensorId OpRunner::Output(const std::string& name, Shape shape, DType dtype) {
  TensorId id = graph_.AddOutput(name, std::move(shape), dtype);
  outputs_.push_back(id);
  return id;
}

void OpRunner::Run() {
  if (!program_) {
    params_ = std::make_unique<ParamBuffers>(backend_, graph_.shared_layout(), graph_.compute(),
                                             true, 0, false);
    program_ = std::make_unique<Program>(backend_, graph_, *params_);
    // On a GPU plans are searched for once more.
    const bool check = !backend_.is_cuda() || std::getenv("EXP_LONG_TESTS") != nullptr;
    if (check) CheckKernelBounds(backend_, graph_, inputs_);
  }
  for (TensorId id : outputs_) {
    std::vector<uint8_t> poison(graph_.tensor(id).bytes(), 0xff);
    if (!poison.empty()) backend_.Upload(program_->Address(id), poison.data(), poison.size());
  }
  for (const auto& [id, bytes] : inputs_) program_->SetInput(id, bytes.data(), bytes.size());
  program_->Run();
}

std::vector<uint8_t> OpRunner::Bytes(TensorId id) {
  std::vector<uint8_t> bytes(graph_.tensor(id).bytes());
  program_->Read(id, bytes.data(), bytes.size());
  return bytes;
}

std::vector<int32_t> OpRunner::Ints(TensorId id) {
  std::vector<uint8_t> bytes = Bytes(id);
  std::vector<int32_t> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> OpRunner::Floats(TensorId id) {
  std::vector<uint8_t> bytes = Bytes(id);
  DType dtype = graph_.tensor(id).dtype;
  std::vector<float> values(bytes.size() / DTypeSize(dtype));
  if (dtype == DType::kF32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    values[i] = dtype == DType::kBF16 ? Bf16ToFloat(half) : HalfToFloat(half);
  }
  return values;
}

}  // namespace xp::graph
