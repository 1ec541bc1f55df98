// JPEGs to measure loaders with: those of a folder, and drawn ones that take as long to decode as
// photographs do, for measuring loaders where there are none.
#pragma once

#include <string>
#include <vector>

namespace xp::bench {

// Smooth colours with noise, quality 90, about 80 KiB at 500 x 375 (ImageNet's mean size). The same
// arguments give the same bytes.
std::vector<std::string> DrawPhotos(int count, int width = 500, int height = 375);

// Names of the .jpg and .jpeg files below a folder, relative to it, sorted.
std::vector<std::string> FindJpegs(const std::string& folder);

}  // namespace xp::bench
