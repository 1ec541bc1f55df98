// Work of many independent pieces on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace xp {

// Up to `count` threads that run body(0), body(1), ...: fewer where the system refuses more, none
// at worst. Whoever calls joins them.
std::vector<std::thread> StartThreads(int count, const std::function<void(int thread)>& body);

// body(thread) on `threads` threads at once, thread 0 .. threads - 1; the first one is the
// caller's. Where the system refuses more threads, on those that it gave. Returns how many there
// were, after all have ended; then throws the first exception of any. threads <= 0: UsableCpus().
int OnThreads(int threads, const std::function<void(int thread)>& body);

// body(0) .. body(count - 1), each once, in any order, on at most `threads` threads. After an
// exception no further piece is begun.
void ForEachInParallel(size_t count, int threads, const std::function<void(size_t)>& body);
// The same; `progress` hears behind each piece how many are done, from one thread at a time. It may
// be empty.
void ForEachInParallel(size_t count, int threads, const std::function<void(size_t)>& body,
                       const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace xp
