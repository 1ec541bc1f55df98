// Which of the files that a record can't hold are worth a warning.
#pragma once

#include <string>

namespace xp::snapshot {

// Whether a file that git doesn't track may be code: by its ending, or because it begins as a
// script or as a program of this system. Archives, images, weights, logs, annotations are none; nor
// are pipes and sockets. What can't be looked at may be.
bool MayBeCode(const std::string& file);

}  // namespace xp::snapshot
