#include "exp/graph/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "exp/base/error.h"

namespace xp::graph {
namespace {

// A window that its map has no place for: what it would give has no pixels.
void RequirePlace(const std::string& name, const Shape& in, int window, int pad) {
  if (std::min(in[1], in[2]) + 2 * pad >= window) return;
  throw UsageError(
      {.what = fmt::format("the images are too small for this network: at `{}` a window of {} x {} "
                           "is to slide over a map of {} x {} pixels",
                           name, window, window, in[2], in[1]),
       .expected = "images of about the size that the network is made for",
       .next = "look at img_scale, at the crops, or at --height and --width of `exp bench`"});
}

}  // namespace

int ConvOutputSize(int size, int kernel, int stride, int pad, int dilation) {
  return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

int PoolOutputSize(int size, const PoolAttrs& a) {
  int span = size + 2 * a.pad - a.kernel;
  int out = (a.ceil ? (span + a.stride - 1) / a.stride : span / a.stride) + 1;
  // torch: a window that would start in the right padding is dropped.
  if (a.ceil && (out - 1) * a.stride >= size + a.pad) --out;
  return out;
}

Init KaimingNormalFanOut(int out_channels, int kernel, int groups) {
  float fan_out = static_cast<float>(out_channels) * kernel * kernel / groups;
  return {InitKind::kNormal, std::sqrt(2.0f / fan_out)};
}

Init KaimingUniform(int fan_in, float a) {
  return {InitKind::kUniform, std::sqrt(6.0f / ((1 + a * a) * static_cast<float>(fan_in)))};
}

Init LinearDefault(int fan_in) {
  return {InitKind::kUniform, 1.0f / std::sqrt(static_cast<float>(fan_in))};
}

TensorId ImageNormalize(Graph& g, TensorId images, TensorId sizes, const NormalizeAttrs& attrs) {
  TensorId y = g.AddTemp("image", g.tensor(images).shape);
  g.AddOp(OpType::kImageNormalize, {images, sizes}, {y}, attrs, "normalize");
  return y;
}

TensorId Conv2d(Graph& g, TensorId x, const std::string& name, const ConvOptions& o) {
  Shape in = g.tensor(x).shape;
  RequirePlace(name, in, o.dilation * (o.kernel - 1) + 1, o.pad);
  int height = ConvOutputSize(static_cast<int>(in[1]), o.kernel, o.stride, o.pad, o.dilation);
  int width = ConvOutputSize(static_cast<int>(in[2]), o.kernel, o.stride, o.pad, o.dilation);
  TensorId w = g.AddParam({.name = name + ".weight",
                           .shape = {o.out_channels, o.kernel, o.kernel, in[3] / o.groups},
                           .layout = WeightLayout::kConv,
                           .init = o.init,
                           .trainable = o.trainable},
                          true);
  TensorId bias = kNoTensor;
  if (o.bias) {
    bias = g.AddParam({.name = name + ".bias",
                       .shape = {o.out_channels},
                       .init = o.bias_init,
                       .trainable = o.trainable,
                       .is_bias = true},
                      false);
  }
  TensorId y = g.AddTemp(name, {in[0], height, width, o.out_channels});
  ConvAttrs attrs{{o.stride, o.stride}, {o.pad, o.pad}, {o.dilation, o.dilation}, o.groups, false};
  g.AddOp(OpType::kConv2d, {x, w, bias}, {y}, attrs, name);
  return y;
}

TensorId BatchNorm(Graph& g, TensorId x, const std::string& name, const NormOptions& o) {
  Shape shape = g.tensor(x).shape;
  Shape channels{shape.back()};
  bool trainable = o.mode != NormMode::kFrozen;
  TensorId scale = g.AddParam({.name = name + ".weight",
                               .shape = channels,
                               .init = o.scale_init,
                               .trainable = trainable,
                               .is_norm = true},
                              false);
  TensorId bias = g.AddParam({.name = name + ".bias",
                              .shape = channels,
                              .trainable = trainable,
                              .is_norm = true,
                              .is_bias = true},
                             false);
  TensorId mean = g.AddState({name + ".running_mean", channels, 0});
  TensorId var = g.AddState({name + ".running_var", channels, 1});
  TensorId y = g.AddTemp(name, shape);
  NormAttrs attrs{o.eps, o.momentum, false};
  if (o.mode == NormMode::kTrain) {
    TensorId save_mean = g.AddTemp(name + ".mean", channels, DType::kF32);
    TensorId save_invstd = g.AddTemp(name + ".invstd", channels, DType::kF32);
    g.AddOp(OpType::kBatchNorm, {x, scale, bias, mean, var, kNoTensor},
            {y, save_mean, save_invstd, kNoTensor, mean, var}, attrs, name);
  } else {
    g.AddOp(OpType::kAffine, {x, scale, bias, mean, var, kNoTensor}, {y, kNoTensor}, attrs, name);
  }
  return y;
}

namespace {

TensorId SameShape(Graph& g, OpType type, std::vector<TensorId> inputs, OpAttrs attrs,
                   const std::string& name) {
  TensorId y = g.AddTemp(name, g.tensor(inputs[0]).shape);
  g.AddOp(type, std::move(inputs), {y}, std::move(attrs), name);
  return y;
}

}  // namespace

TensorId Relu(Graph& g, TensorId x, const std::string& name) {
  return SameShape(g, OpType::kRelu, {x}, NoAttrs{}, name);
}

TensorId Sigmoid(Graph& g, TensorId x, const std::string& name) {
  return SameShape(g, OpType::kSigmoid, {x}, NoAttrs{}, name);
}

TensorId Add(Graph& g, std::vector<TensorId> xs, const std::string& name) {
  return SameShape(g, OpType::kAdd, std::move(xs), ReluAttrs{}, name);
}

TensorId MaxPool(Graph& g, TensorId x, const PoolAttrs& attrs, const std::string& name) {
  Shape in = g.tensor(x).shape;
  if (!attrs.ceil) RequirePlace(name, in, attrs.kernel, attrs.pad);  // else a part of it is enough
  TensorId y = g.AddTemp(name, {in[0], PoolOutputSize(static_cast<int>(in[1]), attrs),
                                PoolOutputSize(static_cast<int>(in[2]), attrs), in[3]});
  g.AddOp(OpType::kMaxPool, {x}, {y, kNoTensor}, attrs, name);
  return y;
}

TensorId GlobalAvgPool(Graph& g, TensorId x, const std::string& name) {
  Shape in = g.tensor(x).shape;
  TensorId y = g.AddTemp(name, {in[0], in[3]});
  g.AddOp(OpType::kGlobalAvgPool, {x}, {y}, NoAttrs{}, name);
  return y;
}

TensorId UpsampleAdd(Graph& g, TensorId top, TensorId lateral, const std::string& name) {
  TensorId y = g.AddTemp(name, g.tensor(lateral).shape);
  g.AddOp(OpType::kUpsampleAdd, {top, lateral}, {y}, NoAttrs{}, name);
  return y;
}

TensorId Subsample(Graph& g, TensorId x, const std::string& name) {
  Shape in = g.tensor(x).shape;
  TensorId y = g.AddTemp(name, {in[0], (in[1] + 1) / 2, (in[2] + 1) / 2, in[3]});
  g.AddOp(OpType::kSubsample, {x}, {y}, NoAttrs{}, name);
  return y;
}

TensorId ScaleChannels(Graph& g, TensorId x, TensorId scale, const std::string& name) {
  return SameShape(g, OpType::kScaleChannels, {x, scale}, NoAttrs{}, name);
}

TensorId L2Norm(Graph& g, TensorId x, const std::string& name, float init) {
  TensorId scale = g.AddParam({.name = name + ".weight",
                               .shape = {g.tensor(x).shape.back()},
                               .init = {InitKind::kConstant, init},
                               .is_norm = true},
                              false);
  return SameShape(g, OpType::kL2Norm, {x, scale}, NoAttrs{}, name);
}

TensorId Linear(Graph& g, TensorId x, const std::string& name, const LinearOptions& o) {
  const Shape& in = g.tensor(x).shape;
  int64_t rows = in[0];
  int64_t columns = NumElements(in) / rows;
  TensorId w =
      g.AddParam({.name = name + ".weight",
                  .shape = {o.out_features, columns},
                  .layout = o.chw.empty() ? WeightLayout::kPlain : WeightLayout::kLinearHwc,
                  .chw = o.chw,
                  .init = o.init},
                 true);
  TensorId bias = g.AddParam(
      {.name = name + ".bias", .shape = {o.out_features}, .init = o.bias_init, .is_bias = true},
      false);
  TensorId y = g.AddTemp(name, {rows, o.out_features});
  g.AddOp(OpType::kLinear, {x, w, bias}, {y}, ReluAttrs{}, name);
  return y;
}

}  // namespace xp::graph
