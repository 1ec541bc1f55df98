// How grouped_conv.cu finds the kernels of grouped_conv_*.cu.
#pragma once

#include "kernels/grouped_conv.h"

namespace xp::kernels::grouped {

// Two are read, the last is written: x, w, y; dy, w, dx; x, dy, partial weight gradients.
using Kernel = void (*)(GroupedConvPlan, const void*, const void*, void*);

struct Choice {
  Kernel kernel = nullptr;
  int shared_bytes = 0;
};

Choice ForwardChoice(const GroupedConvShape& shape, ElementType type);  // data gradient of stride 1
Choice StridedDataGradChoice(const GroupedConvShape& shape, ElementType type);
Choice WeightGradChoice(const GroupedConvShape& shape, ElementType type);

inline constexpr int kBlockThreads = 256;

// Of all parts of a weight gradient, and their sum in the order of parts.
size_t PartialBytes(const GroupedConvPlan& plan);
void AddPartials(const GroupedConvPlan& plan, const void* partial, void* dw, cudaStream_t stream);

}  // namespace xp::kernels::grouped
