// The matrix file of `exp bench` (configs/bench/, docs/bench.md).
#pragma once

#include <string>
#include <vector>

#include "exp/bench/row.h"
#include "exp/config/node.h"

namespace xp::bench {

struct LoaderPart {
  std::string images;  // folder of JPEGs; empty: drawn ones
  int count = 256;     // files
  int size = 224;      // pixels of what comes out
  std::vector<int> workers, batches;
};
struct EndToEndPart : LoaderPart {
  std::vector<std::string> models, precisions;
  int epochs = 3;  // 2 or more: the first stands apart
  int images_an_epoch = 2048;
};

struct Matrix {
  std::vector<Case> cases;    // kind "step", in the order to be measured
  std::vector<Case> largest;  // likewise, those whose largest batch is searched
  int largest_batch_limit = 4096;
  std::vector<Case> loader, end_to_end;  // of these kinds; empty where they aren't asked for
  LoaderPart loader_part;
  EndToEndPart end_to_end_part;
  std::vector<std::string> torch_modes{"eager"};
};

// The product of all lists, or of those of each of its `parts`; `base` gives what the file doesn't
// say. Throws UsageError with file:line:column for what it can't be, unknown keys and unknown
// models included.
Matrix ReadMatrix(const config::Node& root, const Case& base);
// The peer's cases: each once a mode, since exp's captured and fused steps have no counterpart
// there.
std::vector<Case> TorchCases(const Matrix& matrix);

}  // namespace xp::bench
