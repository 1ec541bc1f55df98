// Rewrites of a whole training step, forward, backward and update, for devices on which memory
// traffic decides: a Program runs those that its backend asks for, unless the graph forbids it
// (Graph::fusible()). Each keeps the step's meaning; what it does to rounding is said here.
#pragma once

#include <cstdint>
#include <string>

#include "exp/graph/graph.h"

namespace xp::graph {

struct StepPasses {
  // A sum of gradients is made by the batch norm below it while it reads them: two passes over the
  // map less. The same bits as without.
  bool sums = false;
  // Two batch norms whose results are added (a block with a downsampling branch) are applied at
  // once: two passes less forward, two backward. The sum is rounded once instead of twice.
  bool pairs = false;
  // A batch norm, its ReLU and the 3x3 max pool after it (the stem) are one pass forward, and two
  // passes over the norm's input backward. The same values; sums in another order, and of maxima
  // that only rounding makes equal the greatest counts instead of the first.
  bool pool = false;
  // Squeeze-and-excitation after a batch norm, the shortcut's addition and the ReLU become the
  // norm's two passes: 4 instead of 11 times the map forward, 7 instead of 18 backward. What lay
  // between is no longer rounded.
  bool squeeze = false;
  // Batch statistics of 1x1 convolutions that widen (K >= 2 C) from the Gram matrix of their input:
  // forward without the statistics' pass over y, backward without reading y and without a pass that
  // applies the gradient. Statistics are those of y before rounding; the gradient of the
  // convolution's input is a sum of two rounded terms.
  bool gram = false;
  // The data gradient of a 1x1 convolution, what else flows into its input and the sums are one
  // kernel with tensor cores (bf16): two passes over the widest maps less. After gram and sums.
  bool dgrad = false;
  // The same where maps are fp32 and products tf32.
  bool dgrad_tf32 = false;
  // The data gradient of a 1x1 convolution of stride 2 is made for the quarter of the pixels where
  // it isn't 0, and added there by what sums it up. The same values. After sums and dgrad.
  bool strided = false;
  // For gram: where y has fewer bytes, what it costs isn't worth it.
  int64_t gram_bytes = 80 << 20;
};

void RunStepPasses(Graph& g, const StepPasses& passes);

// `all` without those that the environment variable EXP_FUSION_OFF names: "all", or names as above
// with commas between. Throws UsageError for another name.
StepPasses AllowedStepPasses(StepPasses all);
// Of `all` those that StepPassesText() named. Throws UsageError for another name.
StepPasses RecordedStepPasses(StepPasses all, const std::string& text);
// Those that are on, with commas between; "none".
std::string StepPassesText(const StepPasses& passes);

}  // namespace xp::graph
