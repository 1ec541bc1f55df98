// Makes the kernels of the element-wise, normalisation, pooling, resampling, image and
// classification operations.
#include "src/graph/cuda/kernel.h"

namespace xp::graph::cuda {

std::unique_ptr<Kernel> MakeNnKernel(Context&, const Graph&, const Op& op) {
  switch (op.type) {
    default:
      return nullptr;
  }
}

}  // namespace xp::graph::cuda
