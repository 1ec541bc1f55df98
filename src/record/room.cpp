#include "src/record/room.h"

#include <system_error>

namespace xp::record {

bool DiskFull(const std::filesystem::path& folder) {
  constexpr std::uintmax_t kLeast = 64 << 10;  // the log's index has 32 KiB
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return !error && space.available < kLeast;
}

}  // namespace xp::record
