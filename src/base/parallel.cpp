#include "exp/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>

#include "exp/base/resources.h"

namespace xp {

std::vector<std::thread> StartThreads(int count, const std::function<void(int thread)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(std::max(0, count)));
  try {
    for (int t = 0; t < count; ++t) threads.emplace_back(body, t);
  } catch (const std::system_error&) {  // a limit of threads, or of memory for their stacks
  }
  return threads;
}

int OnThreads(int threads, const std::function<void(int thread)>& body) {
  if (threads <= 0) threads = UsableCpus();
  std::mutex mutex;
  std::exception_ptr problem;
  auto guarded = [&](int thread) {
    try {
      body(thread);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!problem) problem = std::current_exception();
    }
  };
  std::vector<std::thread> others = StartThreads(threads - 1, [&](int t) { guarded(t + 1); });
  guarded(0);
  for (std::thread& thread : others) thread.join();
  if (problem) std::rethrow_exception(problem);
  return static_cast<int>(others.size()) + 1;
}

void ForEachInParallel(size_t count, int threads, const std::function<void(size_t)>& body) {
  if (count == 0) return;
  if (threads <= 0) threads = UsableCpus();
  threads = static_cast<int>(std::min<size_t>(static_cast<size_t>(threads), count));
  std::atomic<size_t> next{0};
  OnThreads(threads, [&](int) {
    try {
      for (size_t i; (i = next.fetch_add(1)) < count;) body(i);
    } catch (...) {
      next = count;
      throw;
    }
  });
}

void ForEachInParallel(size_t count, int threads, const std::function<void(size_t)>& body,
                       const std::function<void(int64_t done, int64_t total)>& progress) {
  if (!progress) return ForEachInParallel(count, threads, body);
  std::mutex mutex;
  int64_t done = 0;
  ForEachInParallel(count, threads, [&](size_t i) {
    body(i);
    std::lock_guard lock(mutex);
    progress(++done, static_cast<int64_t>(count));
  });
}

}  // namespace xp
