// Parts of a `model` dict that several models have.
#pragma once

#include <memory>
#include <vector>

#include "exp/config/reader.h"
#include "exp/graph/ops.h"
#include "exp/models/model.h"
#include "exp/models/resnet.h"

namespace xp::models {

float ReadFloat(const config::Reader& r, const char* path, double fallback);
int ReadPositive(const config::Reader& r, const char* path, int fallback);
int ReadPositive(const config::Reader& r, const char* path);  // must be there

// A key that may only say what the model does anyway: anything else is an error, not ignored.
void RequireNumber(const config::Reader& r, const char* path, double only);
void RequireNumbers(const config::Reader& r, const char* path, const std::vector<double>& only);

// `backbone` of a Faster R-CNN or a classifier.
ResNetOptions ReadBackbone(const config::Reader& r);
// `img_norm_cfg`: mean and std in 0..255, red first unless `to_rgb` is false.
void ReadNormalize(const config::Reader& model, graph::NormalizeAttrs& attrs);
void ReadMatcher(const config::Reader& r, graph::Matcher& m);
void ReadCoder(const config::Reader& r, graph::BoxCoder& coder);

std::unique_ptr<Model> ReadFasterRcnn(const config::Reader& model);

}  // namespace xp::models
