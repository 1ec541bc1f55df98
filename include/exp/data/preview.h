// What the network sees: batches of a loader as one HTML page.
#pragma once

#include <cstdint>
#include <string>

#include "exp/data/class_loader.h"
#include "exp/data/loader.h"

namespace xp::data {

// The first `images` samples of an epoch, augmented and padded as in training, with their boxes
// (crowds dashed). Throws as Loader::Next does.
std::string PreviewHtml(Loader* loader, int images, uint32_t epoch = 0);
// The same of a classifier's images, each under its class.
std::string PreviewHtml(ClassLoader* loader, int images, uint32_t epoch = 0);

}  // namespace xp::data
