// Times the kernels of kernels/*.cu by themselves on the shapes of ResNet-50 (batch 256) and of
// Faster R-CNN (800 x 1344, batch 16) in bf16: milliseconds, bytes that must be moved, TB/s, and
// the share of the speed of a plain copy measured in the same run. Each launch works on another set
// of buffers, so that nothing is found in the L2 cache that a training step wouldn't find there; a
// CUDA graph of several launches is replayed and the median taken.
//   exp_kernel_bench [part of a name]...
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/accumulate.h"
#include "kernels/affine.h"
#include "kernels/batch_norm.h"
#include "kernels/bias_grad.h"
#include "kernels/clip_grad.h"
#include "kernels/content_hash.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/global_avg_pool.h"
#include "kernels/grouped_conv.h"
#include "kernels/image_normalize.h"
#include "kernels/l2_norm.h"
#include "kernels/max_pool.h"
#include "kernels/norm_grad.h"
#include "kernels/optimizer.h"
#include "kernels/resample.h"
#include "kernels/scale_channels.h"
#include "kernels/stem_conv.h"

namespace {

using namespace xp::kernels;

constexpr auto kType = ElementType::kBF16;
constexpr size_t kElement = 2;

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Memory that is handed out set by set; filled with random numbers once.
class Pool {
 public:
  explicit Pool(size_t bytes) : bytes_(bytes) {
    Check(cudaMalloc(&data_, bytes));
    FillRandom(data_, bytes / kElement, kType, 1, nullptr);
    Check(cudaDeviceSynchronize());
  }
  ~Pool() { cudaFree(data_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void Reset() { used_ = 0; }
  bool Fits(size_t bytes) const { return used_ + bytes + 4096 <= bytes_; }
  template <typename T = void>
  T* Take(size_t bytes) {
    char* at = static_cast<char*>(data_) + used_;
    used_ += (bytes + 255) / 256 * 256;
    if (used_ > bytes_) {
      std::fprintf(stderr, "the pool is too small\n");
      std::exit(1);
    }
    return reinterpret_cast<T*>(at);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_, used_ = 0;
};

struct Bench {
  Pool pool{size_t{12} << 30};
  cudaStream_t stream = nullptr;
  int multiprocessors = 0;
  double copy_speed = 0;  // TB/s
  std::vector<std::string> wanted;
  unsigned* counters = nullptr;  // zeros

  using Launch = std::function<void()>;
  // `make` takes buffers from the pool and returns a launch of them.
  void Run(const std::string& name, double bytes, const std::function<Launch()>& make);
};

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

struct Shape {
  const char* model;
  int n, h, w, c;
  int64_t rows() const { return int64_t{n} * h * w; }
  size_t bytes() const { return static_cast<size_t>(rows()) * static_cast<size_t>(c) * kElement; }
  std::string text() const {
    char buffer[80];
    std::snprintf(buffer, sizeof buffer, "%s %dx%dx%dx%d", model, n, h, w, c);
    return buffer;
  }
};

const Shape kShapes[] = {
    {"r50", 256, 112, 112, 64},   {"r50", 256, 56, 56, 64},     {"r50", 256, 56, 56, 256},
    {"r50", 256, 28, 28, 128},    {"r50", 256, 28, 28, 512},    {"r50", 256, 14, 14, 256},
    {"r50", 256, 14, 14, 1024},   {"r50", 256, 7, 7, 512},      {"r50", 256, 7, 7, 2048},
    {"frcnn", 16, 200, 336, 256}, {"frcnn", 16, 100, 168, 512}, {"frcnn", 16, 50, 84, 256},
    {"frcnn", 16, 25, 42, 2048},
};

void Norms(Bench& b, const Shape& s) {
  const double map = static_cast<double>(s.bytes()), mask = map / 16;
  const size_t vector = static_cast<size_t>(s.c) * sizeof(float);
  const ColumnPlan forward = PlanBatchNorm(s.rows(), s.c, kType, b.multiprocessors);
  const ColumnPlan backward = PlanNormGrad(s.rows(), s.c, kType, b.multiprocessors);
  auto take_f32 = [&] { return b.pool.Take<float>(vector); };
  auto norm = [&](bool residual, bool apply) {
    return [&b, &s, take_f32, forward, residual, apply]() -> Bench::Launch {
      BatchNormArgs args{};
      args.x = b.pool.Take(s.bytes());
      args.residual = residual ? b.pool.Take(s.bytes()) : nullptr;
      args.y = apply ? b.pool.Take(s.bytes()) : nullptr;
      args.mask = b.pool.Take<uint8_t>(s.bytes() / 16);
      args.scale = take_f32(), args.bias = take_f32();
      args.mean_after = take_f32(), args.var_after = take_f32();
      args.mean = args.mean_after, args.var = args.var_after;
      args.save_mean = take_f32(), args.save_invstd = take_f32();
      args.eps = 1e-5f, args.momentum = 0.1f, args.relu = true;
      void* scratch = b.pool.Take(BatchNormScratch(forward));
      return [=, &b] { BatchNorm(args, forward, scratch, b.counters, kType, b.stream); };
    };
  };
  b.Run("bn statistics " + s.text(), map, norm(false, false));
  b.Run("bn relu " + s.text(), 3 * map + mask, norm(false, true));
  b.Run("bn add relu " + s.text(), 4 * map + mask, norm(true, true));
  auto grad = [&](bool residual, bool apply) {
    return [&b, &s, take_f32, backward, residual, apply]() -> Bench::Launch {
      NormGradArgs args{};
      args.dy = b.pool.Take(s.bytes());
      args.x = b.pool.Take(s.bytes());
      args.mask = b.pool.Take<uint8_t>(s.bytes() / 16);
      args.scale = take_f32(), args.mean = take_f32(), args.spread = take_f32();
      args.dx = apply ? b.pool.Take(s.bytes()) : nullptr;
      args.dresidual = residual ? b.pool.Take(s.bytes()) : nullptr;
      args.dscale = take_f32(), args.dbias = take_f32();
      void* scratch = b.pool.Take(NormGradScratch(backward));
      return [=, &b] { BatchNormGrad(args, backward, scratch, b.counters, kType, b.stream); };
    };
  };
  b.Run("bn grad sums " + s.text(), 2 * map + mask, grad(false, false));
  b.Run("bn grad " + s.text(), 5 * map + 2 * mask, grad(false, true));
  b.Run("bn grad residual " + s.text(), 6 * map + 2 * mask, grad(true, true));
  b.Run("affine relu " + s.text(), 2 * map + mask, [&]() -> Bench::Launch {
    AffineArgs args{};
    args.x = b.pool.Take(s.bytes()), args.y = b.pool.Take(s.bytes());
    args.mask = b.pool.Take<uint8_t>(s.bytes() / 16);
    args.scale = take_f32(), args.bias = take_f32(), args.mean = take_f32(), args.var = take_f32();
    args.eps = 1e-5f, args.relu = true;
    return [=, &b, &s] { Affine(args, s.rows(), s.c, kType, b.stream); };
  });
  b.Run("affine grad trained " + s.text(), 3 * map + mask, [&]() -> Bench::Launch {
    NormGradArgs args{};
    args.dy = b.pool.Take(s.bytes()), args.x = b.pool.Take(s.bytes());
    args.dx = b.pool.Take(s.bytes()), args.mask = b.pool.Take<uint8_t>(s.bytes() / 16);
    args.scale = take_f32(), args.mean = take_f32(), args.spread = take_f32();
    args.dscale = take_f32(), args.dbias = take_f32(), args.eps = 1e-5f;
    void* scratch = b.pool.Take(NormGradScratch(backward));
    return [=, &b] { AffineGrad(args, backward, scratch, b.counters, kType, b.stream); };
  });
}

void Maps(Bench& b, const Shape& s) {
  const int64_t n = s.rows() * s.c;
  const double map = static_cast<double>(s.bytes());
  b.Run("add " + s.text(), 3 * map, [&]() -> Bench::Launch {
    const void *x0 = b.pool.Take(s.bytes()), *x1 = b.pool.Take(s.bytes());
    void* y = b.pool.Take(s.bytes());
    return [=, &b] {
      const void* x[] = {x0, x1};
      Add(x, 2, y, n, false, kType, b.stream);
    };
  });
  b.Run("relu grad " + s.text(), 3 * map, [&]() -> Bench::Launch {
    const void *dy = b.pool.Take(s.bytes()), *y = b.pool.Take(s.bytes());
    void* dx = b.pool.Take(s.bytes());
    return [=, &b] { ReluGrad(dy, y, dx, n, kType, b.stream); };
  });
  const ColumnPlan plan = PlanBiasGrad(s.rows(), s.c, kType, b.multiprocessors);
  b.Run("bias grad " + s.text(), map, [&]() -> Bench::Launch {
    const void* dy = b.pool.Take(s.bytes());
    auto* db = b.pool.Take<float>(static_cast<size_t>(s.c) * 4);
    void* scratch = b.pool.Take(BiasGradScratch(plan));
    return [=, &b] { BiasGrad(dy, db, plan, scratch, b.counters, kType, b.stream); };
  });
  const size_t squeezed = static_cast<size_t>(s.n) * static_cast<size_t>(s.c) * kElement;
  b.Run("global pool " + s.text(), map, [&]() -> Bench::Launch {
    const void* x = b.pool.Take(s.bytes());
    void* y = b.pool.Take(squeezed);
    return [=, &b, &s] { GlobalAvgPool(x, y, s.n, s.h * s.w, s.c, kType, b.stream); };
  });
  b.Run("global pool grad " + s.text(), map, [&]() -> Bench::Launch {
    const void* dy = b.pool.Take(squeezed);
    void* dx = b.pool.Take(s.bytes());
    return [=, &b, &s] { GlobalAvgPoolGrad(dy, dx, s.n, s.h * s.w, s.c, kType, b.stream); };
  });
  b.Run("scale channels " + s.text(), 2 * map, [&]() -> Bench::Launch {
    const void *x = b.pool.Take(s.bytes()), *f = b.pool.Take(squeezed);
    void* y = b.pool.Take(s.bytes());
    return [=, &b, &s] { ScaleChannels(x, f, y, s.n, s.h * s.w, s.c, kType, b.stream); };
  });
  b.Run("scale channels grad " + s.text(), 3 * map, [&]() -> Bench::Launch {
    const void *dy = b.pool.Take(s.bytes()), *x = b.pool.Take(s.bytes());
    const void* f = b.pool.Take(squeezed);
    void *dx = b.pool.Take(s.bytes()), *ds = b.pool.Take(squeezed);
    return
        [=, &b, &s] { ScaleChannelsGrad(dy, x, f, dx, ds, s.n, s.h * s.w, s.c, kType, b.stream); };
  });
}

void Pooling(Bench& b, const char* model, const MapShape& in, const MapShape& out) {
  auto bytes_of = [](const MapShape& s) {
    return static_cast<size_t>(s.n) * static_cast<size_t>(s.h * s.w) * static_cast<size_t>(s.c) *
           kElement;
  };
  const size_t big = bytes_of(in), small = bytes_of(out);
  const double bytes = static_cast<double>(big) + 1.5 * static_cast<double>(small);
  const PoolWindow window{3, 2, 1};
  b.Run(std::string("max pool ") + model, bytes, [&]() -> Bench::Launch {
    const void* x = b.pool.Take(big);
    void* y = b.pool.Take(small);
    auto* argmax = b.pool.Take<uint8_t>(small / 2);
    return [=, &b] { MaxPool(x, y, argmax, in, out, window, kType, b.stream); };
  });
  b.Run(std::string("max pool grad ") + model, bytes, [&]() -> Bench::Launch {
    void* dx = b.pool.Take(big);
    const void* dy = b.pool.Take(small);
    const auto* argmax = b.pool.Take<uint8_t>(small / 2);
    return [=, &b] { MaxPoolGrad(dy, argmax, dx, in, out, window, kType, b.stream); };
  });
}

void Stem(Bench& b, const char* model, int n, int h, int w) {
  if (!StemConvRuns()) return;
  const StemShape s{n, h, w, (h - 1) / 2 + 1, (w - 1) / 2 + 1};
  const size_t image = size_t{3} * n * h * w * kElement,
               map = size_t{64} * n * s.p * s.q * kElement;
  auto run = [&](const char* name, bool grad) {
    b.Run(std::string(name) + model, static_cast<double>(image + map),
          [&, grad]() -> Bench::Launch {
            void *x = b.pool.Take(image), *f = b.pool.Take(64 * 147 * kElement),
                 *y = b.pool.Take(map);
            void* scratch = b.pool.Take(StemConvGradScratch(s, b.multiprocessors));
            return [=, &b] {
              if (grad) StemConvGrad(x, y, f, s, b.multiprocessors, scratch, kType, b.stream);
              if (!grad) StemConv(x, f, nullptr, y, s, false, b.multiprocessors, kType, b.stream);
            };
          });
  };
  run("stem ", false), run("stem grad ", true);
}

void Upsampling(Bench& b) {
  const MapShape top{16, 100, 168, 256}, out{16, 200, 336, 256};
  const size_t small = size_t{16} * 100 * 168 * 256 * kElement, big = small * 4;
  const auto big_bytes = static_cast<double>(big), small_bytes = static_cast<double>(small);
  b.Run("upsample add frcnn", 2 * big_bytes + small_bytes, [&]() -> Bench::Launch {
    const void *t = b.pool.Take(small), *lateral = b.pool.Take(big);
    void* y = b.pool.Take(big);
    return [=, &b] { UpsampleAdd(t, lateral, y, top, out, kType, b.stream); };
  });
  b.Run("upsample grad frcnn", big_bytes + small_bytes, [&]() -> Bench::Launch {
    const void* dy = b.pool.Take(big);
    void* dtop = b.pool.Take(small);
    return [=, &b] { UpsampleGrad(dy, dtop, top, out, kType, b.stream); };
  });
}

void Images(Bench& b) {
  const size_t values = size_t{16} * 800 * 1344 * 3;
  std::vector<int32_t> sizes;
  for (int i = 0; i < 16; ++i) sizes.insert(sizes.end(), {800, 1333});
  int32_t* device_sizes = nullptr;
  Check(cudaMalloc(reinterpret_cast<void**>(&device_sizes), sizes.size() * sizeof(int32_t)));
  Check(cudaMemcpy(device_sizes, sizes.data(), sizes.size() * sizeof(int32_t),
                   cudaMemcpyHostToDevice));
  b.Run("image normalize frcnn 16x800x1344", static_cast<double>(values) * 3,
        [&]() -> Bench::Launch {
          const auto* x = b.pool.Take<uint8_t>(values);
          void* y = b.pool.Take(values * kElement);
          return [=, &b] {
            ImageNormalize(x, device_sizes, y, 16, 800, 1344, {0.485f, 0.456f, 0.406f},
                           {0.229f, 0.224f, 0.225f}, kType, b.stream);
          };
        });
  cudaFree(device_sizes);
}

void Classification(Bench& b) {
  constexpr int kRows = 256, kClasses = 1000;
  const size_t bytes = size_t{kRows} * kClasses * kElement;
  b.Run("cross-entropy 256x1000", 2.0 * static_cast<double>(bytes), [&]() -> Bench::Launch {
    CrossEntropyArgs args{};
    args.logits = b.pool.Take(bytes);
    auto* labels = b.pool.Take<int32_t>(kRows * 4);
    Check(cudaMemset(labels, 0, kRows * 4));
    args.labels = labels;
    args.loss = b.pool.Take<float>(4), args.dlogits = b.pool.Take(bytes);
    args.correct = b.pool.Take<int32_t>(8);
    void* scratch = b.pool.Take(CrossEntropyScratch(kRows));
    return [=, &b] {
      SoftmaxCrossEntropy(args, kRows, kClasses, scratch, b.counters, kType, b.stream);
    };
  });
  const int64_t rows = int64_t{128} * 38 * 38;
  const size_t map = static_cast<size_t>(rows) * 512 * kElement;
  b.Run("l2 norm ssd 128x38x38x512", 2.0 * static_cast<double>(map), [&]() -> Bench::Launch {
    const void* x = b.pool.Take(map);
    const auto* scale = b.pool.Take<float>(512 * 4);
    void* y = b.pool.Take(map);
    return [=, &b] { L2Norm(x, scale, y, rows, 512, kType, b.stream); };
  });
  const ColumnPlan plan = PlanL2NormGrad(rows, 512, kType, b.multiprocessors);
  b.Run("l2 norm grad ssd 128x38x38x512", 5.0 * static_cast<double>(map), [&]() -> Bench::Launch {
    const void *dy = b.pool.Take(map), *x = b.pool.Take(map);
    const auto* scale = b.pool.Take<float>(512 * 4);
    void* dx = b.pool.Take(map);
    auto* dscale = b.pool.Take<float>(512 * 4);
    void* scratch = b.pool.Take(L2NormGradScratch(plan));
    return [=, &b] {
      L2NormGrad(dy, x, scale, dx, dscale, plan, scratch, b.counters, kType, b.stream);
    };
  });
}

// ResNeXt-101-32x4d's 3 x 3 convolutions: the bytes of x and y.
void GroupedConvs(Bench& b) {
  const GroupedConvShape shapes[] = {
      {256, 56, 56, 128, 4, 1},   {256, 28, 28, 256, 8, 1}, {256, 14, 14, 512, 16, 1},
      {256, 7, 7, 1024, 32, 1},   {256, 56, 56, 256, 8, 2}, {256, 28, 28, 512, 16, 2},
      {256, 14, 14, 1024, 32, 2},
  };
  const std::pair<GroupedConvKind, const char*> kinds[] = {
      {GroupedConvKind::kForward, "forward"},
      {GroupedConvKind::kDataGrad, "data"},
      {GroupedConvKind::kWeightGrad, "weight"},
  };
  for (const GroupedConvShape& s : shapes) {
    const auto n = static_cast<size_t>(s.n), c = static_cast<size_t>(s.c) * kElement;
    const size_t x_bytes = n * static_cast<size_t>(s.h * s.w) * c;
    const size_t y_bytes = n * static_cast<size_t>(s.p() * s.q()) * c;
    for (const auto& [kind, name] : kinds) {
      const GroupedConvPlan plan = PlanGroupedConv(kind, s, kType, b.multiprocessors);
      char text[80];
      std::snprintf(text, sizeof text, "grouped %s %dx%dx%dx%d s%d", name, s.n, s.h, s.w, s.c,
                    s.stride);
      b.Run(text, static_cast<double>(x_bytes + y_bytes), [&]() -> Bench::Launch {
        void *x = b.pool.Take(x_bytes), *y = b.pool.Take(y_bytes);
        void* w = b.pool.Take(c * 9 * static_cast<size_t>(s.group));
        void* scratch = b.pool.Take(GroupedConvScratch(plan));
        return [=, &b] { GroupedConv(plan, x, w, y, scratch, b.stream); };
      });
    }
  }
}

// 25.6 M parameters: 54 convolutions' worth of large segments and 106 small ones.
void Updates(Bench& b) {
  std::vector<UpdateChunk> chunks;
  int64_t at = 0;
  auto add = [&](int64_t count, bool compute) {
    for (int64_t begin = 0; begin < count; begin += kUpdateChunk) {
      chunks.push_back(
          {.begin = at + begin,
           .count = static_cast<int32_t>(std::min<int64_t>(kUpdateChunk, count - begin)),
           .segment = 0,
           .lr_multiplier = 1,
           .decay = 1e-4f,
           .compute_grad = compute ? 1 : 0});
    }
    at += (count + 63) / 64 * 64;
  };
  for (int i = 0; i < 53; ++i) {
    add(480000 + i * 64, true);
    add(512, false);
    add(512, false);
  }
  const auto n = static_cast<size_t>(at);
  UpdateChunk* list = nullptr;
  Check(cudaMalloc(reinterpret_cast<void**>(&list), chunks.size() * sizeof(UpdateChunk)));
  Check(
      cudaMemcpy(list, chunks.data(), chunks.size() * sizeof(UpdateChunk), cudaMemcpyHostToDevice));
  const int count = static_cast<int>(chunks.size());
  const auto elements = static_cast<double>(n);
  float* one = nullptr;
  Check(cudaMalloc(reinterpret_cast<void**>(&one), 4));
  const float value = 1e-3f;
  Check(cudaMemcpy(one, &value, 4, cudaMemcpyHostToDevice));
  auto common = [&] {
    UpdateCommon c{};
    c.gradients = {b.pool.Take<float>(n * 4), b.pool.Take(n * kElement), nullptr};
    c.lr = one, c.factor = one, c.max_value = 0;
    c.param = b.pool.Take<float>(n * 4), c.param_compute = b.pool.Take(n * kElement);
    return c;
  };
  b.Run("sgd 25.6M", elements * 20, [&]() -> Bench::Launch {
    const SgdArgs args{common(), b.pool.Take<float>(n * 4), 0.9f, false, nullptr};
    return [=, &b] { Sgd(args, list, count, kType, b.stream); };
  });
  b.Run("adam 25.6M", elements * 28, [&]() -> Bench::Launch {
    const AdamArgs args{common(),
                        b.pool.Take<float>(n * 4),
                        b.pool.Take<float>(n * 4),
                        b.pool.Take<float>(4),
                        0.9f,
                        0.999f,
                        1e-8f,
                        true};
    void* scratch = b.pool.Take(kAdamScratch);
    return [=, &b] { Adam(args, list, count, scratch, kType, b.stream); };
  });
  b.Run("clip grad 25.6M", elements * 2, [&]() -> Bench::Launch {
    ClipGradArgs args{};
    args.gradients = {b.pool.Take<float>(n * 4), b.pool.Take(n * kElement), nullptr};
    args.factor = b.pool.Take<float>(4), args.norm = b.pool.Take<float>(4);
    args.max_norm = 1, args.inverse_count = 1;
    void* scratch = b.pool.Take(ClipGradScratch(count));
    return [=, &b] { ClipGrad(args, list, count, scratch, b.counters, kType, b.stream); };
  });
  b.Run("cast params 25.6M", elements * 6, [&]() -> Bench::Launch {
    const void* x = b.pool.Take(n * 4);
    void* y = b.pool.Take(n * kElement);
    return [=, &b] { Cast(x, ElementType::kF32, y, kType, static_cast<int64_t>(n), b.stream); };
  });
  cudaFree(list);
  cudaFree(one);
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
  for (const Shape& s : kShapes) Norms(b, s);
  for (const Shape& s : {kShapes[2], kShapes[3], kShapes[8], kShapes[9]}) Maps(b, s);
  Pooling(b, "r50 256x112x112x64", {256, 112, 112, 64}, {256, 56, 56, 64});
  Pooling(b, "frcnn 16x400x672x64", {16, 400, 672, 64}, {16, 200, 336, 64});
  Stem(b, "r50 256x224x224", 256, 224, 224);
  Stem(b, "frcnn 16x800x1344", 16, 800, 1344);
  Upsampling(b);
  GroupedConvs(b);
  Images(b);
  Classification(b);
  Updates(b);
  Check(cudaDeviceSynchronize());
  cudaFree(b.counters);
  cudaStreamDestroy(b.stream);
  return 0;
}
