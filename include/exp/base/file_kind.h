// What a file is that should be an image, JSON or weights and isn't: downloads that failed and
// pointers to files that never came are the usual ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace xp {

// "a Git LFS pointer", "an HTML page", "UTF-16 text", "gzip data", ...; empty where nothing of that
// kind is recognised.
std::string OtherKind(std::span<const uint8_t> bytes);

// What to do about it; may be empty.
std::string AdviceFor(const std::string& other_kind);

}  // namespace xp
