#include "src/doctor/loader_cache.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace xp::doctor {
namespace {

constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";

// glibc, sysdeps/generic/dl-cache.h: struct cache_file_new and struct file_entry_new.
struct Header {
  char magic[20];
  uint32_t count, string_bytes;
  uint8_t flags, padding[3];
  uint32_t extension, unused[3];
};
static_assert(sizeof(Header) == 48);
struct Entry {
  int32_t flags;
  uint32_t soname, path;  // offsets from the header
  uint32_t os_version;
  uint64_t hardware;
};
static_assert(sizeof(Entry) == 24);

std::string_view Text(std::span<const char> bytes, uint64_t at) {
  if (at >= bytes.size()) return {};
  size_t most = std::min<size_t>(bytes.size() - at, 4096);
  const char* begin = bytes.data() + at;
  const void* end = std::memchr(begin, 0, most);
  if (end == nullptr) return {};
  return {begin, static_cast<size_t>(static_cast<const char*>(end) - begin)};
}

}  // namespace

std::optional<std::vector<std::string>> CachedPaths(std::span<const char> bytes,
                                                    const std::string& soname) {
  size_t at = std::string_view(bytes.data(), bytes.size()).find(kMagic);
  if (at == std::string_view::npos) return std::nullopt;
  bytes = bytes.subspan(at);
  Header header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  constexpr size_t kMostPaths = 64;  // one for each kind of hardware
  std::vector<std::string> paths;
  for (uint64_t i = 0; i < header.count && paths.size() < kMostPaths; ++i) {
    uint64_t offset = sizeof(header) + i * sizeof(Entry);
    if (offset + sizeof(Entry) > bytes.size()) break;
    Entry entry;
    std::memcpy(&entry, bytes.data() + offset, sizeof(entry));
    if (Text(bytes, entry.soname) == soname) paths.emplace_back(Text(bytes, entry.path));
  }
  return paths;
}

}  // namespace xp::doctor
