// Looked at before a test begins: the kernel kills a process that goes over its limit of memory.
// Private to src/doctor.
#pragma once

#include <cstdint>
#include <optional>

#include "exp/base/resources.h"
#include "exp/doctor/finding.h"

namespace xp::doctor {

// nullopt: `bytes` of memory can be had; else `f` as the row that says that it was left out.
std::optional<Finding> NoRoom(Finding f, uint64_t bytes, const MemoryRoom& room = UsableMemory());

}  // namespace xp::doctor
