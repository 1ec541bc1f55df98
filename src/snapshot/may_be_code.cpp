#include "src/snapshot/may_be_code.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "exp/base/file_descriptor.h"

namespace xp::snapshot {
namespace {

// Of sources that models are written in, and of what configures and builds them. JSON, CSV and text
// are data where they are large.
constexpr std::array<std::string_view, 44> kEndings = {
    ".py",   ".pyx", ".pxd",  ".pyi", ".ipynb", ".c",     ".cc",    ".cpp", ".cxx",
    ".h",    ".hh",  ".hpp",  ".cu",  ".cuh",   ".cl",    ".hip",   ".f",   ".f90",
    ".go",   ".rs",  ".java", ".kt",  ".scala", ".js",    ".ts",    ".sh",  ".bash",
    ".zsh",  ".pl",  ".rb",   ".lua", ".m",     ".mm",    ".jl",    ".r",   ".sql",
    ".yaml", ".yml", ".toml", ".ini", ".cfg",   ".cmake", ".proto", ".asm"};

}  // namespace

bool MayBeCode(const std::string& file) {
  struct stat info;
  if (::lstat(file.c_str(), &info) != 0) return true;
  if (S_ISLNK(info.st_mode) || S_ISDIR(info.st_mode)) return true;
  if (!S_ISREG(info.st_mode)) return false;
  std::string ending = std::filesystem::path(file).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end()) return true;
  FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 4> begin{};
  const ssize_t read =
      descriptor.get() < 0 ? -1 : ::pread(descriptor.get(), begin.data(), begin.size(), 0);
  if (read < 0) return true;
  const std::string_view text(begin.data(), static_cast<size_t>(read));
  return text.starts_with("#!") || text ==
                                       "\x7f"
                                       "ELF";
}

}  // namespace xp::snapshot
