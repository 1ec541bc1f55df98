#include "src/graph/cuda/plan_builder.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace xp::graph::cuda {

std::vector<std::unique_ptr<ConvPlan>> BuildPlans(ConvGraph& graph,
                                                  const std::vector<std::string>& engines,
                                                  std::chrono::milliseconds enough,
                                                  std::string* why) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kMaxThreads = 16;
  size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMaxThreads);
  threads = std::min(threads, engines.size());
  std::vector<std::unique_ptr<ConvPlan>> plans(engines.size());
  std::vector<std::string> reasons(engines.size());
  std::atomic<size_t> next{0};
  Clock::time_point start = Clock::now();
  // A new thread begins with device 0. Without a device (plans for a described one) that fails, and
  // nothing needs it.
  int device = 0;
  bool has_device = cudaGetDevice(&device) == cudaSuccess;
  auto work = [&] {
    if (has_device) cudaSetDevice(device);
    for (size_t i = next++; i < engines.size(); i = next++) {
      if (i > 0 && Clock::now() - start > enough) return;
      try {
        plans[i] = graph.Build(engines[i], &reasons[i]);
      } catch (const std::exception& e) {
        reasons[i] = e.what();
      }
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  for (size_t i = 0; i < engines.size(); ++i) {
    if (!plans[i] && !reasons[i].empty()) *why = reasons[i];
  }
  return plans;
}

}  // namespace xp::graph::cuda
