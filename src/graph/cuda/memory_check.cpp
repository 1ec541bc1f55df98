#include "exp/graph/memory_check.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/memory_pattern_cuda.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/device.h"

namespace xp::graph {
namespace {

// Gives back what it holds, whatever happens.
struct Chunks {
  std::vector<std::pair<uint64_t*, size_t>> all;  // words
  unsigned long long* mismatches = nullptr;
  cudaStream_t stream = nullptr;
  ~Chunks() {
    if (stream != nullptr) cudaStreamDestroy(stream);
    for (auto& [data, count] : all) cudaFree(data);
    cudaFree(mismatches);
  }
};

// Half a gigabyte is left alone: contexts and libraries of other processes grow.
constexpr size_t kLeave = size_t{512} << 20;
constexpr size_t kChunk = size_t{2} << 30;

void TakeFree(uint64_t max_bytes, Chunks& chunks, MemoryCheck& result) {
  for (;;) {
    size_t free_bytes = 0, total = 0;
    cuda::Check(cudaMemGetInfo(&free_bytes, &total), "asking for free memory");
    size_t left = static_cast<size_t>(std::min<uint64_t>(max_bytes - result.bytes, kChunk));
    size_t take = free_bytes > kLeave ? std::min(left, free_bytes - kLeave) : 0;
    take = take / 8 * 8;
    void* data = nullptr;
    if (take < (size_t{1} << 20)) return;
    if (cudaMalloc(&data, take) != cudaSuccess) {  // fragmented: what was had so far is tested
      cudaGetLastError();
      return;
    }
    chunks.all.emplace_back(static_cast<uint64_t*>(data), take / 8);
    result.bytes += take;
  }
}

}  // namespace

MemoryCheck CheckCudaMemory(int device, uint64_t max_bytes, int rounds, StopFlag stop) {
  cuda::OpenDevice(device);
  auto start = std::chrono::steady_clock::now();
  MemoryCheck result{.rounds = rounds};
  Chunks chunks;
  cuda::Check(cudaStreamCreateWithFlags(&chunks.stream, cudaStreamNonBlocking),
              "creating a stream");
  void* counter = nullptr;
  cuda::Check(cudaMalloc(&counter, sizeof(*chunks.mismatches)), "allocating a counter");
  chunks.mismatches = static_cast<unsigned long long*>(counter);
  cuda::Check(cudaMemsetAsync(chunks.mismatches, 0, sizeof(*chunks.mismatches), chunks.stream),
              "clearing a counter");
  TakeFree(max_bytes, chunks, result);
  for (int round = 0; round < rounds; ++round) {
    // All of it is written before any is read, so that an address that aliases another shows.
    uint64_t first = 0;
    for (auto& [data, count] : chunks.all) {
      kernels::FillPattern(data, count, first, round, chunks.stream);
      first += count;
    }
    first = 0;
    for (auto& [data, count] : chunks.all) {
      kernels::CountMismatches(data, count, first, round, chunks.mismatches, chunks.stream);
      first += count;
    }
    cuda::Check(cudaGetLastError(), "testing memory");
    cuda::Check(cudaStreamSynchronize(chunks.stream), "testing memory");
    ThrowIfStopped(stop);
  }
  unsigned long long bad = 0;
  cuda::Check(
      cudaMemcpyAsync(&bad, chunks.mismatches, sizeof(bad), cudaMemcpyDeviceToHost, chunks.stream),
      "reading a counter");
  cuda::Check(cudaStreamSynchronize(chunks.stream), "testing memory");
  result.bad_words = bad;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace xp::graph
