// Private to src/record.
#pragma once

#include "exp/record/reader.h"

namespace xp::record {

// Whether two data sets hold the same images, as far as their records tell: where one of them knows
// names and sizes only, these decide. Asks the lists of LoadImageLists, where they are loaded.
bool SameImages(const DatasetRecord& a, const DatasetRecord& b);

}  // namespace xp::record
