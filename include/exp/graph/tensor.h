// Tensors of the static graph: a shape, an element type and where their bytes live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace xp::graph {

enum class DType : uint8_t { kF32, kBF16, kF16, kI32, kU32, kU8 };

size_t DTypeSize(DType dtype);
const char* DTypeName(DType dtype);  // "f32", "bf16", ...

// Images and feature maps are [N, H, W, C] (channels last), matrices [rows, columns].
using Shape = std::vector<int64_t>;

int64_t NumElements(const Shape& shape);
std::string ShapeText(const Shape& shape);  // "[2, 200, 336, 256]"

// Where a tensor'"'"'s bytes live. Everything but kTemp keeps its content between steps.
enum class Storage : uint8_t {
  kTemp,    // activation or gradient of one: placed by the memory plan, dies after its last use
  kInput,   // written by the host before a step
  kOutput,  // read by the host after a step
  kParam,   // fp32 master parameters: a view into one flat buffer
  kParamCompute,  // the same parameters in the compute type (only when that isn'"'"'t f32)
  kGrad,          // fp32 gradients: same offsets as kParam when they all are, else packed
  kGradCompute,   // gradients that a backend produces in the compute type: same offsets as kParam
  kState,         // batch-norm running statistics, loss scale: a view into one flat fp32 buffer
  kOptimizer,     // optimizer state: `slot` times the parameters'"'"' total, same offsets within a
                  // slot
  kAccumulated,   // gradients summed over cumulative_iters steps: same offsets as kParam
};

using TensorId = int32_t;
inline constexpr TensorId kNoTensor = -1;  // an optional input or output that is absent

struct Tensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Storage storage = Storage::kTemp;
  int64_t offset = 0;  // in elements, into the flat buffer of the storage; 0 for the others

  int64_t elements() const { return NumElements(shape); }
  size_t bytes() const { return static_cast<size_t>(elements()) * DTypeSize(dtype); }
};

}  // namespace xp::graph
