// The graph's types as the kernels name them.
#pragma once

#include <stdexcept>

#include "exp/graph/tensor.h"
#include "kernels/element_type.h"

namespace xp::graph::cuda {

inline kernels::ElementType ElementTypeOf(DType type) {
  switch (type) {
    case DType::kF32:
      return kernels::ElementType::kF32;
    case DType::kBF16:
      return kernels::ElementType::kBF16;
    case DType::kF16:
      return kernels::ElementType::kF16;
    default:
      throw std::logic_error("not a floating-point tensor");
  }
}

}  // namespace xp::graph::cuda
