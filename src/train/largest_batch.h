// Which batch would have fitted, for the message that says that one doesn't.
#pragma once

#include <cstddef>
#include <functional>

namespace xp::train {

// The largest n in [1, below) whose `bytes(n)`, which grows with n, are within `limit`; 0 when not
// even one image fits. Asks O(log below) times.
int LargestBatch(const std::function<size_t(int n)>& bytes, size_t limit, int below);

}  // namespace xp::train
