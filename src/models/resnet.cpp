#include "exp/models/resnet.h"

#include <algorithm>
#include <stdexcept>

namespace xp::models {
namespace {

using graph::Graph;
using graph::TensorId;

// One network under construction.
class Builder {
 public:
  Builder(Graph& g, std::string prefix, const ResNetOptions& o, bool training)
      : g_(g), prefix_(std::move(prefix)), o_(o), training_(training) {}

  std::vector<TensorId> Build(TensorId image) {
    trainable_ = o_.frozen_stages < 1;
    TensorId x = ConvNorm(image, "conv1", "bn1",
                          {.out_channels = o_.base_channels, .kernel = 7, .stride = 2, .pad = 3});
    x = graph::Relu(g_, x, prefix_ + "relu");
    x = graph::MaxPool(g_, x, {.kernel = 3, .stride = 2, .pad = 1}, prefix_ + "maxpool");
    std::vector<TensorId> outputs;
    std::vector<int> blocks = o_.blocks.empty() ? Blocks(o_.depth) : o_.blocks;
    for (int stage = 0; stage < 4; ++stage) {
      trainable_ = o_.frozen_stages < stage + 2;
      int planes = o_.base_channels << stage;
      for (int i = 0; i < blocks[static_cast<size_t>(stage)]; ++i) {
        std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".";
        x = Block(x, name, planes, i == 0 && stage > 0 ? 2 : 1);
      }
      outputs.push_back(x);
    }
    return outputs;
  }

 private:
  static std::vector<int> Blocks(int depth) {
    switch (depth) {
      case 18:
        return {2, 2, 2, 2};
      case 34:
      case 50:
        return {3, 4, 6, 3};
      case 101:
        return {3, 4, 23, 3};
      case 152:
        return {3, 8, 36, 3};
      default:
        throw std::logic_error("no ResNet of that depth");
    }
  }

  TensorId Conv(TensorId x, const std::string& name, graph::ConvOptions c) {
    c.trainable = trainable_;
    c.init = graph::KaimingNormalFanOut(c.out_channels, c.kernel, c.groups);
    return graph::Conv2d(g_, x, prefix_ + name, c);
  }

  TensorId ConvNorm(TensorId x, const std::string& conv, const std::string& norm,
                    graph::ConvOptions c, float scale = 1) {
    graph::NormOptions n{.mode = o_.norm,
                         .eps = o_.norm_eps,
                         .momentum = o_.norm_momentum,
                         .scale_init = {graph::InitKind::kConstant, scale}};
    if (!training_ && n.mode == graph::NormMode::kTrain) n.mode = graph::NormMode::kEval;
    if (!trainable_) n.mode = graph::NormMode::kFrozen;
    return graph::BatchNorm(g_, Conv(x, conv, c), prefix_ + norm, n);
  }

  // Of the norm that ends a block's residual.
  float LastScale() const { return o_.zero_init_residual ? 0.0f : 1.0f; }

  TensorId Block(TensorId x, const std::string& name, int planes, int stride) {
    int out = o_.bottleneck() ? planes * 4 : planes;
    TensorId shortcut = x;
    TensorId y =
        o_.bottleneck() ? Bottleneck(x, name, planes, stride) : Basic(x, name, planes, stride);
    if (stride != 1 || g_.tensor(x).shape.back() != out) {
      shortcut = ConvNorm(x, name + "downsample.0", name + "downsample.1",
                          {.out_channels = out, .kernel = 1, .stride = stride});
    }
    y = graph::Add(g_, {y, shortcut}, prefix_ + name + "add");
    y = graph::Relu(g_, y, prefix_ + name + "relu");
    if (o_.checkpoint_blocks && training_) g_.MakeAgain(x, y);
    return y;
  }

  TensorId Basic(TensorId x, const std::string& name, int planes, int stride) {
    TensorId y = ConvNorm(x, name + "conv1", name + "bn1",
                          {.out_channels = planes, .kernel = 3, .stride = stride, .pad = 1});
    y = graph::Relu(g_, y, prefix_ + name + "relu1");
    return ConvNorm(y, name + "conv2", name + "bn2",
                    {.out_channels = planes, .kernel = 3, .pad = 1}, LastScale());
  }

  // The stride sits on the 3x3 convolution ("ResNet v1.5") unless the style is Caffe's.
  TensorId Bottleneck(TensorId x, const std::string& name, int planes, int stride) {
    int width = planes * o_.width_per_group / 64 * o_.groups;
    int first = o_.stride_in_first ? stride : 1, second = o_.stride_in_first ? 1 : stride;
    TensorId y =
        ConvNorm(x, name + "conv1", name + "bn1", {.out_channels = width, .stride = first});
    y = graph::Relu(g_, y, prefix_ + name + "relu1");
    y = ConvNorm(
        y, name + "conv2", name + "bn2",
        {.out_channels = width, .kernel = 3, .stride = second, .pad = 1, .groups = o_.groups});
    y = graph::Relu(g_, y, prefix_ + name + "relu2");
    y = ConvNorm(y, name + "conv3", name + "bn3", {.out_channels = planes * 4}, LastScale());
    return o_.squeeze_excite ? SqueezeExcite(y, name + "se.", planes * 4) : y;
  }

  TensorId SqueezeExcite(TensorId x, const std::string& name, int channels) {
    int squeezed = channels / 16;
    TensorId s = graph::GlobalAvgPool(g_, x, prefix_ + name + "pool");
    graph::Init init1 = graph::LinearDefault(channels), init2 = graph::LinearDefault(squeezed);
    s = graph::Linear(g_, s, prefix_ + name + "fc1",
                      {.out_features = squeezed, .init = init1, .bias_init = init1});
    s = graph::Relu(g_, s, prefix_ + name + "relu");
    s = graph::Linear(g_, s, prefix_ + name + "fc2",
                      {.out_features = channels, .init = init2, .bias_init = init2});
    return graph::ScaleChannels(g_, x, graph::Sigmoid(g_, s, prefix_ + name + "sigmoid"),
                                prefix_ + name + "scale");
  }

  Graph& g_;
  std::string prefix_;
  const ResNetOptions& o_;
  bool training_;
  bool trainable_ = true;
};

}  // namespace

std::vector<TensorId> ResNet(Graph& g, TensorId image, const std::string& prefix,
                             const ResNetOptions& options, bool training) {
  return Builder(g, prefix, options, training).Build(image);
}

}  // namespace xp::models
