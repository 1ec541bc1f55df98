#include "bench/gpu/bench_model.h"

#include "exp/base/error.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/models/classifier.h"
#include "exp/models/faster_rcnn.h"
#include "exp/models/ssd.h"
#include "exp/train/update.h"

namespace xp::bench {

BenchModel MakeBenchModel(const std::string& name, int batch) {
  models::ClassifierOptions classifier;
  if (name == "resnext101" || name == "seresnext101") {
    classifier.backbone.depth = 101;
    classifier.backbone.groups = 32;
    classifier.backbone.width_per_group = 4;
    classifier.backbone.squeeze_excite = name == "seresnext101";
  }
  if (name == "resnet50" || name == "resnext101" || name == "seresnext101") {
    return {models::MakeClassifier(classifier), {batch, 224, 224, 0}};
  }
  if (name == "frcnn" || name == "frcnn_small") {
    models::FasterRcnnOptions options = models::TorchvisionFasterRcnn(50, 80);
    models::BatchShape shape{batch, 800, 1344, 32};
    if (name == "frcnn_small") shape = {batch, 480, 640, 32};
    return {models::MakeFasterRcnn(options), shape};
  }
  if (name == "ssd300") {
    models::SsdOptions options;
    options.num_classes = 80;
    return {models::MakeSsd300(options), {batch, 300, 300, 32}};
  }
  throw UsageError(
      {.what = "there is no model " + name,
       .expected = "resnet50, resnext101, seresnext101, frcnn, frcnn_small or ssd300"});
}

graph::Graph TrainingGraph(const BenchModel& m, graph::DType compute) {
  graph::Graph g(std::make_shared<graph::ParamLayout>(), compute);
  m.model->BuildTraining(g, m.shape);
  graph::RunPasses(g, {});
  graph::AppendBackward(g);
  train::OptimizerOptions sgd;
  sgd.lr = 0.02;
  train::AppendUpdate(g, sgd);
  return g;
}

}  // namespace xp::bench
