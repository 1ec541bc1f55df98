// Convolutions of our own: a ResNet's first layer and ResNeXt's groups.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "bench/gpu/kernel_bench.h"
#include "kernels/conv3x3_wgrad.h"
#include "kernels/grouped_conv.h"
#include "kernels/stem_conv.h"

namespace xp::bench {

using namespace kernels;  // what is measured

void Stem(Bench& b, const char* model, int n, int h, int w, ElementType type) {
  if (!StemConvRuns()) return;
  const StemShape s{n, h, w, (h - 1) / 2 + 1, (w - 1) / 2 + 1};
  const size_t element = type == ElementType::kF32 ? 4 : 2;
  const size_t image = size_t{3} * n * h * w * element, map = size_t{64} * n * s.p * s.q * element;
  auto run = [&](const char* name, bool grad) {
    b.Run(
        std::string(name) + model, static_cast<double>(image + map), [&, grad]() -> Bench::Launch {
          void *x = b.pool.Take(image), *f = b.pool.Take(64 * 147 * element), *y = b.pool.Take(map);
          void* scratch = b.pool.Take(StemConvGradScratch(s, b.multiprocessors));
          return [=, &b] {
            if (grad) StemConvGrad(x, y, f, s, b.multiprocessors, scratch, kType, b.stream);
            if (!grad) StemConv(x, f, nullptr, y, s, false, b.multiprocessors, type, b.stream);
          };
        });
  };
  run("stem ", false), run("stem grad ", true);
}

// ResNet-50's 3 x 3 weight gradients in tf32: the bytes of x and dy.
void Conv3x3Wgrads(Bench& b) {
  for (const Conv3x3Shape& s :
       {Conv3x3Shape{256, 56, 56, 64, 64}, Conv3x3Shape{256, 28, 28, 128, 128},
        Conv3x3Shape{256, 14, 14, 256, 256}, Conv3x3Shape{256, 7, 7, 512, 512}}) {
    const Conv3x3WgradPlan plan = PlanConv3x3Wgrad(s, b.multiprocessors);
    if (plan.parts == 0) return;
    const size_t map = size_t{4} * s.n * s.h * s.w * s.c;
    char text[80];
    std::snprintf(text, sizeof text, "3x3 weight tf32 %dx%dx%dx%d", s.n, s.h, s.w, s.c);
    b.Run(text, 2.0 * static_cast<double>(map), [&]() -> Bench::Launch {
      auto *x = static_cast<float*>(b.pool.Take(map)), *dy = static_cast<float*>(b.pool.Take(map));
      auto* dw = static_cast<float*>(b.pool.Take(size_t{36} * s.c * s.k));
      void* scratch = b.pool.Take(Conv3x3WgradScratch(plan));
      return [=, &b] { Conv3x3Wgrad(plan, x, dy, dw, scratch, b.stream); };
    });
  }
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

}  // namespace xp::bench
