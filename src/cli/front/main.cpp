// `exp` itself. Most of a short command's time went into loading what it never used: oneDNN,
// libgit2 with Kerberos and TLS, the image codecs; 40 libraries and 10,000 symbols, 5 of 7 ms. So
// this program holds the one command that people call in loops and needs none of them, `exp
// config`, and becomes `exp-commands`, which stands beside it, for all others.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "exp/base/error.h"
#include "exp/base/own_program.h"
#include "src/cli/app.h"
#include "src/cli/tell.h"

namespace {

// Each thread gets as much stack as the limit says, and the libraries need some. False where it is
// too small and can't be raised.
bool RaiseStackLimit() {
  constexpr rlim_t kLeast = rlim_t{1} << 20, kWanted = rlim_t{8} << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return true;
  limit.rlim_cur = kWanted;
  limit.rlim_max = std::max(limit.rlim_max, kWanted);  // RLIM_INFINITY is the largest number
  if (::setrlimit(RLIMIT_STACK, &limit) == 0) return true;
  ::getrlimit(RLIMIT_STACK, &limit);  // only root may raise the hard one
  limit.rlim_cur = std::min(limit.rlim_max, kWanted);
  return limit.rlim_cur >= kLeast && ::setrlimit(RLIMIT_STACK, &limit) == 0;
}

int BecomeCommands(char** argv) {
  if (!RaiseStackLimit()) {
    xp::cli::Tell(
        "error: the stack is limited to less than 1 MiB\n  next: raise it: `ulimit -s "
        "8192`, or LimitSTACK= of the service\n");
    return static_cast<int>(xp::ErrorKind::kUsage);
  }
  const std::string path = (xp::OwnProgram().parent_path() / "exp-commands").string();
  ::execv(path.c_str(), argv);
  xp::cli::Tell(
      "error: {} can't be started: {}\n  next: keep it beside exp, or link to exp instead "
      "of copying it\n",
      path, std::strerror(errno));
  return static_cast<int>(xp::ErrorKind::kJob);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "config") return BecomeCommands(argv);
  return xp::cli::RunApp(argc, argv, xp::cli::AddConfigCommand);
}
