#include "exp/base/file_kind.h"

#include <cctype>
#include <cstring>
#include <string_view>

namespace xp {
namespace {

using namespace std::string_view_literals;

struct Signature {
  size_t at;
  std::string_view bytes;
  const char* name;
};

// Sources: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md, RFC 1952, and the brands of
// ISO/IEC 23008-12 (HEIF), AVIF and ISO/IEC 18181-2 (JPEG XL).
constexpr Signature kSignatures[] = {
    {0, "version https://git-lfs"sv, "a Git LFS pointer"},
    {0, "\xFF\xFE\0\0"sv, "UTF-32 text"},
    {0, "\0\0\xFE\xFF"sv, "UTF-32 text"},
    {0, "\xFF\xFE"sv, "UTF-16 text"},
    {0, "\xFE\xFF"sv, "UTF-16 text"},
    {0, "\x1F\x8B"sv, "gzip data"},
    {0, "PK\x03\x04"sv, "a ZIP archive"},
    {0, "7z\xBC\xAF"sv, "a 7z archive"},
    {0,
     "\xFD"
     "7zXZ"sv,
     "xz data"},
    {0, "\x28\xB5\x2F\xFD"sv, "zstd data"},
    {0, "%PDF"sv, "a PDF"},
    {0, "<?xml"sv, "XML text"},
    {4, "ftypavif"sv, "an AVIF image"},
    {4, "ftyphei"sv, "a HEIC image"},
    {4, "ftypmif1"sv, "a HEIF image"},
    {4, "ftypmp4"sv, "an MP4 film"},
    {4, "ftypisom"sv, "an MP4 film"},
    {4, "jP  \r\n"sv, "a JPEG 2000 image"},
    {0, "\xFF\x4F\xFF\x51"sv, "a JPEG 2000 image"},
    {0, "\xFF\x0A"sv, "a JPEG XL image"},
    {4, "JXL \r\n"sv, "a JPEG XL image"},
    {0, "\x76\x2F\x31\x01"sv, "an OpenEXR image"},
};

bool IsHtml(std::string_view text) {
  size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return false;
  std::string head;
  for (char c : text.substr(start, 14))
    head.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return head.starts_with("<!doctype html") || head.starts_with("<html");
}

}  // namespace

std::string OtherKind(std::span<const uint8_t> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Signature& s : kSignatures) {
    if (text.size() >= s.at + s.bytes.size() && text.substr(s.at, s.bytes.size()) == s.bytes)
      return s.name;
  }
  // JSON begins with two ASCII characters, so a zero beside one is UTF-16 without its mark.
  if (text.size() >= 4 && (text[0] == '\0') != (text[1] == '\0') &&
      (text[2] == '\0') != (text[3] == '\0') && (text[0] == '{' || text[1] == '{'))
    return "UTF-16 text";
  return IsHtml(text) ? "an HTML page" : "";
}

std::string AdviceFor(const std::string& other_kind) {
  if (other_kind == "a Git LFS pointer") return "fetch the file itself: git lfs pull";
  if (other_kind == "an HTML page" || other_kind == "XML text")
    return "if it was downloaded, that failed: fetch the file again";
  if (other_kind == "UTF-16 text") return "convert it: iconv -f UTF-16 -t UTF-8";
  if (other_kind == "UTF-32 text") return "convert it: iconv -f UTF-32 -t UTF-8";
  if (other_kind.find("data") != std::string::npos ||
      other_kind.find("archive") != std::string::npos)
    return "unpack it first";
  if (other_kind.find("image") != std::string::npos) return "convert it to JPEG, PNG or WebP";
  return "";
}

}  // namespace xp
