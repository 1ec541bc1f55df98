// How far something is that takes long and isn't training: on a terminal a live line, elsewhere a
// line each half minute. To stderr, as results go to stdout.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/cli/terminal.h"

namespace xp::cli {

class LongWork {
 public:
  // `what` is done ("hashing") to `units`. A terminal is told nothing in the first second.
  explicit LongWork(std::string what, std::string units = "images");
  ~LongWork() { Clear(); }
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

  // From one thread at a time. The live line goes when all is done.
  void Report(int64_t done, int64_t total);
  // Takes the live line away, for another to stand there.
  void Clear();
  // Report, for options that take a function; valid as long as this lives.
  std::function<void(int64_t done, int64_t total)> Reporter();

 private:
  std::string what_, units_;
  bool terminal_, live_ = false;
  Pace pace_;
};

}  // namespace xp::cli
