// Symbol versions: does the system have what a library or this program was linked against?
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "exp/doctor/checks.h"
#include "exp/doctor/elf.h"
#include "src/doctor/find_library.h"
#include "src/doctor/isa_level.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

constexpr const char* kNameOne = "name a .so file or a program";
constexpr const char* kForbidden = "this user may not read it";

bool IsFolder(const System& system, const std::string& path) { return system.Exists(path + "/."); }

// Something of that name is there, but a link that leads nowhere, or to itself.
bool IsLostLink(const System& system, const std::string& path) {
  if (path.empty() || system.Exists(path)) return false;
  const size_t slash = path.rfind('/');
  const bool bare = slash == std::string::npos;
  const std::vector<std::string> names =
      system.Names(bare ? "." : path.substr(0, std::max<size_t>(slash, 1)));
  return std::find(names.begin(), names.end(), bare ? path : path.substr(slash + 1)) != names.end();
}

std::optional<ElfFile> Load(const System& system, const std::string& path, std::string* why) {
  auto bytes = system.Bytes(path);
  if (!bytes) {
    *why = IsLostLink(system, path)   ? "a link that leads nowhere"
           : system.IsForbidden(path) ? kForbidden
           : !system.Exists(path)     ? "there is no such file"
           : IsFolder(system, path)   ? "a folder, no ELF file"
                                      : "no file, but a device or a pipe";
    return std::nullopt;
  }
  return ParseElf(bytes->bytes, why);
}

