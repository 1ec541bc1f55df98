#include "exp/models/zoo.h"

#include "exp/base/error.h"
#include "exp/models/classifier.h"
#include "exp/models/faster_rcnn.h"
#include "exp/models/ssd.h"

namespace xp::models {

const std::vector<ZooEntry>& Zoo() {
  static const std::vector<ZooEntry> entries{
      {"resnet18", 224, 224, 0},
      {"resnet50", 224, 224, 0},
      {"resnet101", 224, 224, 0},
      {"resnext50_32x4d", 224, 224, 0},
      {"resnext101_32x4d", 224, 224, 0},
      {"se_resnext101_32x4d", 224, 224, 0},
      {"fasterrcnn_resnet50_fpn", 800, 1344, 8},
      {"ssd300_vgg16", 300, 300, 8},
  };
  return entries;
}

const ZooEntry& FindInZoo(const std::string& name) {
  std::string names;
  for (const ZooEntry& entry : Zoo()) {
    if (entry.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw UsageError({.what = "there is no model `" + name + "`", .expected = "one of " + names});
}

std::unique_ptr<Model> CreateFromZoo(const std::string& name) {
  FindInZoo(name);
  if (name.starts_with("fasterrcnn")) return MakeFasterRcnn(TorchvisionFasterRcnn(50, 90));
  if (name.starts_with("ssd300")) {
    SsdOptions ssd;
    ssd.num_classes = 90;
    return MakeSsd300(ssd);
  }
  ClassifierOptions o;
  o.backbone.depth = name.find("101") != std::string::npos  ? 101
                     : name.find("18") != std::string::npos ? 18
                                                            : 50;
  if (name.find("resnext") != std::string::npos) {
    o.backbone.groups = 32;
    o.backbone.width_per_group = 4;
  }
  o.backbone.squeeze_excite = name.starts_with("se_");
  return MakeClassifier(o);
}

}  // namespace xp::models
