#include "src/record/same_images.h"

#include "exp/snapshot/dataset.h"

namespace xp::record {

bool SameImages(const DatasetRecord& a, const DatasetRecord& b) {
  if (a.fingerprint == b.fingerprint) return true;
  // The fingerprint is of the annotations and of the list's text.
  const bool comparable = a.mode != b.mode && a.ann_hash == b.ann_hash && !a.image_list.empty() &&
                          !b.image_list.empty();
  return comparable && snapshot::CompareImageLists(a.image_list, b.image_list).empty();
}

}  // namespace xp::record
