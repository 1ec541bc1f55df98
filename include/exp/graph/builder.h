// What models say: each function infers the result's shape, adds the operation and returns the
// result. Names become names of parameters ("<name>.weight") and of operations in profiles.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exp/graph/graph.h"

namespace xp::graph {

struct ConvOptions {
  int out_channels = 0;
  int kernel = 1, stride = 1, pad = 0, dilation = 1, groups = 1;
  bool bias = false;
  bool trainable = true;
  Init init{};       // of the weight
  Init bias_init{};  // of the bias
};

enum class NormMode {
  kTrain,   // batch statistics, running statistics updated
  kEval,    // running statistics; scale and bias still trained in a training graph
  kFrozen,  // running statistics; nothing trained (torchvision's FrozenBatchNorm2d)
};
struct NormOptions {
  NormMode mode = NormMode::kTrain;
  float eps = 1e-5f, momentum = 0.1f;
  Init scale_init{InitKind::kConstant, 1};
};

TensorId ImageNormalize(Graph& g, TensorId images, TensorId sizes, const NormalizeAttrs& attrs);
TensorId Conv2d(Graph& g, TensorId x, const std::string& name, const ConvOptions& options);
// Parameters <name>.weight, <name>.bias, state <name>.running_mean, <name>.running_var.
TensorId BatchNorm(Graph& g, TensorId x, const std::string& name, const NormOptions& options);
TensorId Relu(Graph& g, TensorId x, const std::string& name);
TensorId Sigmoid(Graph& g, TensorId x, const std::string& name);
TensorId Add(Graph& g, std::vector<TensorId> xs, const std::string& name);
TensorId MaxPool(Graph& g, TensorId x, const PoolAttrs& attrs, const std::string& name);
TensorId GlobalAvgPool(Graph& g, TensorId x, const std::string& name);
TensorId UpsampleAdd(Graph& g, TensorId top, TensorId lateral, const std::string& name);
TensorId Subsample(Graph& g, TensorId x, const std::string& name);
TensorId ScaleChannels(Graph& g, TensorId x, TensorId scale, const std::string& name);
TensorId L2Norm(Graph& g, TensorId x, const std::string& name, float init);

struct LinearOptions {
  int out_features = 0;
  Init init{}, bias_init{};
  Shape chw;  // not empty: the input is a flattened [H, W, C] map, given here as {C, H, W}
};
// x [M, ...] is taken as a matrix [M, K].
TensorId Linear(Graph& g, TensorId x, const std::string& name, const LinearOptions& options);

// Initial values as torch's: kaiming_normal_(fan_out, relu), kaiming_uniform_(a), nn.Linear's
// default.
Init KaimingNormalFanOut(int out_channels, int kernel, int groups);
Init KaimingUniform(int fan_in, float a);
Init LinearDefault(int fan_in);  // of weight and of bias alike

int ConvOutputSize(int size, int kernel, int stride, int pad, int dilation);
int PoolOutputSize(int size, const PoolAttrs& attrs);

}  // namespace xp::graph
