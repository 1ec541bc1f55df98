// The models that are measured, ready to train.
#pragma once

#include <memory>
#include <string>

#include "exp/graph/graph.h"
#include "exp/models/model.h"

namespace xp::bench {

struct BenchModel {
  std::unique_ptr<models::Model> model;
  models::BatchShape shape;
};

// name: resnet50, resnext101, seresnext101, frcnn (800 x 1344), frcnn_small (480 x 640), ssd300.
BenchModel MakeBenchModel(const std::string& name, int batch);

// Forward, backward and SGD of one training step.
graph::Graph TrainingGraph(const BenchModel& m, graph::DType compute);

}  // namespace xp::bench
