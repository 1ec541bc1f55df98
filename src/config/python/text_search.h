// What str's methods look for: blanks, the ends of lines, a part between two positions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xp::config::python {

bool IsAscii(std::string_view text);

// The character that the text begins with; empty where the text is.
std::string_view FirstCharacter(std::string_view text);

// The text without Unicode's blanks at its ends.
std::string_view StripBlanks(std::string_view text, bool left, bool right);
// Without the characters that `what` holds.
std::string_view StripAny(std::string_view text, std::string_view what, bool left, bool right);

// str.split(None, most) and str.rsplit(None, most); most < 0: all.
std::vector<std::string> SplitBlanks(std::string_view text, int64_t most, bool from_right);
// By a separator of one byte or more.
std::vector<std::string> SplitBy(std::string_view text, std::string_view separator, int64_t most,
                                 bool from_right);
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends);

// The part of a text between two positions, in characters, as slices count them.
struct Window {
  bool inside = false;  // else nothing is found in it, not even ""
  size_t from = 0;      // in bytes
  size_t to = 0;
  size_t characters = 0;
};
Window WindowOf(std::string_view text, int64_t from, int64_t to);

size_t CountCharacters(std::string_view text);

}  // namespace xp::config::python
