// A step captured into a CUDA graph: one launch from the host instead of hundreds.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <vector>

#include "exp/graph/backend.h"

namespace xp::graph::cuda {

// Captures what `body` enqueues on `stream`. Where something can't be captured (a cuDNN plan that
// refuses), the recording runs `body` at each launch instead: slower, the same result.
std::unique_ptr<Recording> Capture(cudaStream_t stream, std::function<void()> body);

// Runs body(0) .. body(count - 1) once, captured, with a time stamp between each two. Milliseconds.
std::vector<double> TimeEach(cudaStream_t stream, size_t count,
                             const std::function<void(size_t)>& body);

}  // namespace xp::graph::cuda
