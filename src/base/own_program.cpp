#include "exp/base/own_program.h"

#include <sys/auxv.h>

namespace fs = std::filesystem;

namespace xp {

fs::path OwnProgram() {
  std::error_code error;
  fs::path own = fs::read_symlink("/proc/self/exe", error);
  if (!error) return own;
  // As the kernel was told it; a link to the program is followed, as above.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is how getauxval gives addresses
  const auto* name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  own = name != nullptr ? fs::canonical(name, error) : fs::path();
  return error ? fs::path() : own;
}

}  // namespace xp
