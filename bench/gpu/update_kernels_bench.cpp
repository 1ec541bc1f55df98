// What an optimizer does after the gradients.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "bench/gpu/kernel_bench.h"
#include "kernels/clip_grad.h"
#include "kernels/elementwise.h"
#include "kernels/optimizer.h"

namespace xp::bench {

using namespace kernels;  // what is measured

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
           .grad_begin = at + begin,
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

}  // namespace xp::bench
