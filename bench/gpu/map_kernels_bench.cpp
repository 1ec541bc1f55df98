// Kernels that pass over maps: norms, element-wise operations, pooling, images, losses.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "bench/gpu/kernel_bench.h"
#include "kernels/affine.h"
#include "kernels/batch_norm.h"
#include "kernels/bias_grad.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/global_avg_pool.h"
#include "kernels/image_normalize.h"
#include "kernels/l2_norm.h"
#include "kernels/max_pool.h"
#include "kernels/norm_grad.h"
#include "kernels/norm_join.h"
#include "kernels/resample.h"
#include "kernels/scale_channels.h"

namespace xp::bench {

using namespace kernels;  // what is measured

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
  auto join = [&](bool gate) {
    return [&b, &s, take_f32, gate]() -> Bench::Launch {
      NormJoinArgs args{};
      for (NormBranch* branch : {&args.a, &args.b}) {
        *branch = {b.pool.Take(s.bytes()), take_f32(), take_f32(), take_f32(), take_f32()};
      }
      args.gate = gate ? b.pool.Take(static_cast<size_t>(s.n) * s.c * kElement) : nullptr;
      args.pixels = s.h * s.w;
      args.y = b.pool.Take(s.bytes());
      args.mask = b.pool.Take<uint8_t>(s.bytes() / 16);
      args.relu = true;
      return [=, &b, &s] { NormJoin(args, s.rows(), s.c, kType, b.stream); };
    };
  };
  b.Run("join of two norms " + s.text(), 3 * map + mask, join(false));
  b.Run("join of two norms, gate " + s.text(), 3 * map + mask, join(true));
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

}  // namespace xp::bench
