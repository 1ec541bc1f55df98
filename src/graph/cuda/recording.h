// A step captured into a CUDA graph: one launch from the host instead of hundreds.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "exp/graph/backend.h"

namespace xp::graph::cuda {

// Captures what `body` enqueues on `stream`. Where something can't be captured (a cuDNN plan that
// refuses), the recording runs `body` at each launch instead: slower, the same result.
std::unique_ptr<Recording> Capture(cudaStream_t stream, std::function<void()> body);

}  // namespace xp::graph::cuda
