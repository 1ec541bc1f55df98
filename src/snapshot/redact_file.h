// Files are bytes: their secrets may be written in UTF-16. Private to src/snapshot.
#pragma once

#include <string>

#include "exp/snapshot/redact.h"

namespace xp::snapshot {

// The content without secrets. UTF-16 with a byte order mark is understood, and stays UTF-16.
std::string RedactFile(const std::string& content, const std::string& place, Redactor& redactor);

}  // namespace xp::snapshot
