// Making many plans of one graph at once: some engines are compiled when their plan is made, which
// takes a core up to a second each.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "src/graph/cuda/conv_graph.h"

namespace xp::graph::cuda {

// A plan for each engine, null where it can't be made (`why` then has a reason) or where `enough`
// time had passed before its turn. On all cores, at most 16; with cuDNN's own way of sharing a
// graph between threads (its sample parallel_compilation.cpp). Engines() must have been asked
// before.
std::vector<std::unique_ptr<ConvPlan>> BuildPlans(ConvGraph& graph,
                                                  const std::vector<std::string>& engines,
                                                  std::chrono::milliseconds enough,
                                                  std::string* why);

}  // namespace xp::graph::cuda
