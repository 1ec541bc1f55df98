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
// struct cache_extension and cache_extension_section: the names of the folders below glibc-hwcaps.
struct Extension {
  uint32_t magic, sections;
};
struct Section {
  uint32_t tag, flags, offset, size;
};
constexpr uint32_t kExtensionMagic = 0xeaa42174, kHwcapNames = 1;

template <class T>
std::optional<T> At(std::span<const char> bytes, uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::string_view Text(std::span<const char> bytes, uint64_t at) {
  if (at >= bytes.size()) return {};
  size_t most = std::min<size_t>(bytes.size() - at, 4096);
  const char* begin = bytes.data() + at;
  const void* end = std::memchr(begin, 0, most);
  if (end == nullptr) return {};
  return {begin, static_cast<size_t>(static_cast<const char*>(end) - begin)};
}

// The folder ("x86-64-v3") that an entry of such a value lies in; empty: none. As glibc's
// dl_cache_hwcap_extension: the upper half is one bit, beside bits of levels.
std::string_view HwcapName(std::span<const char> bytes, const Header& header, uint64_t hardware) {
  constexpr uint64_t kExtended = uint64_t{1} << 30, kLevels = (1 << 10) - 1;
  if (((hardware >> 32) & ~kLevels) != kExtended) return {};
  const auto extension = At<Extension>(bytes, header.extension);
  if (header.extension == 0 || !extension || extension->magic != kExtensionMagic) return {};
  constexpr uint32_t kMostSections = 64;
  for (uint32_t i = 0; i < std::min(extension->sections, kMostSections); ++i) {
    const auto section =
        At<Section>(bytes, header.extension + sizeof(Extension) + i * sizeof(Section));
    const uint64_t index = hardware & 0xffffffff;
    if (!section || section->tag != kHwcapNames || index >= section->size / 4) continue;
    const auto name = At<uint32_t>(bytes, section->offset + index * 4);
    return name ? Text(bytes, *name) : std::string_view();
  }
  return {};
}

// Where in `better` the folder of a path stands, behind all of them for the usual ones; nullopt:
// in none of them.
std::optional<size_t> Rank(std::string_view hwcap, const std::vector<std::string>& better) {
  if (hwcap.empty()) return better.size();
  for (size_t i = 0; i < better.size(); ++i) {
    if (better[i].substr(better[i].rfind('/') + 1) == hwcap) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<std::string>> CachedPaths(std::span<const char> bytes,
                                                    const std::string& soname,
                                                    const std::vector<std::string>& better) {
  size_t at = std::string_view(bytes.data(), bytes.size()).find(kMagic);
  if (at == std::string_view::npos) return std::nullopt;
  bytes = bytes.subspan(at);
  Header header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  constexpr size_t kMostPaths = 64;  // one for each kind of hardware
  std::vector<std::pair<size_t, std::string>> found;
  for (uint64_t i = 0; i < header.count && found.size() < kMostPaths; ++i) {
    uint64_t offset = sizeof(header) + i * sizeof(Entry);
    if (offset + sizeof(Entry) > bytes.size()) break;
    Entry entry;
    std::memcpy(&entry, bytes.data() + offset, sizeof(entry));
    if (Text(bytes, entry.soname) != soname) continue;
    const auto rank = Rank(HwcapName(bytes, header, entry.hardware), better);
    if (rank) found.emplace_back(*rank, Text(bytes, entry.path));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> paths;
  paths.reserve(found.size());
  for (auto& [rank, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace xp::doctor
