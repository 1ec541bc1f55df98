#include "src/doctor/find_library.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "src/doctor/isa_level.h"
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

// LD_LIBRARY_PATH; an empty item is the working directory.
void AddList(const System& system, const std::string& list, std::vector<std::string>& folders) {
  for (size_t at = 0; !list.empty() && at <= list.size();) {
    size_t end = std::min(list.find_first_of(":;", at), list.size());
    const std::string folder = WithTokens(system, list.substr(at, end - at), "");
    if (end == at || !folder.empty()) folders.push_back(end == at ? "." : folder);
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

std::string FirstIn(const System& system, const std::vector<std::string>& folders,
                    const std::string& soname, const Search& search) {
  const std::vector<std::string> better = HwcapFolders(search.isa_level);
  for (const std::string& folder : folders) {
    for (const std::string& below : better) {
      std::string path = fmt::format("{}/{}/{}", folder, below, soname);
      if (Fits(system, path, search.machine)) return path;
    }
    std::string path = fmt::format("{}/{}", folder, soname);
    if (Fits(system, path, search.machine)) return path;
  }
  return "";
}

// Where the loader looks whatever the environment says.
std::string FindInSystem(const System& system, const std::string& soname, const Search& search) {
  std::vector<std::string> folders;
  auto bytes = system.Bytes("/etc/ld.so.cache");
  auto cached =
      bytes ? CachedPaths(bytes->bytes, soname, HwcapFolders(search.isa_level)) : std::nullopt;
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
  return FirstIn(system, folders, soname, search);
}

// What the loader itself says of a token since glibc 2.33: `dl_platform="haswell"`.
std::string Diagnosed(const System& system, const std::string& name) {
  for (const char* loader : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}) {
    if (!system.Exists(loader)) continue;
    const std::string text = "\n" + system.Output({loader, "--list-diagnostics"});
    const std::string mark = "\n" + name + "=\"";
    const size_t at = text.find(mark);
    if (at == std::string::npos) continue;
    const size_t begin = at + mark.size();
    return text.substr(begin, text.find('"', begin) - begin);
  }
  return "";
}

// The folder of the system's libraries below / or /usr: "lib64", Debian's "lib/x86_64-linux-gnu".
std::string LibToken(const System& system) {
  std::string told = Diagnosed(system, "dl_dst_lib");
  if (!told.empty()) return told;
  const std::string libc = FindInSystem(system, "libc.so.6", {{}, {}, OwnMachine(system)});
  std::string folder = libc.substr(0, libc.rfind('/'));
  if (folder.starts_with("/usr/")) folder.erase(0, 4);
  if (!folder.starts_with("/lib")) folder = "/lib";
  return folder.substr(1);
}

std::string PlatformToken(const System& system) {
  std::string told = Diagnosed(system, "dl_platform");
  if (!told.empty()) return told;
  return OwnMachine(system) == EM_AARCH64 ? "aarch64" : "x86_64";
}

// The length of the token `name` that stands at `at`, behind the dollar: $LIB and ${LIB}, not
// $LIBRARY; 0: it is another one.
size_t TokenLength(const std::string& text, size_t at, std::string_view name) {
  const std::string_view rest = std::string_view(text).substr(at);
  const std::string in_braces = "{" + std::string(name) + "}";
  if (rest.starts_with(in_braces)) return in_braces.size();
  if (!rest.starts_with(name)) return 0;
  const char next = rest.size() > name.size() ? rest[name.size()] : '/';
  const bool longer = std::isalnum(static_cast<unsigned char>(next)) != 0 || next == '_';
  return longer ? 0 : name.size();
}

}  // namespace

std::string WithTokens(const System& system, const std::string& text, const std::string& origin) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    size_t length = 0;
    if (text[at] != '$') {
      out += text[at];
    } else if ((length = TokenLength(text, at + 1, "ORIGIN")) > 0) {
      if (origin.empty()) return "";
      out += origin;
    } else if ((length = TokenLength(text, at + 1, "LIB")) > 0) {
      out += LibToken(system);
    } else if ((length = TokenLength(text, at + 1, "PLATFORM")) > 0) {
      out += PlatformToken(system);
    } else {
      out += '$';
    }
    at += length;
  }
  return out;
}

std::string FindLibrary(const System& system, const std::string& soname, const Search& search) {
  if (soname.find('/') != std::string::npos) return system.Exists(soname) ? soname : "";
  std::vector<std::string> folders = search.rpath;
  AddList(system, system.Variable("LD_LIBRARY_PATH"), folders);
  folders.insert(folders.end(), search.runpath.begin(), search.runpath.end());
  const std::string found = FirstIn(system, folders, soname, search);
  return found.empty() ? FindInSystem(system, soname, search) : found;
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
  return FindLibrary(system, soname, {{}, {}, OwnMachine(system), IsaLevel(system)});
}

}  // namespace xp::doctor
