// How something long is asked to end before its time: by a flag that a signal sets.
#pragma once

#include <atomic>

#include "exp/base/error.h"

namespace xp {

// Looked at now and then by what takes long; null: nothing stops it.
using StopFlag = const std::atomic<bool>*;

inline bool Stopped(StopFlag stop) { return stop != nullptr && *stop; }

// Throws Error of kind kInterrupted.
inline void ThrowIfStopped(StopFlag stop) {
  if (Stopped(stop)) throw Error(ErrorKind::kInterrupted, {.what = "interrupted"});
}

}  // namespace xp
