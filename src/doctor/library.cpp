// Symbol versions: does the system have what a library or this program was linked against?
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exp/doctor/checks.h"
#include "exp/doctor/elf.h"
#include "src/doctor/find_library.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

std::optional<ElfFile> Load(const System& system, const std::string& path, std::string* why) {
  auto bytes = system.Bytes(path);
  if (!bytes) {
    *why = "it can't be read";
    return std::nullopt;
  }
  return ParseElf(bytes->bytes, why);
}

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::vector<std::string> RunPath(const System& system, const ElfFile& elf,
                                 const std::string& path) {
  std::string real = system.RealPath(path);
  std::string origin = real.substr(0, real.rfind('/'));
  std::vector<std::string> out;
  for (const std::string& folder : elf.folders) {
    out.push_back(Replaced(Replaced(folder, "${ORIGIN}", origin), "$ORIGIN", origin));
  }
  return out;
}

// "GLIBC_2.38" and "GLIBC_2.2.5": what stands before the last underscore and its number.
std::pair<std::string, std::string> Family(const std::string& version) {
  size_t at = version.rfind('_');
  if (at == std::string::npos || at + 1 >= version.size() ||
      std::isdigit(static_cast<unsigned char>(version[at + 1])) == 0) {
    return {version, ""};
  }
  return {version.substr(0, at), version.substr(at + 1)};
}

// The newest version of each family that is needed: "GLIBC 2.34", "GLIBCXX 3.4.30".
std::vector<std::string> Newest(const std::vector<NeededVersion>& versions) {
  std::map<std::string, std::string> newest;
  for (const NeededVersion& v : versions) {
    auto [family, number] = Family(v.version);
    bool known = family == "GLIBC" || family == "GLIBCXX" || family == "CXXABI";
    if (number.empty() || !known) continue;
    std::string& best = newest[family];
    if (best.empty() || CompareVersions(best, number) < 0) best = number;
  }
  std::vector<std::string> words;
  words.reserve(newest.size());
  for (const auto& [family, number] : newest) words.push_back(fmt::format("{} {}", family, number));
  return words;
}

std::string Symbols(const NeededVersion& v) {
  std::vector<std::string> some(
      v.symbols.begin(),
      v.symbols.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(3, v.symbols.size())));
  if (some.empty()) return "";
  return fmt::format(" (for {}{})", Listed(some),
                     v.symbols.size() > 3 ? fmt::format(" and {} more", v.symbols.size() - 3) : "");
}

struct Lacking {
  std::vector<std::string> versions, libraries;
  std::string best;  // of glibc and libstdc++ here
};

Lacking Compare(const System& system, const ElfFile& elf, const std::string& path) {
  Lacking out;
  std::map<std::string, std::vector<std::string>> defined;
  std::vector<std::string> run_path = RunPath(system, elf, path), here;
  for (const std::string& soname : elf.needed) {
    if (soname.starts_with("ld-linux") || soname == "linux-vdso.so.1") continue;
    std::string found = FindLibrary(system, soname, run_path), why;
    if (found.empty()) {
      out.libraries.push_back(soname);
      continue;
    }
    auto other = Load(system, found, &why);
    if (!other) continue;
    if (soname.starts_with("libc.so") || soname.starts_with("libstdc++")) {
      std::vector<NeededVersion> offers;
      for (const std::string& v : other->defined) offers.push_back({soname, v, false, {}});
      for (std::string& word : Newest(offers)) here.push_back(std::move(word));
    }
    defined[soname] = other->defined;
  }
  out.best = Listed(here);
  for (const NeededVersion& need : elf.versions) {
    auto file = defined.find(need.file);
    if (file == defined.end() || need.weak) continue;
    if (std::find(file->second.begin(), file->second.end(), need.version) == file->second.end()) {
      out.versions.push_back(need.version + " of " + need.file + Symbols(need));
    }
  }
  return out;
}

void Judge(const Lacking& lacking, Finding& f) {
  if (lacking.versions.empty() && lacking.libraries.empty()) return;
  f.level = Level::kError;
  std::string text;
  if (!lacking.versions.empty()) text = "missing " + Listed(lacking.versions);
  if (!lacking.libraries.empty()) {
    text += (text.empty() ? "" : "; ") + Listed(lacking.libraries) + " not found";
  }
  f.found += (f.found.empty() ? "" : "; ") + text;
  f.why = "the dynamic linker refuses to load it";
  bool glibc = text.find("GLIBC_") != std::string::npos;
  bool cxx =
      text.find("GLIBCXX_") != std::string::npos || text.find("CXXABI_") != std::string::npos;
  f.fix = glibc ? "it was built on a newer system: use one (or a container) with that glibc, or "
                  "build it here; glibc itself can't be updated alone"
          : cxx ? "install a newer libstdc++6 (libstdcxx-ng in conda) and put it first in "
                  "LD_LIBRARY_PATH, or build it with this system's compiler"
                : "install what is missing, or point LD_LIBRARY_PATH at its folder";
}

}  // namespace

Findings CheckLibrary(const System& system, const std::string& path) {
  Finding f{.id = "library", .group = "versions"};
  std::string why;
  auto elf = Load(system, path, &why);
  if (!elf) {
    f.level = Level::kError;
    f.found = path + ": " + why;
    f.needed = "an ELF library or program";
    f.why = "nothing can be said of it";
    f.fix = "name a .so file or a program";
    return {f};
  }
  Lacking lacking = Compare(system, *elf, path);
  f.needed = Listed(Newest(elf->versions));
  f.found = fmt::format("{} needs {}; this system has {}", path,
                        f.needed.empty() ? "nothing in particular" : f.needed,
                        lacking.best.empty() ? "neither glibc nor libstdc++" : lacking.best);
  Judge(lacking, f);
  return {f};
}

Findings CheckBinary(const Subject& s) {
  if (s.binary.empty()) return {};
  Finding f{.id = "glibc", .group = "versions"};
  std::string why;
  auto elf = Load(s.system, s.binary, &why);
  if (!elf) {
    f.level = Level::kAbsent;
    f.found = s.binary + ": " + why;
    return {f};
  }
  Lacking lacking = Compare(s.system, *elf, s.binary);
  f.needed = Listed(Newest(elf->versions)) + " for this program";
  f.found = lacking.best + " here, " + f.needed;
  Judge(lacking, f);
  return {f};
}

}  // namespace xp::doctor
