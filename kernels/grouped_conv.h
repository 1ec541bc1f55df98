// Grouped 3 x 3 convolutions of padding 1 with as many outputs as inputs (ResNeXt's), forward and
// both gradients, in bf16 and fp16 with fp32 sums: bound by memory, not by arithmetic. For compute
// capability 8.0 and newer. All repeat bit for bit.
//
// A block keeps 64 channels and walks down a strip of columns, row by row; the rows that are next
// are under way in a ring in shared memory. The columns of all images lie side by side, with one
// column of zeros between them, so that strips are full whatever the width. Rows of strips are
// dealt out to blocks in equal shares, as many blocks as the device holds at once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/element_type.h"

namespace xp::kernels {

enum class GroupedConvKind { kForward, kDataGrad, kWeightGrad };

// x [n, h, w, c], y [n, p, q, c], weights [c, 3, 3, group] with p = (h - 1) / stride + 1.
struct GroupedConvShape {
  int n = 0, h = 0, w = 0, c = 0;
  int group = 0;  // channels
  int stride = 1;

  constexpr int p() const { return (h - 1) / stride + 1; }
  constexpr int q() const { return (w - 1) / stride + 1; }
};

struct GroupedConvPlan {
  GroupedConvKind kind = GroupedConvKind::kForward;
  GroupedConvShape shape;
  ElementType type = ElementType::kBF16;
  int pitch = 0;   // columns of y from one image to the next
  int strips = 0;  // of columns
  int units = 0;   // rows of a strip, that are dealt out
  int chunks = 0;  // of channels
  int parts = 0;   // blocks of a chunk
};

// 16-bit types, groups of 4, 8, 16 or 32 channels, c a multiple of 64, stride 1 or 2, and sizes
// that 31 bits hold.
bool GroupedConvFits(const GroupedConvShape& shape, ElementType type);
// For the current device, of that many multiprocessors. No parts: the device can't run it.
GroupedConvPlan PlanGroupedConv(GroupedConvKind kind, const GroupedConvShape& shape,
                                ElementType type, int multiprocessors);
size_t GroupedConvScratch(const GroupedConvPlan& plan);

// What is written is y, x or w (their gradients) by the plan's kind. Scratch need not be cleared.
void GroupedConv(const GroupedConvPlan& plan, void* x, void* w, void* y, void* scratch,
                 cudaStream_t stream);

}  // namespace xp::kernels
