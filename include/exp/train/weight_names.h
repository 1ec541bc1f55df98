// Names of weights in other programs' files, and how their heads differ from ours.
//
// Ours are torchvision's: `backbone.body.layer1.0.conv1.weight`,
// `backbone.fpn.inner_blocks.0.0.weight`, `rpn.head.conv.0.0.weight`,
// `roi_heads.box_head.fc6.weight`, and a classifier's `layer1.0.conv1.weight`, `fc.weight`.
// Sources: torchvision 0.26 state dicts; mmdetection 2.28 and 3.x (models/detectors/faster_rcnn.py,
// single_stage.py with SSDVGG, SSDNeck, SSDHead, and their parts), mmpretrain 1.x (SE layers, a
// classifier's `head.fc.`); timm 1.0 (resnet.py, senet.py).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exp/train/tensor_file.h"

namespace xp::train {

enum class NameStyle {
  kTorchvision,  // detectors and classifiers; torchvision before 0.13 too
                 // (`fpn.inner_blocks.0.weight`)
  kMmdetection,  // `neck.lateral_convs.0.conv.weight`, `roi_head.bbox_head.fc_cls.weight`;
                 // background is the last class
  kTimm,         // classifiers as torchvision's; the older SE nets' `layer0.`, `se_module.`,
                 // `last_linear.`
};
const char* NameStyleName(NameStyle style);  // "torchvision", "mmdetection", "timm"

// What wrappers (DataParallel, Lightning, torch.compile, a teacher and its student) put before the
// model's names: "module.", "model._orig_mod.", "student."; "" where they begin with a part that
// is known (`backbone`, `layer1`, ...), or none does. Of several such models the one of most
// tensors, no average if it can be. Throws UsageError where two are left.
std::string WrapperPrefix(const TensorFile& file);

// By the names alone, without that prefix.
NameStyle GuessStyle(const TensorFile& file);

// A name of that style as ours; nullopt where we have no such weight.
std::optional<std::string> ToOurName(NameStyle style, std::string_view name);
// Ours as that style says it; nullopt where it has no such weight.
std::optional<std::string> FromOurName(NameStyle style, std::string_view name);

// The row of the box head's classifier that is background: torchvision has it first, mmdetection
// last. Class-specific box deltas follow the classes; mmdetection's file has none for background.
// SSD's classifiers have such rows for each anchor of a place.
enum class Background { kFirst, kLast };

struct RenameOptions {
  std::optional<NameStyle> from;  // none: guessed
  NameStyle to =
      NameStyle::kTorchvision;  // kMmdetection puts background last, whatever `background` says
  Background background = Background::kFirst;  // of the result
  // A classifier's weights become a detector's backbone: ResNets get `backbone.body.` in front,
  // VGG16 the places of torchvision's SSD; the classifier's own layers are left out.
  bool as_backbone = false;
  // A backbone's weights, a detector's or those of a training without labels, become a
  // classifier's: `backbone.body.` in front of a ResNet's layers goes.
  bool as_classifier = false;
};

// The file with other names, and with its box head's rows moved to where `background` wants them.
// WrapperPrefix goes. Names that the other style doesn't have
// are left out, and told to `left_out`. An exp checkpoint's metadata `exp.background` ("first",
// "last") says how its rows lie. Throws UsageError where two names become one.
std::unique_ptr<TensorFile> Rename(std::unique_ptr<TensorFile> file, const RenameOptions& options,
                                   std::vector<std::string>* left_out = nullptr);

}  // namespace xp::train
