// A feature map [N, H, W, C], and how its pixels are given to threads.
#pragma once

namespace xp::kernels {

struct MapShape {
  int n = 0, h = 0, w = 0, c = 0;
  bool empty() const { return n == 0 || h == 0 || w == 0 || c == 0; }
};

}  // namespace xp::kernels
