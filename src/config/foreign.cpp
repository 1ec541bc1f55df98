#include "exp/config/foreign.h"

namespace xp::config {

std::optional<ForeignKey> FindForeignKey(const Node& root) {
  static constexpr const char* kMmengine = "mmdetection 3 (mmengine)";
  static constexpr const char* kMmcv = "mmdetection 2 (mmcv)";
  static constexpr const char* kDetectron = "detectron2";
  static constexpr const char* kPaddle = "PaddleDetection";
  static constexpr struct {
    const char *path, *project;
  } kKeys[] = {{"train_dataloader", kMmengine},
               {"val_dataloader", kMmengine},
               {"test_dataloader", kMmengine},
               {"default_scope", kMmengine},
               {"default_hooks", kMmengine},
               {"optim_wrapper", kMmengine},
               {"param_scheduler", kMmengine},
               {"dist_params", kMmcv},
               {"workflow", kMmcv},
               {"custom_imports", kMmcv},
               // Data parts, and their wrappers such as RepeatDataset.
               {"data.train.pipeline", kMmcv},
               {"data.train.dataset", kMmcv},
               {"MODEL", kDetectron},
               {"SOLVER", kDetectron},
               {"DATASETS", kDetectron},
               {"DATALOADER", kDetectron},
               {"INPUT", kDetectron},
               {"architecture", kPaddle},
               {"TrainReader", kPaddle},
               {"TrainDataset", kPaddle},
               {"EvalDataset", kPaddle},
               {"TestDataset", kPaddle},
               {"EvalReader", kPaddle},
               {"TestReader", kPaddle},
               {"LearningRate", kPaddle},
               {"OptimizerBuilder", kPaddle},
               {"pretrain_weights", kPaddle},
               {"slim", kPaddle},
               {"use_gpu", kPaddle},
               {"metric", kPaddle}};
  for (const auto& key : kKeys) {
    if (root.At(key.path) != nullptr) return ForeignKey{key.project, key.path};
  }
  return std::nullopt;
}

}  // namespace xp::config
