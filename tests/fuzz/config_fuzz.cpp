// One libFuzzer target a parser; EXP_FUZZ picks it at build time (tests/fuzz/run.sh). An exception
// other than xp::Error, a crash, a leak and a time-out are faults.
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xp::config::fuzz::One(EXP_FUZZ, std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
