#include "src/graph/cuda/recording.h"

#include <cstdio>
#include <exception>

#include "src/graph/cuda/check.h"
#include "src/graph/cuda/staging.h"

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

std::vector<double> TimeEach(cudaStream_t stream, size_t count,
                             const std::function<void(size_t)>& body) {
  std::vector<std::unique_ptr<Event>> stamps;
  for (size_t i = 0; i <= count; ++i) stamps.push_back(std::make_unique<Event>(cudaEventDefault));
  bool capturing = true;
  auto stamp = [&](size_t i) {
    // External: the event becomes a node that a launch of the graph records.
    unsigned flags = capturing ? cudaEventRecordExternal : cudaEventRecordDefault;
    Check(cudaEventRecordWithFlags(stamps[i]->get(), stream, flags), "recording an event");
  };
  auto run = [&] {
    for (size_t i = 0; i < count; ++i) {
      stamp(i);
      body(i);
    }
    stamp(count);
  };
  std::string why;
  if (cudaGraph_t graph = TryCapture(stream, run, &why)) {
    GraphRecording recording(stream, graph);
    recording.Launch();
    Check(cudaStreamSynchronize(stream), "running a step");
  } else {
    capturing = false;
    run();
  }
  Check(cudaStreamSynchronize(stream), "running a step");
  std::vector<double> milliseconds;
  for (size_t i = 0; i < count; ++i) {
    float elapsed = 0;
    Check(cudaEventElapsedTime(&elapsed, stamps[i]->get(), stamps[i + 1]->get()),
          "reading a time stamp");
    milliseconds.push_back(static_cast<double>(elapsed));
  }
  return milliseconds;
}

}  // namespace xp::graph::cuda
