#include "src/data/name_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "exp/base/utf8.h"
#include "exp/data/image_io.h"
#include "src/data/sample.h"

namespace fs = std::filesystem;

namespace xp::data {
namespace {

// What a name means that was written as a part of a URL.
std::string WithoutPercents(const std::string& name) {
  std::string plain;
  for (size_t i = 0; i < name.size(); ++i) {
    unsigned code = 0;
    const char* digits = name.data() + i + 1;
    const bool escape = name[i] == '%' && i + 2 < name.size() &&
                        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2;
    plain += escape ? static_cast<char>(code) : name[i];
    i += escape ? 2 : 0;
  }
  return plain;
}

// In lower case, without space around it.
std::string Plain(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// Whether a character is written onto the one before it: an accent, the mark of a kana, a vowel or
// final of a Hangul syllable. The order of UTF-8's bytes is that of the characters.
bool Joins(std::string_view c) {
  return (c >= "\xCC\x80" && c <= "\xCD\xAF") || c == "\xE3\x82\x99" || c == "\xE3\x82\x9A" ||
         (c >= "\xE1\x85\xA0" && c <= "\xE1\x87\xBF");
}

// A name with one mark in the place of each letter beyond ASCII: the same for letters with accents
// as one character (NFC) and as two (NFD, as macOS wrote names), and for other encodings' bytes.
std::string Shape(std::string_view name) {
  std::string shape;
  while (!name.empty()) {
    const std::string_view c = name.substr(0, std::max<size_t>(1, Utf8Length(name)));
    name.remove_prefix(c.size());
    if (Joins(c) && !shape.empty())
      shape.back() = '\1';
    else
      shape += static_cast<unsigned char>(c[0]) < 0x80 ? c[0] : '\1';
  }
  return shape;
}

// The same name with another image's ending, or with one where the annotation file has none.
bool OtherEnding(const fs::path& there, const fs::path& wanted) {
  if (!HasImageEnding(there)) return false;
  const bool ends = HasImageEnding(wanted) || HasOtherImageEnding(wanted);
  return there.stem() == (ends ? wanted.stem() : wanted);
}

// A file of nearly that name.
std::string Alike(const fs::path& folder, const std::string& wanted) {
  const std::string plain = Plain(wanted), shape = Shape(wanted);
  std::string spelt, ending;
  int spellings = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (Plain(name) == plain) return fmt::format(" (but {} is there)", name);
    if (Shape(name) == shape && ++spellings == 1) spelt = name;
    if (OtherEnding(name, wanted) && (ending.empty() || name < ending)) ending = name;
  }
  if (spellings == 1 && !IsValidUtf8(spelt)) {
    return fmt::format(
        " (but {} is there, whose name isn't UTF-8: convmv -f latin1 -t utf8 "
        "renames files)",
        spelt);
  }
  if (spellings == 1) {
    return fmt::format(
        " (but {} is there, with accents written otherwise: as NFC or NFD; convmv "
        "-f utf8 -t utf8 --nfc renames files)",
        spelt);
  }
  return ending.empty() ? "" : fmt::format(" (but {} is there)", ending);
}

}  // namespace

std::string NameHint(const std::string& prefix, const std::string& name, std::atomic<int>* looks) {
  std::error_code error;
  if (name.find("://") != std::string::npos)
    return " (a URL: download the images, and name the files)";
  auto there = [&](const std::string& other) {
    return other != name && other.find('\0') == std::string::npos &&
           fs::is_regular_file(ImagePath(prefix, other), error);
  };
  const std::string plain = WithoutPercents(name);
  if (there(plain))
    return fmt::format(" (but {} is there: write names as they are, without %20 and the like)",
                       plain);
  std::string slashes = name;
  std::replace(slashes.begin(), slashes.end(), '\\', '/');
  if (there(slashes)) return fmt::format(" (but {} is there: write / instead of \\)", slashes);
  const std::string base = fs::path(slashes).filename().string();
  if (there(base)) return fmt::format(" (but {} is there, without the folders)", base);
  if (--*looks < 0) return "";
  return Alike(fs::path(ImagePath(prefix, name)).parent_path(), base);
}

}  // namespace xp::data
