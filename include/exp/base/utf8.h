// UTF-8 text, character by character.
#pragma once

#include <cstdint>
#include <string>

namespace xp {

// Appends the character of that number (at most 0x10ffff). A surrogate's number becomes three bytes
// as CESU-8 writes it.
void AppendUtf8(std::string& out, uint32_t code);

}  // namespace xp
