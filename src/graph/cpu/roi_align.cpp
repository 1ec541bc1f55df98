// RoIAlign over the levels of a pyramid, and its gradient. Weights are products of one factor an
// axis (kernels/roi_geometry.h): a bin is a small matrix of pixels, each read once. Source: He et
// al., "Mask R-CNN", ICCV 2017; torchvision 0.26, ops/poolers.py and
// csrc/ops/cpu/roi_align_kernel.cpp.
#include "kernels/roi_geometry.h"

#include <algorithm>
#include <cstring>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

using kernels::Box;

constexpr int kSlice = 128;  // channels a task of the gradient

XP_SIMD_CLONES void AddScaled(float* __restrict sum, const float* __restrict x, float weight,
                              int count) {
#pragma omp simd
  for (int i = 0; i < count; ++i) sum[i] += weight * x[i];
}

// The pixels that one bin reads along one axis: first, first + 1, ... with their weights, which
// contain the division by the number of samples.
struct AxisBin {
  int first = 0;
  std::vector<float> weights;
};

AxisBin MakeAxisBin(float start, float bin, int grid, int index, int size) {
  AxisBin out;
  float share = 1.0f / static_cast<float>(std::max(grid, 1));
  for (int i = 0; i < grid; ++i) {
    kernels::AxisSample s = kernels::SampleAxis(start, bin, grid, index, i, size);
    if (s.low_weight == 0 && s.high_weight == 0) continue;
    if (out.weights.empty()) out.first = s.low;  // samples ascend
    size_t at = static_cast<size_t>(s.low - out.first);
    if (out.weights.size() < at + 2) out.weights.resize(at + 2, 0.0f);
    out.weights[at] += s.low_weight * share;
    out.weights[at + 1] += s.high_weight * share;
  }
  // The pixel after the last one has weight 0.
  while (!out.weights.empty() && out.weights.back() == 0) out.weights.pop_back();
  return out;
}

// All that a box needs to be pooled.
struct RoiPlan {
  int level = 0;
  std::vector<AxisBin> rows, columns;
};

RoiPlan MakePlan(const Box& box, const kernels::RoiParams& params) {
  kernels::RoiGeometry g = kernels::MakeRoiGeometry(box, params);
  RoiPlan plan{g.level, {}, {}};
  for (int i = 0; i < params.output; ++i) {
    plan.rows.push_back(MakeAxisBin(g.start_y, g.bin_y, g.grid_y, i, params.height[g.level]));
    plan.columns.push_back(MakeAxisBin(g.start_x, g.bin_x, g.grid_x, i, params.width[g.level]));
  }
  return plan;
}

// Calls visit(bin number, pixel number, weight) for every pixel of every bin, in order.
template <typename Visit>
void ForEachWeight(const RoiPlan& plan, int width, const Visit& visit) {
  size_t bin = 0;
  for (const AxisBin& rows : plan.rows) {
    for (const AxisBin& columns : plan.columns) {
      for (size_t y = 0; y < rows.weights.size(); ++y) {
        size_t row = (static_cast<size_t>(rows.first) + y) * static_cast<size_t>(width);
        for (size_t x = 0; x < columns.weights.size(); ++x) {
          float weight = rows.weights[y] * columns.weights[x];
          if (weight != 0) visit(bin, row + static_cast<size_t>(columns.first) + x, weight);
        }
      }
      ++bin;
    }
  }
}

int RoiCount(const RoiAlignShapes& s, const int32_t* counts, int image) {
  const int32_t* c = counts + static_cast<ptrdiff_t>(image) * s.count_stride;
  return std::clamp(s.count_stride == 1 ? c[0] : c[0] + c[1], 0, s.rois);
}

class RoiAlign final : public Kernel {
 public:
  RoiAlign(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), s_(MakeRoiAlignShapes(g, op)) {}

  void Run(const KernelArgs& args) override {
    size_t levels = static_cast<size_t>(s_.params.levels);
    const Box* rois = args.In<Box>(levels);
    const int32_t* counts = args.In<int32_t>(levels + 1);
    size_t channels = static_cast<size_t>(s_.channels);
    size_t row = static_cast<size_t>(s_.params.output * s_.params.output) * channels;
    int rows = s_.images * s_.rois;
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 8)
    for (int r = 0; r < rows; ++r) {
      int image = r / s_.rois;
      float* y = args.Out<float>(0) + static_cast<size_t>(r) * row;
      std::memset(y, 0, row * sizeof(float));
      if (r - image * s_.rois >= RoiCount(s_, counts, image)) continue;
      RoiPlan plan = MakePlan(rois[r], s_.params);
      int width = s_.params.width[plan.level];
      const float* map = args.In<float>(static_cast<size_t>(plan.level)) +
                         static_cast<size_t>(image) * channels *
                             static_cast<size_t>(s_.params.height[plan.level] * width);
      ForEachWeight(plan, width, [&](size_t bin, size_t pixel, float weight) {
        AddScaled(y + bin * channels, map + pixel * channels, weight, s_.channels);
      });
    }
  }

 private:
  int threads_;
  RoiAlignShapes s_;
};

class RoiAlignGrad final : public Kernel {
 public:
  RoiAlignGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), s_(MakeRoiAlignShapes(g, op)) {}

  // A task owns some channels of an image and adds its boxes in order: no two write the same place.
  void Run(const KernelArgs& args) override {
    int slices = (s_.channels + kSlice - 1) / kSlice;
    int tasks = s_.images * slices;
    for (int l = 0; l < s_.params.levels; ++l) {
      std::memset(args.out[static_cast<size_t>(l)], 0,
                  sizeof(float) * static_cast<size_t>(s_.images) * MapElements(l));
    }
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int task = 0; task < tasks; ++task) {
      AddImage(args, task / slices, (task % slices) * kSlice);
    }
  }

 private:
  size_t MapElements(int level) const {
    return static_cast<size_t>(s_.params.height[level]) *
           static_cast<size_t>(s_.params.width[level]) * static_cast<size_t>(s_.channels);
  }

  void AddImage(const KernelArgs& args, int image, int first_channel) const {
    size_t channels = static_cast<size_t>(s_.channels), first = static_cast<size_t>(first_channel);
    int some = std::min(kSlice, s_.channels - first_channel);
    const Box* rois = args.In<Box>(1);
    int count = RoiCount(s_, args.In<int32_t>(2), image);
    size_t row = static_cast<size_t>(s_.params.output * s_.params.output) * channels;
    for (int i = 0; i < count; ++i) {
      size_t r = static_cast<size_t>(image) * static_cast<size_t>(s_.rois) + static_cast<size_t>(i);
      RoiPlan plan = MakePlan(rois[r], s_.params);
      const float* dy = args.In<float>(0) + r * row + first;
      float* map = args.Out<float>(static_cast<size_t>(plan.level)) +
                   static_cast<size_t>(image) * MapElements(plan.level) + first;
      ForEachWeight(plan, s_.params.width[plan.level], [&](size_t bin, size_t pixel, float weight) {
        AddScaled(map + pixel * channels, dy + bin * channels, weight, some);
      });
    }
  }

  int threads_;
  RoiAlignShapes s_;
};

}  // namespace

std::unique_ptr<Kernel> MakeRoiAlign(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RoiAlign>(context, g, op);
}

std::unique_ptr<Kernel> MakeRoiAlignGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RoiAlignGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
