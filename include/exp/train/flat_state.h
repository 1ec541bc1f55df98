// The whole state of a model in training, as the flat buffers hold it, and its named form for
// files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exp/base/hash.h"
#include "exp/graph/params.h"

namespace xp::train {

struct FlatState {
  std::vector<float> params, states, optimizer;  // optimizer: slots x params.size()
};

struct NamedTensor {
  std::string name;
  graph::Shape shape;
  std::vector<float> values;
};

// "rpn.head.conv.0.0.weight", running statistics, and for slot k of the optimizer
// "optimizer.<slot name k>.<parameter>" ("ema.<parameter>" for the averages); each in file order.
std::vector<NamedTensor> ExportState(const graph::ParamLayout& layout, const FlatState& state,
                                     const std::vector<std::string>& slot_names);
// The shape that files give a parameter or a statistic; none where the model has no such tensor.
std::optional<graph::Shape> ShapeInFiles(const graph::ParamLayout& layout, const std::string& name);
// Whether a tensor of a file fits: timm's 1x1 convolutions are our matrices, a trailing 1x1 is no
// difference.
bool SameShape(graph::Shape a, graph::Shape b);
// Where a named tensor belongs; false when the model has no such tensor. Throws UsageError naming
// both shapes when they differ (a trailing 1x1 is no difference), `where` being the file.
bool ImportTensor(const graph::ParamLayout& layout, const NamedTensor& tensor,
                  const std::vector<std::string>& slot_names, const std::string& where,
                  FlatState* state);

// What an epoch's record compares: parameters with running statistics, and the optimizer's state.
Hash128 WeightsHash(const FlatState& state);
Hash128 OptimizerHash(const FlatState& state);

// Whether no value is infinite or NaN.
bool AllFinite(const std::vector<float>& values);

}  // namespace xp::train
