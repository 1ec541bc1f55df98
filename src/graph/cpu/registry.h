// Finds the CPU kernel of an operation. Three lists, one for each family of operations; each
// returns null for operations that aren't its own.
#pragma once

#include "src/graph/cpu/kernel.h"

namespace xp::graph::cpu {

std::unique_ptr<Kernel> MakeNnKernel(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeDetectionKernel(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeUpdateKernel(const Context&, const Graph&, const Op&);

// Throws UsageError when the CPU has no such kernel, or not for this type.
std::unique_ptr<Kernel> MakeKernel(const Context&, const Graph&, const Op&);

}  // namespace xp::graph::cpu
