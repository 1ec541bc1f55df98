// Records a run from any C++ program. In this tree:
//   cmake --build build --target record_your_own && build/record_your_own && build/exp show @
// In another, after `cmake --install build --component recorder --prefix DIR`, with
// DIR/lib/pkgconfig in PKG_CONFIG_PATH:
//   c++ -std=c++20 record_your_own.cpp $(pkg-config --cflags --libs exp-record)
#include <cmath>

#include "exp/record/writer.h"

int main() {
  xp::record::RunInfo info{.name = "my own trainer"};
  info.config = {{"lr", "0.1", "record_your_own.cpp"}};
  xp::record::RunWriter run(".exp", info);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 100; ++i)
      run.Point("loss", epoch * 100 + i, std::exp(-0.01 * (epoch * 100 + i)));
    xp::record::EpochRow row{.epoch = epoch, .step = (epoch + 1) * 100};
    row.metrics = {{"accuracy", 0.5 + 0.1 * epoch}};
    run.Epoch(row);
  }
  return run.End(xp::record::EndState::kFinished).end_written ? 0 : 1;
}
