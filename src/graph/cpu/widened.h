// bf16 and f16 on the CPU: an operation's fp32 kernel between two conversions. What ops.h says of
// the compute type, fp32 arithmetic on narrow tensors, is then true by construction. Convolutions
// and products, where the time goes, have kernels of their own where the processor has the
// instructions.
#pragma once

#include <memory>

#include "src/graph/cpu/kernel.h"

namespace xp::graph::cpu {

// `make` makes the kernel of the same operation on fp32 tensors; null when it has none.
std::unique_ptr<Kernel> MakeWidened(const Context& context, const Graph& g, const Op& op,
                                    Factory make);

}  // namespace xp::graph::cpu
