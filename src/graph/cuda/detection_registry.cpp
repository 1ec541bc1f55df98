// Makes the kernels of the detection operations.
#include "src/graph/cuda/kernel.h"

namespace xp::graph::cuda {

std::unique_ptr<Kernel> MakeDetectionKernel(Context&, const Graph&, const Op& op) {
  switch (op.type) {
    default:
      return nullptr;
  }
}

}  // namespace xp::graph::cuda
