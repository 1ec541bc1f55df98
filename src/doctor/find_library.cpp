#include "src/doctor/find_library.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "src/doctor/loader_cache.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

// Each file once: they may include each other.
void AddConf(const System& system, const std::string& path, std::set<std::string>& seen,
             std::vector<std::string>& folders) {
  if (!seen.insert(path).second) return;
  for (std::string line : Lines(system.Text(path).value_or(""))) {
    line = Trimmed(line.substr(0, line.find('#')));
    if (line.starts_with("include ")) {
      // Only patterns of the form folder/*.conf are in use.
      std::string pattern = Trimmed(line.substr(8));
      if (!pattern.starts_with('/')) pattern.insert(0, "/etc/");
      std::string folder = pattern.substr(0, pattern.rfind('/'));
      for (const std::string& name : system.Names(folder)) {
        if (name.ends_with(".conf"))
          AddConf(system, fmt::format("{}/{}", folder, name), seen, folders);
      }
    } else if (line.starts_with('/')) {
      folders.push_back(line);
    }
  }
}

void AddList(const std::string& list, std::vector<std::string>& folders) {
  for (size_t at = 0; at <= list.size();) {
    size_t end = std::min(list.find_first_of(":;", at), list.size());
    if (end > at) folders.push_back(list.substr(at, end - at));
    at = end + 1;
  }
}

// nullopt for what is no ELF file.
std::optional<Elf64_Ehdr> HeaderOf(std::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header) || !bytes.starts_with(ELFMAG)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

bool Is64Bits(const Elf64_Ehdr& header) {
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
}

// The loader passes over files of another kind of machine (32 bits, say) and looks further; at what
// is no ELF file, or a damaged one, it stops and says so.
bool Fits(const System& system, const std::string& path, uint16_t machine) {
  if (!system.Exists(path)) return false;
  auto file = machine == 0 ? std::nullopt : system.Bytes(path);
  if (!file) return true;
  const auto header = HeaderOf({file->bytes.data(), file->bytes.size()});
  return !header || (Is64Bits(*header) && header->e_machine == machine);
}

}  // namespace

std::string FindLibrary(const System& system, const std::string& soname, const Search& search) {
  if (soname.find('/') != std::string::npos) return system.Exists(soname) ? soname : "";
  std::vector<std::string> folders = search.rpath;
  AddList(system.Variable("LD_LIBRARY_PATH"), folders);
  folders.insert(folders.end(), search.runpath.begin(), search.runpath.end());
  auto first = [&]() -> std::string {
    for (const std::string& folder : folders) {
      std::string path = fmt::format("{}/{}", folder, soname);
      if (Fits(system, path, search.machine)) return path;
    }
    return "";
  };
  std::string found = first();
  if (!found.empty()) return found;
  folders.clear();
  auto bytes = system.Bytes("/etc/ld.so.cache");
  auto cached = bytes ? CachedPaths(bytes->bytes, soname) : std::nullopt;
  if (cached) {
    for (const std::string& path : *cached) {
      if (Fits(system, path, search.machine)) return path;
    }
  } else {  // what ldconfig would make of it
    std::set<std::string> seen;
    AddConf(system, "/etc/ld.so.conf", seen, folders);
  }
  for (const char* usual :
       {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}) {
    folders.emplace_back(usual);
  }
  return first();
}

uint16_t OwnMachine(const System& system) {
  for (const char* program : {"/proc/self/exe", "/bin/sh", "/usr/bin/env"}) {
    auto file = system.Bytes(program);
    auto header = file ? HeaderOf({file->bytes.data(), file->bytes.size()}) : std::nullopt;
    if (header && Is64Bits(*header)) return header->e_machine;
  }
  return 0;
}

std::string FindOwnLibrary(const System& system, const std::string& soname) {
  return FindLibrary(system, soname, {{}, {}, OwnMachine(system)});
}

}  // namespace xp::doctor
