// Times the kernels of kernels/*.cu by themselves on the shapes of ResNet-50 (batch 256) and of
// Faster R-CNN (800 x 1344, batch 16) in bf16: milliseconds, bytes that must be moved, TB/s, and
// the share of the speed of a plain copy measured in the same run. Each launch works on another set
// of buffers, so that nothing is found in the L2 cache that a training step wouldn't find there; a
// CUDA graph of several launches is replayed and the median taken.
//   exp_kernel_bench [part of a name]...
#include "bench/gpu/kernel_bench.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/content_hash.h"

namespace xp::bench {

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

Pool::Pool(size_t bytes) : bytes_(bytes) {
  Check(cudaMalloc(&data_, bytes));
  kernels::FillRandom(data_, bytes / kElement, kType, 1, nullptr);
  Check(cudaDeviceSynchronize());
}

char* Pool::TakeBytes(size_t bytes) {
  char* at = static_cast<char*>(data_) + used_;
  used_ += (bytes + 255) / 256 * 256;
  if (used_ > bytes_) {
    std::fprintf(stderr, "the pool is too small\n");
    std::exit(1);
  }
  return at;
}

namespace {

double MedianMilliseconds(cudaStream_t stream, const std::vector<Bench::Launch>& launches) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (const auto& launch : launches) launch();
  Check(cudaStreamEndCapture(stream, &graph));
  Check(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t begin = nullptr, end = nullptr;
  Check(cudaEventCreate(&begin));
  Check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 9; ++i) {
    Check(cudaEventRecord(begin, stream));
    Check(cudaGraphLaunch(exec, stream));
    Check(cudaEventRecord(end, stream));
    Check(cudaEventSynchronize(end));
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 2) times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]) / static_cast<double>(launches.size());
}

}  // namespace

void Bench::Run(const std::string& name, double bytes, const std::function<Launch()>& make) {
  bool asked = wanted.empty();
  for (const std::string& part : wanted) asked = asked || name.find(part) != std::string::npos;
  if (!asked) return;
  // Sets of buffers until they are far larger than the L2 cache, then the same ones again.
  pool.Reset();
  constexpr double kFar = 1.5e9;
  const int sets = std::clamp(static_cast<int>(kFar / bytes) + 1, 2, 24);
  std::vector<Launch> launches;
  for (int i = 0; i < sets && pool.Fits(static_cast<size_t>(bytes * 1.5)); ++i) {
    launches.push_back(make());
  }
  const size_t different = launches.size();
  while (launches.size() < 8) {
    const Launch again = launches[launches.size() % different];
    launches.push_back(again);
  }
  const double ms = MedianMilliseconds(stream, launches);
  const double speed = bytes / (ms * 1e9);
  if (copy_speed == 0) copy_speed = speed;
  std::printf("%-44s %9.4f %9.1f %7.2f %5.0f%%\n", name.c_str(), ms, bytes * 1e-6, speed,
              100 * speed / copy_speed);
  std::fflush(stdout);
}

}  // namespace xp::bench

namespace {

using xp::bench::Bench;
using xp::bench::Check;
using xp::bench::Shape;

const Shape kShapes[] = {
    {"r50", 256, 112, 112, 64},   {"r50", 256, 56, 56, 64},     {"r50", 256, 56, 56, 256},
    {"r50", 256, 28, 28, 128},    {"r50", 256, 28, 28, 512},    {"r50", 256, 14, 14, 256},
    {"r50", 256, 14, 14, 1024},   {"r50", 256, 7, 7, 512},      {"r50", 256, 7, 7, 2048},
    {"frcnn", 16, 200, 336, 256}, {"frcnn", 16, 100, 168, 512}, {"frcnn", 16, 50, 84, 256},
    {"frcnn", 16, 25, 42, 2048},
};

void RunAll(Bench& b) {
  for (const Shape& s : kShapes) Norms(b, s);
  for (const Shape& s : {kShapes[2], kShapes[3], kShapes[8], kShapes[9]}) Maps(b, s);
  Pooling(b, "r50 256x112x112x64", {256, 112, 112, 64}, {256, 56, 56, 64});
  Pooling(b, "frcnn 16x400x672x64", {16, 400, 672, 64}, {16, 200, 336, 64});
  Stem(b, "r50 256x224x224", 256, 224, 224, xp::bench::kType);
  Stem(b, "r50 tf32 256x224x224", 256, 224, 224, xp::kernels::ElementType::kF32);
  Stem(b, "frcnn 16x800x1344", 16, 800, 1344, xp::bench::kType);
  Upsampling(b);
  Conv3x3Wgrads(b);
  GroupedConvs(b);
  Images(b);
  Classification(b);
  Updates(b);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::printf("exp_kernel_bench [part of a kernel's name]...\n");
    return 0;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "exp_kernel_bench needs an NVIDIA GPU\n");
    return 1;
  }
  Bench b;
  cudaDeviceProp device{};
  Check(cudaGetDeviceProperties(&device, 0));
  b.multiprocessors = device.multiProcessorCount;
  Check(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
  Check(cudaMalloc(reinterpret_cast<void**>(&b.counters), 4096 * sizeof(unsigned)));
  Check(cudaMemset(b.counters, 0, 4096 * sizeof(unsigned)));
  Check(cudaDeviceSynchronize());
  std::printf("%s\n%-44s %9s %9s %7s %6s\n", device.name, "kernel", "ms", "MB", "TB/s", "of copy");
  const size_t copied = size_t{1} << 30;
  b.Run("copy 1 GiB", 2.0 * static_cast<double>(copied), [&]() -> Bench::Launch {
    const void* from = b.pool.Take(copied);
    void* to = b.pool.Take(copied);
    return
        [=, &b] { Check(cudaMemcpyAsync(to, from, copied, cudaMemcpyDeviceToDevice, b.stream)); };
  });
  for (int i = 1; i < argc; ++i) b.wanted.emplace_back(argv[i]);
  RunAll(b);
  Check(cudaDeviceSynchronize());
  cudaFree(b.counters);
  cudaStreamDestroy(b.stream);
  return 0;
}
