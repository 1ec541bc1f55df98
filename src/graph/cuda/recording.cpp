#include "src/graph/cuda/recording.h"

#include <cstdio>
#include <exception>

#include "src/graph/cuda/check.h"

namespace xp::graph::cuda {
namespace {

class GraphRecording : public Recording {
 public:
  GraphRecording(cudaStream_t stream, cudaGraph_t graph) : stream_(stream) {
    cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    Check(error, "preparing a captured step");
    Check(cudaGraphUpload(executable_, stream_), "preparing a captured step");
  }
  ~GraphRecording() override { cudaGraphExecDestroy(executable_); }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;
  void Launch() override { Check(cudaGraphLaunch(executable_, stream_), "launching a step"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

class PlainRecording : public Recording {
 public:
  explicit PlainRecording(std::function<void()> body) : body_(std::move(body)) {}
  void Launch() override { body_(); }

 private:
  std::function<void()> body_;
};

// Null when the body can't be captured; `why` says what refused.
cudaGraph_t TryCapture(cudaStream_t stream, const std::function<void()>& body, std::string* why) {
  // Relaxed: kernels are loaded on first use, which the stricter modes forbid while capturing.
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capturing a step");
  try {
    body();
  } catch (const std::exception& e) {
    *why = e.what();
  }
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream, &graph);
  if (error == cudaSuccess && why->empty()) return graph;
  cudaGetLastError();
  if (why->empty()) *why = cudaGetErrorString(error);
  if (graph != nullptr) cudaGraphDestroy(graph);
  return nullptr;
}

}  // namespace

std::unique_ptr<Recording> Capture(cudaStream_t stream, std::function<void()> body) {
  std::string why;
  if (cudaGraph_t graph = TryCapture(stream, body, &why)) {
    return std::make_unique<GraphRecording>(stream, graph);
  }
  std::fprintf(stderr, "note: steps run operation by operation, a CUDA graph can't hold them: %s\n",
               why.c_str());
  return std::make_unique<PlainRecording>(std::move(body));
}

}  // namespace xp::graph::cuda