std::vector<std::string> WithTokens(const System& system, const std::vector<std::string>& folders,
                                    const std::string& origin) {
  std::vector<std::string> out;
  for (const std::string& folder : folders) {
    std::string path = folder.empty() ? "." : WithTokens(system, folder, origin);
    if (!path.empty()) out.push_back(std::move(path));
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
  std::vector<std::string> untold;  // versions of libraries that have none: ld.so only warns
  std::vector<std::string> broken;  // found, and what is wrong with them
  std::vector<std::string> newer;   // built for processors that this one isn't
  std::string best;                 // of glibc and libstdc++ here
  int isa_level = 0;                // of the processor here
};

// Goes through a file and all libraries below it, as the dynamic linker loads them.
class Closure {
 public:
  Closure(const System& system, const ElfFile& top, const std::string& path)
      : system_(system), isa_level_(IsaLevel(system)) {
    const bool there = system.Exists(top.interpreter);
    if (!top.interpreter.empty() && !there) out_.libraries.push_back(top.interpreter);
    has_musl_ = there && top.interpreter.find("/ld-musl-") != std::string::npos;
    queue_.push_back({top, path, "", {}});
    while (!queue_.empty()) {
      Node node = std::move(queue_.front());
      queue_.pop_front();
      CheckProcessor(node);
      Open(node);
      CheckVersions(node);
    }
    out_.best = Listed(here_);
    out_.isa_level = isa_level_;
  }
  Lacking Result() && { return std::move(out_); }

 private:
  struct Node {
    ElfFile elf;
    std::string path, soname;        // soname: empty for the file that was asked about
    std::vector<std::string> rpath;  // of those that lead to it
  };

  // musl's loader is its C library, by whichever of these names: musl-gcc's, Alpine Linux's.
  static bool IsMuslsOwn(const std::string& soname) {
    return soname == "libc.so" || soname.starts_with("libc.musl-");
  }

  // Where one below the top lacks something, it is named, too.
  static std::string Of(const Node& node) {
    return node.soname.empty() ? "" : " (which " + node.soname + " needs)";
  }

  void Open(const Node& node) {
    std::string real = system_.RealPath(node.path);
    std::string origin = real.substr(0, real.rfind('/'));
    Search search{{}, WithTokens(system_, node.elf.runpath, origin), node.elf.machine, isa_level_};
    std::vector<std::string> handed_down = node.rpath;
    if (node.elf.runpath.empty()) {
      search.rpath = WithTokens(system_, node.elf.rpath, origin);
      search.rpath.insert(search.rpath.end(), node.rpath.begin(), node.rpath.end());
      handed_down = search.rpath;
    }
    for (const std::string& soname : node.elf.needed) {
      if (soname.starts_with("ld-linux") || soname == "linux-vdso.so.1") continue;
      if (!seen_.insert(soname).second) continue;
      if (IsMuslsOwn(soname)) {
        if (!has_musl_) out_.libraries.push_back(soname + " of musl" + Of(node));
        continue;
      }
      const std::string name = xp::doctor::WithTokens(system_, soname, origin);
      std::string found = FindLibrary(system_, name, search), why;
      if (found.empty()) {
        out_.libraries.push_back(soname + Of(node));
        continue;
      }
      auto elf = Load(system_, found, &why);
      if (!elf) {
        out_.broken.push_back(fmt::format("{} is {}{}", found, why, Of(node)));
        continue;
      }
      if (soname.starts_with("libc.so") || soname.starts_with("libstdc++")) AddHere(soname, *elf);
      defined_[soname] = {elf->has_versions, elf->defined};
      queue_.push_back({std::move(*elf), found, soname, handed_down});
    }
  }

  // The loader refuses what was built for newer processors and says so in itself.
  void CheckProcessor(const Node& node) {
    if (isa_level_ == 0 || node.elf.isa_level <= isa_level_) return;
    out_.newer.push_back(fmt::format("{} is built for x86-64-v{}", node.path, node.elf.isa_level));
  }

  void AddHere(const std::string& soname, const ElfFile& elf) {
    std::vector<NeededVersion> offers;
    for (const std::string& v : elf.defined) offers.push_back({soname, v, false, {}});
    for (std::string& word : Newest(offers)) here_.push_back(std::move(word));
  }

  void CheckVersions(const Node& node) {
    for (const NeededVersion& need : node.elf.versions) {
      auto file = defined_.find(need.file);
      if (file == defined_.end() || need.weak) continue;
      const auto& [versioned, offered] = file->second;
      if (std::find(offered.begin(), offered.end(), need.version) != offered.end()) continue;
      (versioned ? out_.versions : out_.untold)
          .push_back(need.version + " of " + need.file + Symbols(need) + Of(node));
    }
  }

  const System& system_;
  const int isa_level_;    // of the processor here; 0: not known
  bool has_musl_ = false;  // the program is for musl, which is here
  Lacking out_;
  std::deque<Node> queue_;
  std::set<std::string> seen_;
  // Whether it tells versions, and which.
  std::map<std::string, std::pair<bool, std::vector<std::string>>> defined_;
  std::vector<std::string> here_;
};

Lacking Compare(const System& system, const ElfFile& elf, const std::string& path) {
  return Closure(system, elf, path).Result();
}

void Judge(const Lacking& lacking, Finding& f) {
  if (!lacking.newer.empty()) {
    f.level = Level::kError;
    f.found +=
        fmt::format("; {}; this processor is x86-64-v{}", Listed(lacking.newer), lacking.isa_level);
    f.why = "the dynamic linker refuses to load it: \"CPU ISA level is lower than required\"";
    f.fix = "get or build it for x86-64-v" + std::to_string(lacking.isa_level) + " or lower";
    return;
  }
  if (lacking.versions.empty() && lacking.libraries.empty() && lacking.broken.empty()) {
    if (lacking.untold.empty()) return;
    f.level = Level::kWarning;
    f.found += "; found without versions: " + Listed(lacking.untold);
    f.why =
        "the dynamic linker says \"no version information available\" and goes on: the library "
        "may be another build, which lacks a function or has another one of that name";
    f.fix = "put the library that it was built with first in LD_LIBRARY_PATH, or build it here";
    return;
  }
  f.level = Level::kError;
  std::string text;
  if (!lacking.versions.empty()) text = "missing " + Listed(lacking.versions);
  if (!lacking.libraries.empty()) {
    text += (text.empty() ? "" : "; ") + Listed(lacking.libraries) + " not found";
  }
  if (!lacking.broken.empty()) text += (text.empty() ? "" : "; ") + Listed(lacking.broken);
  f.found += (f.found.empty() ? "" : "; ") + text;
  f.why = "the dynamic linker refuses to load it";
  bool glibc = text.find("GLIBC_") != std::string::npos;
  bool cxx =
      text.find("GLIBCXX_") != std::string::npos || text.find("CXXABI_") != std::string::npos;
  bool musl = text.find("musl") != std::string::npos;
  f.fix = musl    ? "it was built for musl (Alpine Linux): get the build for glibc (manylinux)"
          : glibc ? "it was built on a newer system: use one (or a container) with that glibc, or "
                    "build it here; glibc itself can't be updated alone"
          : cxx   ? "install a newer libstdc++6 (libstdcxx-ng in conda) and put it first in "
                    "LD_LIBRARY_PATH, or build it with this system's compiler"
          : lacking.libraries.empty() && lacking.versions.empty()
              ? "install the broken files again"
              : "install what is missing, or point LD_LIBRARY_PATH at its folder";
}

// By what Load found.
const char* FixOf(const std::string& why) {
  auto says = [&](const char* text) { return why.find(text) != std::string::npos; };
  return why == kForbidden       ? "run this as a user who may, or as root"
         : says("32-bit")        ? "get or build the one for 64 bits"
         : says("cut off")       ? "copy, download or build it again"
         : says("little-endian") ? "get or build it for this kind of machine"
                                 : kNameOne;
}

// Of what is no file to look into.
Finding CannotTell(const std::string& found, const char* fix) {
  return {.id = "library",
          .group = "versions",
          .level = Level::kError,
          .found = found,
          .needed = "a library or program of 64 bits (ELF)",
          .why = "nothing can be said of it",
          .fix = fix};
}

}  // namespace

