// For `--json` of commands that run something on the way: standard output shall hold the result and
// nothing else.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace xp::cli {

// While it lives, what is printed to standard output goes to standard error, also what programs
// print that were started meanwhile.
class OnlyResult {
 public:
  explicit OnlyResult(bool wanted) {
    if (!wanted) return;
    std::fflush(stdout);
    kept_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (kept_ >= 0) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~OnlyResult() {
    if (kept_ < 0) return;
    std::fflush(stdout);
    ::dup2(kept_, STDOUT_FILENO);
    ::close(kept_);
  }
  OnlyResult(const OnlyResult&) = delete;
  OnlyResult& operator=(const OnlyResult&) = delete;

 private:
  int kept_ = -1;
};

}  // namespace xp::cli
