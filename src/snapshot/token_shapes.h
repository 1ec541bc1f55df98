// The shapes of well-known credentials; private to src/snapshot.
#pragma once

#include <cstddef>
#include <string_view>

namespace xp::snapshot {

struct TokenMatch {
  size_t begin = 0, size = 0;  // of what must go; begin may lie behind the position asked about
  const char* kind = nullptr;  // nullptr: nothing here
};

// Whether a credential starts at `at`.
TokenMatch MatchToken(std::string_view text, size_t at);

}  // namespace xp::snapshot
