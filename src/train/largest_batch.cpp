#include "src/train/largest_batch.h"

namespace xp::train {

int LargestBatch(const std::function<size_t(int n)>& bytes, size_t limit, int below) {
  int fits = 0;
  while (below - fits > 1) {
    int middle = fits + (below - fits) / 2;
    (bytes(middle) <= limit ? fits : below) = middle;
  }
  return fits;
}

}  // namespace xp::train
