// What the network sees: batches of a loader as one HTML page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exp/data/class_loader.h"
#include "exp/data/loader.h"

namespace xp::data {

struct PreviewPage {
  std::string html;
  int shown = 0;  // images: fewer than asked for where the epoch has fewer
  // What was left out, and why: records of the annotation file, images. The page lists them too.
  std::vector<std::string> warnings;
};

// The first `images` samples of an epoch, augmented and padded as in training, with their boxes
// (crowds dashed). Throws as Loader::Next does.
PreviewPage Preview(Loader* loader, int images, uint32_t epoch = 0);
// The same of a classifier's images, each under its class.
PreviewPage Preview(ClassLoader* loader, int images, uint32_t epoch = 0);

}  // namespace xp::data
