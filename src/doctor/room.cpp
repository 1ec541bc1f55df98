#include "src/doctor/room.h"

#include <fmt/format.h>

#include "src/doctor/text.h"

namespace xp::doctor {

std::optional<Finding> NoRoom(Finding f, uint64_t bytes, const MemoryRoom& room) {
  if (room.total_bytes == 0 || room.free_bytes >= bytes) return std::nullopt;
  f.level = Level::kAbsent;
  f.found = fmt::format("left out: it takes {} of memory, and {} are left to this process",
                        Gib(static_cast<double>(bytes)), Gib(static_cast<double>(room.free_bytes)));
  return f;
}

}  // namespace xp::doctor
