// `exp` itself. Most of a short command's time went into loading what it never used: oneDNN,
// libgit2 with Kerberos and TLS, the image codecs; 40 libraries and 10,000 symbols, 5 of 7 ms. So
// this program holds the one command that people call in loops and needs none of them, `exp
// config`, and becomes `exp-commands`, which stands beside it, for all others.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "exp/base/error.h"
#include "src/cli/app.h"

namespace {

int BecomeCommands(char** argv) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (own.parent_path() / "exp-commands").string();
  ::execv(path.c_str(), argv);
  fmt::print(stderr,
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
