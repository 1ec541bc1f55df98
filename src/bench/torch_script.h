// bench/peers/torch_bench.py as a text in the program; private to src/bench.
#pragma once

namespace xp::bench {

extern const char* const kTorchScript;

}  // namespace xp::bench
