// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace xp {

// What some editors write before a text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The bytes of the character that `text` begins with; 0 where it begins with none.
size_t Utf8Length(std::string_view text);

bool IsValidUtf8(std::string_view text);

// `text` with U+FFFD in the place of each byte that belongs to no character, for JSON and HTML.
std::string ValidUtf8(std::string_view text);

// What `text` begins with: at most `most` bytes, and no part of a character at the end.
std::string_view Utf8Head(std::string_view text, size_t most);

// `text` as it is, or its head of at most `most` bytes and "...": what a message shows of it.
std::string Abridged(std::string_view text, size_t most);

// Appends the character of that number (at most 0x10ffff). A surrogate's number becomes three bytes
// as CESU-8 writes it.
void AppendUtf8(std::string& out, uint32_t code);

}  // namespace xp