Findings CheckLibrary(const System& system, const std::string& name) {
  if (name.empty()) return {CannotTell("no name was given", kNameOne)};
  Finding f{.id = "library", .group = "versions"};
  std::string why, path = name;
  uint16_t machine = OwnMachine(system);
  // A bare name that is no file here is one for the loader.
  const bool soname =
      name.find('/') == std::string::npos && !system.Exists(name) && !IsLostLink(system, name);
  if (soname) path = FindLibrary(system, name, {{}, {}, machine, IsaLevel(system)});
  if (path.empty()) {
    return {CannotTell(name + ": no such file here, and the loader finds none by LD_LIBRARY_PATH, "
                              "/etc/ld.so.cache and the usual folders",
                       "install it, name its path, or point LD_LIBRARY_PATH at its folder")};
  }
  auto elf = Load(system, path, &why);
  if (!elf) {
    return {
        CannotTell(path + ": " + why, soname ? "install it again, or name its path" : FixOf(why))};
  }
  if (machine != 0 && elf->machine != machine) {
    f.level = Level::kError;
    f.found = fmt::format("{} is for {}, this system is {}", path, MachineName(elf->machine),
                          MachineName(machine));
    f.needed = "a file for " + MachineName(machine);
    f.why = "the dynamic linker refuses to load it";
    f.fix = "get or build it for this kind of machine";
    return {f};
  }
  Lacking lacking = Compare(system, *elf, path);
  if (elf->is_static || elf->needed.empty()) {
    f.found = path + " needs no library";
    Judge(lacking, f);
    return {f};
  }
  f.needed = Listed(Newest(elf->versions));
  f.found = path + " needs " + (f.needed.empty() ? "no version in particular" : f.needed);
  if (!lacking.best.empty()) f.found += "; this system has " + lacking.best;
  Judge(lacking, f);
  return {Shortened(std::move(f))};
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
