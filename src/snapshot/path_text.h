// Names of files as text: JSON holds UTF-8 only, a file may be called by any bytes. Private to
// src/snapshot.
#pragma once

#include <string>

namespace xp::snapshot {

// Text for JSON: valid UTF-8 stays; otherwise invalid bytes are written as \xNN, and a backslash
// twice.
std::string PathText(const std::string& bytes);
// The bytes that are written so.
std::string PathBytes(const std::string& text);

}  // namespace xp::snapshot
