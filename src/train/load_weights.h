// Where training starts from: `load_from` with `reset`, and `model.backbone.init_cfg`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exp/config/reader.h"
#include "exp/data/coco.h"
#include "exp/graph/params.h"
#include "exp/train/flat_state.h"
#include "exp/train/tensor_file.h"
#include "exp/train/weight_names.h"

namespace xp::train {

struct WeightSource {
  std::string path;  // .safetensors or .pth
  std::vector<std::string>
      reset;  // patterns of layers to leave as they are, in our names or mmdetection's
  bool backbone_only = false;                  // what lies below the model's heads
  Background background = Background::kFirst;  // of the model
  // The file's network sees blue first (Caffe's): its first layer is turned around. Checkpoints of
  // ours see red first whatever the config says.
  bool flip_channels = false;
  bool averages = false;  // a checkpoint's averaged weights where it has them
};

struct LoadedWeights {
  std::vector<std::string> initial;  // left at their first values, because of `reset`
  std::string passed_over;           // tensors of kinds that aren't read; "" for none
  // Of the file's head, in the order of its outputs; empty where the file doesn't say them.
  std::vector<std::string> classes;
};

// The classes that a checkpoint of ours says its head has; empty for other files.
std::vector<data::Category> RecordedCategories(const TensorFile& file);

// Fills parameters and statistics from the file; names of torchvision, mmdetection and timm are
// understood. Every layer that the model has (with backbone_only: of the backbone) must be there in
// its shape, except those that `reset` names. Throws UsageError that lists the layers that are
// missing or of another shape, or names one whose tensor is of a kind that isn't read.
LoadedWeights LoadWeights(const WeightSource& source, const graph::ParamLayout& layout,
                          FlatState* state);

// The same without reading a value or writing anything: only what LoadWeights throws.
void CheckWeights(const WeightSource& source, const graph::ParamLayout& layout);

// Whether the config names files of weights to begin with.
bool NamesInitialWeights(const config::Reader& config);

// As the config says: the backbone's first, then `load_from`. `classes`: of the data, to say it
// where a head that is taken over was trained on others; empty: not known. `warn` gets (code,
// message).
void LoadInitialWeights(const config::Reader& config, const graph::ParamLayout& layout,
                        const std::vector<std::string>& classes,
                        const std::function<void(const std::string&, const std::string&)>& warn,
                        FlatState* state);

// What LoadInitialWeights would throw, but for files that aren't there (of them `missing` is told).
void CheckInitialWeights(const config::Reader& config, const graph::ParamLayout& layout,
                         const std::function<void(const std::string& path)>& missing);

// Where the model of that config has its background class.
Background BackgroundOf(const config::Reader& config);

}  // namespace xp::train
