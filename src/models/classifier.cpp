#include "exp/models/classifier.h"

namespace xp::models {
namespace {

using graph::DType;
using graph::Graph;
using graph::kNoTensor;
using graph::OpType;
using graph::TensorId;

class Classifier : public Model {
 public:
  explicit Classifier(const ClassifierOptions& options) : o_(options) {}

  Task task() const override { return Task::kClassification; }
  int num_classes() const override { return o_.num_classes; }
  std::vector<LossTerm> losses() const override { return {{"loss_classifier", "loss", 0}}; }

  void BuildTraining(Graph& g, const BatchShape& shape) const override {
    TensorId logits = Logits(g, shape, true);
    g.AddInput("step_key", {4}, DType::kU32);
    TensorId labels = g.AddInput("labels", {shape.n}, DType::kI32);
    TensorId loss_scale = kNoTensor;
    if (g.compute() == DType::kF16) loss_scale = g.AddState({"loss_scale", {1}, 65536});
    TensorId grad = g.AddTemp("d logits", g.tensor(logits).shape);
    g.SeedGradient(logits, grad);
    g.AddOp(OpType::kSoftmaxCrossEntropy, {logits, labels, loss_scale},
            {g.AddOutput("loss", {1}, DType::kF32), grad, g.AddOutput("correct", {2}, DType::kI32)},
            graph::CrossEntropyAttrs{o_.label_smoothing}, "loss");
  }

  void BuildEvaluation(Graph& g, const BatchShape& shape) const override {
    TensorId logits = Logits(g, shape, false);
    TensorId out = g.AddOutput("logits", g.tensor(logits).shape, DType::kF32);
    g.AddOp(OpType::kCast, {logits}, {out}, graph::NoAttrs{}, "logits");
  }

 private:
  TensorId Logits(Graph& g, const BatchShape& shape, bool training) const {
    TensorId images = g.AddInput("images", {shape.n, shape.height, shape.width, 3}, DType::kU8);
    TensorId sizes = g.AddInput("sizes", {shape.n, 2}, DType::kI32);
    TensorId x = graph::ImageNormalize(g, images, sizes, o_.normalize);
    x = graph::GlobalAvgPool(g, ResNet(g, x, "", o_.backbone, training).back(), "avgpool");
    graph::Init init = graph::LinearDefault(static_cast<int>(g.tensor(x).shape[1]));
    return graph::Linear(g, x, "fc",
                         {.out_features = o_.num_classes, .init = init, .bias_init = init});
  }

  ClassifierOptions o_;
};

}  // namespace

std::unique_ptr<Model> MakeClassifier(const ClassifierOptions& options) {
  return std::make_unique<Classifier>(options);
}

}  // namespace xp::models
