// The shared libraries of this process, with what tells one build from another.
#include <elf.h>
#include <link.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "src/snapshot/probe.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::snapshot {
namespace {

// NT_GNU_BUILD_ID in a PT_NOTE segment: elf(5), "Notes (Nhdr)".
std::string BuildId(const dl_phdr_info* info) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    const char* end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const char* name = at + sizeof(note);
      size_t name_size = (note.n_namesz + 3u) & ~3u, size = (note.n_descsz + 3u) & ~3u;
      const char* desc = name + name_size;
      if (desc + size > end) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(name, "GNU", 4) == 0) {
        static const char* kHex = "0123456789abcdef";
        std::string text;
        for (size_t b = 0; b < note.n_descsz; ++b) {
          unsigned char c = static_cast<unsigned char>(desc[b]);
          text += kHex[c >> 4];
          text += kHex[c & 15];
        }
        return text;
      }
      at = desc + size;
    }
  }
  return "";
}

// "libfmt.so.9.1.0" of the file behind the link gives "9.1.0".
std::string VersionOf(const std::string& file) {
  size_t so = file.find(".so.");
  return so == std::string::npos ? "" : file.substr(so + 4);
}

int Visit(dl_phdr_info* info, size_t, void* data) {
  auto& out = *static_cast<std::map<std::string, json>*>(data);
  std::string path = info->dlpi_name ? info->dlpi_name : "";
  if (path.empty() || path.rfind("linux-vdso", 0) == 0) return 0;
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  std::string file = error ? path : real.string();
  std::string name = fs::path(path).filename().string();
  size_t dot = name.find(".so");
  out[name.substr(0, dot)] = {{"file", file},
                              {"version", VersionOf(fs::path(file).filename().string())},
                              {"build_id", BuildId(info)}};
  return 0;
}

}  // namespace

// The program is the first in the list, without a name.
std::string ProgramBuildId() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        *static_cast<std::string*>(data) = BuildId(info);
        return 1;
      },
      &id);
  return id;
}

json ProbeLibraries() {
  std::map<std::string, json> found;
  dl_iterate_phdr(Visit, &found);
  return json(found);
}

}  // namespace xp::snapshot
