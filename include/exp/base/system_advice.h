// What to do about a file that the system refuses, by its reason (errno).
#pragma once

#include <string>

namespace xp {

// Of a file or folder that can't be made, written or flushed; "" where there is no advice.
std::string WriteAdvice(int error);
// Of a file that can't be opened to read, or read.
std::string ReadAdvice(int error);

}  // namespace xp
