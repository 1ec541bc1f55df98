// Symbol versions of real ELF files against made-up systems.
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "catch.h"
#include "doctor/fake_system.h"
#include "exp/doctor/elf.h"
#include "src/doctor/find_library.h"
#include "src/doctor/loader_cache.h"

namespace xp::doctor {
namespace {

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string Replaced(std::string bytes, const std::string& what, const std::string& by) {
  REQUIRE(what.size() == by.size());
  size_t at = 0;
  int count = 0;
  while ((at = bytes.find(what, at)) != std::string::npos) {
    bytes.replace(at, what.size(), by);
    ++count;
  }
  REQUIRE(count > 0);
  return bytes;
}

TEST_CASE("what an ELF file needs and defines") {
  std::string bytes = Content(FAKE_NEEDY), why;
  REQUIRE(!bytes.empty());
  auto elf = ParseElf(bytes, &why);
  REQUIRE(elf);
  CHECK(elf->soname == "libfake_needy.so");
  CHECK(std::find(elf->needed.begin(), elf->needed.end(), "libfake_future.so") !=
        elf->needed.end());
  bool found = false;
  for (const NeededVersion& v : elf->versions) {
    if (v.version != "FUTURE_9.9") continue;
    found = true;
    CHECK(v.file == "libfake_future.so");
    CHECK(v.symbols == std::vector<std::string>{"future_function"});
  }
  CHECK(found);
  std::string future = Content(FAKE_FUTURE);
  auto other = ParseElf(future, &why);
  REQUIRE(other);
  CHECK(other->defined == std::vector<std::string>{"FUTURE_9.9"});
}

TEST_CASE("a library that needs a newer one names the missing versions and their symbols") {
  FakeSystem s;
  s.files["/app/needy.so"] = Content(FAKE_NEEDY);
  s.files["/lib/libfake_future.so"] = Content(FAKE_FUTURE);
  for (const char* name : {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}) {
    s.files[std::string("/lib/") + name] = Content(FAKE_FUTURE);
  }
  Finding good = CheckLibrary(s, "/app/needy.so").front();
  INFO(good.found);
  CHECK(good.level == Level::kOk);
  // The same library as an older system has it.
  s.files["/lib/libfake_future.so"] = Replaced(Content(FAKE_FUTURE), "FUTURE_9.9", "FUTURE_1.0");
  Finding f = CheckLibrary(s, "/app/needy.so").front();
  CHECK(f.level == Level::kError);
  INFO(f.found);
  CHECK(f.found.find("missing FUTURE_9.9 of libfake_future.so (for future_function)") !=
        std::string::npos);
  s.files.erase("/lib/libfake_future.so");
  f = CheckLibrary(s, "/app/needy.so").front();
  CHECK(f.level == Level::kError);
  CHECK(f.found.find("libfake_future.so not found") != std::string::npos);
}

TEST_CASE("an old glibc") {
  // This test program itself, on a system whose glibc offers less.
  std::unique_ptr<System> host = MakeHostSystem();
  FakeSystem s;
  s.files["/app/program"] = Content("/proc/self/exe");
  auto elf = ParseElf(s.files["/app/program"], nullptr);
  REQUIRE(elf);
  std::string newest;
  for (const NeededVersion& v : elf->versions) {
    if (v.file == "libc.so.6" && v.version.starts_with("GLIBC_2.")) newest = v.version;
  }
  REQUIRE_FALSE(newest.empty());
  for (const std::string& soname : elf->needed) {
    for (const char* folder : {"/lib/x86_64-linux-gnu/", "/usr/lib/x86_64-linux-gnu/", "/lib64/"}) {
      std::string text = Content(folder + soname);
      if (!text.empty()) s.files["/lib/" + soname] = text;
    }
  }
  if (!s.files.count("/lib/libc.so.6")) return;  // a system with another layout
  std::string old = s.files["/lib/libc.so.6"], gone = newest;
  gone.back() = 'x';
  s.files["/lib/libc.so.6"] = Replaced(old, newest + '\0', gone + '\0');
  Finding f = CheckBinary({s, TestBuild(), "/app/program", "", "", ""}).front();
  INFO(f.found);
  CHECK(f.level == Level::kError);
  CHECK(f.found.find("missing " + newest) != std::string::npos);
  CHECK(f.fix.find("glibc") != std::string::npos);
}

TEST_CASE("this program is fit for this machine") {
  std::unique_ptr<System> host = MakeHostSystem();
  Finding f = CheckBinary({*host, TestBuild(), "/proc/self/exe", "", "", ""}).front();
  INFO(f.found);
  CHECK(f.level == Level::kOk);
}

TEST_CASE("what a needed library needs counts, too, and where it is looked for") {
  FakeSystem s;
  // needy -> future; future is replaced by a library that needs what isn't there.
  std::string needy = Content(FAKE_NEEDY), middle = needy;
  size_t at = middle.find(std::string("libfake_future.so") + '\0');
  REQUIRE(at != std::string::npos);
  middle.replace(at, 17, "libfake_absent.so");
  s.files["/app/needy.so"] = needy;
  s.files["/old/libfake_future.so"] = middle;
  s.files["/new/libfake_future.so"] = Content(FAKE_FUTURE);
  for (const char* name : {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}) {
    s.files[std::string("/lib/") + name] = Content(FAKE_FUTURE);
  }
  s.variables["LD_LIBRARY_PATH"] = "/old:/new";
  Finding f = CheckLibrary(s, "/app/needy.so").front();
  INFO(f.found);
  CHECK(f.level == Level::kError);
  CHECK(f.found.find("libfake_absent.so (which libfake_future.so needs) not found") !=
        std::string::npos);
  // The dynamic linker passes over a file for another machine.
  s.files["/old/libfake_future.so"][18] = static_cast<char>(183);
  f = CheckLibrary(s, "/app/needy.so").front();
  CHECK(f.level == Level::kOk);
  s.files["/old/libfake_future.so"][18] = 62;
  s.files["/old/libfake_future.so"][4] = 1;  // 32 bits
  CHECK(CheckLibrary(s, "/app/needy.so").front().level == Level::kOk);
}

// An /etc/ld.so.cache of glibc's format.
std::string Cache(const std::vector<std::pair<std::string, std::string>>& libraries) {
  auto put = [](std::string& to, uint32_t value) {
    to.append(reinterpret_cast<const char*>(&value), 4);
  };
  std::string entries, texts;
  auto offset = static_cast<uint32_t>(48 + 24 * libraries.size());
  for (const auto& [soname, path] : libraries) {
    put(entries, 3);
    put(entries, offset + static_cast<uint32_t>(texts.size()));
    texts += soname + '\0';
    put(entries, offset + static_cast<uint32_t>(texts.size()));
    texts += path + '\0';
    entries += std::string(12, '\0');
  }
  std::string cache = "glibc-ld.so.cache1.1";
  put(cache, static_cast<uint32_t>(libraries.size()));
  put(cache, static_cast<uint32_t>(texts.size()));
  cache += std::string(20, '\0');
  return cache + entries + texts;
}

TEST_CASE("a bare name is looked up as the loader does") {
  FakeSystem s;
  s.files["/lib/libc.so.6"] = s.files["/lib/libgcc_s.so.1"] = Content(FAKE_FUTURE);
  s.files["/opt/vendor/libfake_future.so"] = Content(FAKE_FUTURE);
  auto found = [&] { return CheckLibrary(s, "libfake_future.so").front(); };
  CHECK(found().level == Level::kError);
  CHECK(Says(found().found, "libfake_future.so: no such file here, and the loader finds none"));
  CHECK(Says(found().fix, "LD_LIBRARY_PATH"));
  s.files["/etc/ld.so.conf"] = "/opt/vendor\n";
  CHECK(Says(found().found, "/opt/vendor/libfake_future.so needs"));
  CHECK(found().level == Level::kOk);
  // The cache is what counts where there is one: ldconfig wasn't run.
  s.files["/etc/ld.so.cache"] = Cache({{"libother.so.1", "/opt/other/libother.so.1"}});
  CHECK(found().level == Level::kError);
  // The older format in front of it; a file for another machine is passed over.
  s.files["/opt/arm/libfake_future.so"] = Content(FAKE_FUTURE);
  s.files["/opt/arm/libfake_future.so"][18] = static_cast<char>(183);
  s.files["/bin/sh"] = Content(FAKE_NEEDY);
  s.files["/etc/ld.so.cache"] = "ld.so-1.7.0" + std::string(5, '\0') +
                                Cache({{"libfake_future.so", "/opt/arm/libfake_future.so"},
                                       {"libfake_future.so", "/opt/vendor/libfake_future.so"}});
  CHECK(Says(found().found, "/opt/vendor/libfake_future.so needs"));
  s.variables["LD_LIBRARY_PATH"] = "/first";
  s.files["/first/libfake_future.so"] = Content(FAKE_FUTURE);
  CHECK(Says(found().found, "/first/libfake_future.so needs"));
  // A path isn't looked up.
  CHECK(CheckLibrary(s, "./libfake_future.so").front().level == Level::kError);
}

TEST_CASE("a damaged cache of the loader") {
  std::string whole = Cache({{"liba.so", "/a/liba.so"}, {"libb.so", "/b/libb.so"}});
  CHECK(CachedPaths(whole, "libb.so") == std::vector<std::string>{"/b/libb.so"});
  CHECK(CachedPaths(whole, "libc.so") == std::vector<std::string>());
  CHECK_FALSE(CachedPaths(std::string("glibc-ld.so.cache1.0") + whole.substr(20), "liba.so"));
  for (size_t size = 0; size < whole.size(); ++size) {
    std::string cut = whole.substr(0, size);
    CachedPaths({cut.data(), cut.size()}, "libb.so");
  }
  std::string many = whole;
  for (size_t i = 20; i < 24; ++i) many[i] = '\xff';  // 4 billion entries
  CHECK(CachedPaths(many, "liba.so") == std::vector<std::string>{"/a/liba.so"});
  for (size_t i = 48; i < many.size(); ++i) many[i] = '\xff';  // names beyond the end
  CHECK(CachedPaths(many, "liba.so") == std::vector<std::string>());
}

TEST_CASE("files that can't run here say what they are") {
  FakeSystem s;
  auto found = [&](const std::string& bytes) {
    s.files["/x"] = bytes;
    Finding f = CheckLibrary(s, "/x").front();
    CHECK(f.level == Level::kError);
    CHECK_FALSE(f.fix.empty());
    return f.found;
  };
  std::string elf = Content(FAKE_NEEDY);
  s.files["/proc/self/exe"] = elf;
  auto changed = [&](size_t at, char to) {
    std::string bytes = elf;
    bytes[at] = to;
    return bytes;
  };
  CHECK(found("") == "/x: an empty file");
  CHECK(found("#!/bin/sh\n").find("a script") != std::string::npos);
  CHECK(found("/* GNU ld script\n*/").find("for the linker") != std::string::npos);
  CHECK(found("!<arch>\nx").find("archive") != std::string::npos);
  CHECK(found("hello").find("no ELF file") != std::string::npos);
  CHECK(found("MZ\x90").find("for Windows") != std::string::npos);
  CHECK(found("\xcf\xfa\xed\xfe").find("for macOS") != std::string::npos);
  CHECK(found("PK\x03\x04").find("a zip archive") != std::string::npos);
  CHECK(found("\177ELF").find("cut off") != std::string::npos);
  CHECK(found(elf.substr(0, 40)).find("cut off") != std::string::npos);
  CHECK(found(elf.substr(0, 100)).find("cut off") != std::string::npos);
  CHECK(found(changed(4, 1)).find("32-bit") != std::string::npos);
  CHECK(found(changed(5, 2)).find("little-endian") != std::string::npos);
  CHECK(found(changed(16, 1)).find("object file") != std::string::npos);
  CHECK(found(changed(18, static_cast<char>(183))) == "/x is for AArch64, this system is x86-64");
  s.files["/folder/file"] = "";
  CHECK(CheckLibrary(s, "/folder").front().found == "/folder: a folder, no ELF file");
  s.folders.insert("/empty");
  CHECK(CheckLibrary(s, "/empty").front().found == "/empty: a folder, no ELF file");
  s.lost_links.insert("/lost/link.so");
  CHECK(CheckLibrary(s, "/lost/link.so").front().found ==
        "/lost/link.so: a link that leads nowhere");
  s.forbidden.insert("/secret/x.so");
  const Finding forbidden = CheckLibrary(s, "/secret/x.so").front();
  CHECK(forbidden.found == "/secret/x.so: this user may not read it");
  CHECK(forbidden.fix.find("root") != std::string::npos);
  s.files["/x"] = changed(4, 1);
  CHECK(CheckLibrary(s, "/x").front().fix.find("64 bits") != std::string::npos);
  CHECK(CheckLibrary(s, "/none").front().found == "/none: there is no such file");
  CHECK(CheckLibrary(s, "").front().found == "no name was given");
}

// The end of a file that a copy or a download lost: more than sections and symbols for debuggers.
TEST_CASE("an ELF file whose end is missing") {
  const std::string elf = Content(FAKE_NEEDY);
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  uint64_t end = 0;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, elf.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  REQUIRE(end < elf.size());
  std::string why;
  CHECK(ParseElf(elf.substr(0, end), &why));
  CHECK_FALSE(ParseElf(elf.substr(0, end - 1), &why));
  CHECK(why == "an ELF file that is damaged or was cut off");
}

// What patchelf does for a longer name or folder: the table `tag` lies behind everything else, in a
// segment of its own, for which a header that says little gives way.
std::string MovedToTheEnd(std::string elf, int64_t tag) {
  constexpr uint64_t kAddress = uint64_t{1} << 32, kBytes = 4096;
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  const uint64_t moved_to = elf.size();
  uint64_t dynamic = 0;
  bool segment_made = false;
  for (int i = 0; i < header.e_phnum; ++i) {
    char* place = elf.data() + header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    std::memcpy(&segment, place, sizeof(segment));
    if (segment.p_type == PT_DYNAMIC) dynamic = segment.p_offset;
    if (segment.p_type != PT_GNU_STACK) continue;
    segment = {};
    segment.p_type = PT_LOAD, segment.p_offset = moved_to;
    segment.p_vaddr = kAddress, segment.p_filesz = segment.p_memsz = kBytes;
    std::memcpy(place, &segment, sizeof(segment));
    segment_made = true;
  }
  REQUIRE(segment_made);
  for (uint64_t at = dynamic;; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    std::memcpy(&entry, elf.data() + at, sizeof(entry));
    REQUIRE(entry.d_tag != DT_NULL);
    if (entry.d_tag != tag) continue;
    elf += elf.substr(entry.d_un.d_ptr, kBytes);  // there address and place are the same
    entry.d_un.d_ptr = kAddress;
    std::memcpy(elf.data() + at, &entry, sizeof(entry));
    return elf;
  }
}

TEST_CASE("symbols are found where the strings lie elsewhere, and no others") {
  for (const char* file : {FAKE_NEEDY, FAKE_FUTURE}) {
    const std::string usual = Content(file);
    std::string why;
    const auto want = ParseElf(usual, &why);
    REQUIRE(want);
    for (int64_t tag : {int64_t{DT_STRTAB}, int64_t{DT_SYMTAB}}) {
      INFO(file << " " << tag);
      const std::string moved = MovedToTheEnd(usual, tag);
      const auto got = ParseElf(moved, &why);
      REQUIRE(got);
      CHECK(got->soname == want->soname);
      CHECK(got->needed == want->needed);
      CHECK(got->defined == want->defined);
      REQUIRE(got->versions.size() == want->versions.size());
      for (size_t i = 0; i < want->versions.size(); ++i) {
        // A table of symbols that is the last has an end by its segment alone: more may be read.
        const auto& all = got->versions[i].symbols;
        const auto& real = want->versions[i].symbols;
        CHECK(got->versions[i].version == want->versions[i].version);
        REQUIRE(all.size() >= real.size());
        CHECK(std::equal(real.begin(), real.end(), all.begin()));
        if (tag == DT_STRTAB) CHECK(all == real);
      }
      if (tag == DT_STRTAB) CHECK(got->constants == want->constants);
    }
  }
}

TEST_CASE("a library that is needed and is none is named") {
  FakeSystem s;
  s.files["/app/needy.so"] = Content(FAKE_NEEDY);
  for (const char* name : {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}) {
    s.files[std::string("/lib/") + name] = Content(FAKE_FUTURE);
  }
  s.files["/lib/libfake_future.so"] = Content(FAKE_FUTURE);
  REQUIRE(CheckLibrary(s, "/app/needy.so").front().level == Level::kOk);
  s.files["/lib/libfake_future.so"] = Content(FAKE_FUTURE).substr(0, 4000);
  Finding f = CheckLibrary(s, "/app/needy.so").front();
  CHECK(f.level == Level::kError);
  INFO(f.found);
  CHECK(f.found.ends_with("/lib/libfake_future.so is an ELF file that is damaged or was cut off"));
  CHECK(f.fix == "install the broken files again");
}

TEST_CASE("what the loader puts in place of tokens") {
  FakeSystem s;
  s.files["/proc/self/exe"] = Content(FAKE_NEEDY);
  auto with = [&](const char* text) { return WithTokens(s, text, "/app/bin"); };
  CHECK(with("/a/b") == "/a/b");
  CHECK(with("$ORIGIN/../$LIB") == "/app/bin/../lib");  // of a system that tells nothing
  CHECK(with("${ORIGIN}") == "/app/bin");
  CHECK(with("/x$ORIGINAL/$LIBRARY/${LIB/$LIB_/$/$") == "/x$ORIGINAL/$LIBRARY/${LIB/$LIB_/$/$");
  CHECK(WithTokens(s, "$ORIGIN/lib", "").empty());
  CHECK(with("/o/$PLATFORM") == "/o/x86_64");
  const std::pair<const char*, const char*> systems[] = {
      {"/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"},
      {"/usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"},
      {"/lib64", "lib64"},
      {"/usr/lib64", "lib64"},
      {"/usr/lib", "lib"}};
  for (const auto& [folder, lib] : systems) {
    FakeSystem other;
    other.files[std::string(folder) + "/libc.so.6"] = Content(FAKE_FUTURE);
    CHECK(WithTokens(other, "/opt/${LIB}/x", "") == std::string("/opt/") + lib + "/x");
  }
  s.files["/lib64/ld-linux-x86-64.so.2"] = "";
  s.outputs["/lib64/ld-linux-x86-64.so.2"] =
      "dl_discover_osversion=0x0\ndl_dst_lib=\"lib/tls\"\ndl_platform=\"haswell\"\n";
  CHECK(with("/o/$LIB/$PLATFORM/") == "/o/lib/tls/haswell/");
}

TEST_CASE("this machine's loader and the tokens agree") {
  const std::unique_ptr<System> host = MakeHostSystem();
  const std::string libc = FindOwnLibrary(*host, "libc.so.6");
  if (libc.empty()) return;
  CHECK(Says(libc, WithTokens(*host, "/$LIB/", "")));
}

TEST_CASE("libraries are found by tokens, and where a list has an empty item") {
  FakeSystem s;
  s.files["/app/needy.so"] = Content(FAKE_NEEDY);
  for (const char* name : {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}) {
    s.files[std::string("/lib/x86_64-linux-gnu/") + name] = Content(FAKE_FUTURE);
  }
  auto level = [&] { return CheckLibrary(s, "/app/needy.so").front().level; };
  CHECK(level() == Level::kError);
  s.files["/opt/lib/x86_64-linux-gnu/libfake_future.so"] = Content(FAKE_FUTURE);
  s.variables["LD_LIBRARY_PATH"] = "/opt/$LIB";
  CHECK(level() == Level::kOk);
  s.files.erase("/opt/lib/x86_64-linux-gnu/libfake_future.so");
  s.files["./libfake_future.so"] = Content(FAKE_FUTURE);
  CHECK(level() == Level::kError);
  for (const char* list : {"/opt:", ":/opt", "/opt::/usr/lib", "/opt;"}) {
    s.variables["LD_LIBRARY_PATH"] = list;
    INFO(list);
    CHECK(level() == Level::kOk);
  }
  s.variables["LD_LIBRARY_PATH"] = "";
  CHECK(level() == Level::kError);
}

TEST_CASE("a library that tells no versions is only warned of, as by the loader") {
  FakeSystem s;
  s.files["/app/needy.so"] = Content(FAKE_NEEDY);
  for (const char* name : {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}) {
    s.files[std::string("/lib/") + name] = Content(FAKE_FUTURE);
  }
  std::string untold = Content(FAKE_FUTURE);
  Elf64_Ehdr header;
  std::memcpy(&header, untold.data(), sizeof(header));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, untold.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type != PT_DYNAMIC) continue;
    for (uint64_t at = segment.p_offset;; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, untold.data() + at, sizeof(entry));
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag != DT_VERDEF) continue;
      entry.d_tag = DT_DEBUG;
      std::memcpy(untold.data() + at, &entry, sizeof(entry));
    }
  }
  s.files["/lib/libfake_future.so"] = untold;
  const Finding f = CheckLibrary(s, "/app/needy.so").front();
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.found, "found without versions: FUTURE_9.9 of libfake_future.so (for future_func"));
  CHECK(Says(f.why, "no version information available"));
}

TEST_CASE("a library for musl says so, also where glibc's linker script has its name") {
  FakeSystem s;
  std::string needy = Content(FAKE_NEEDY);
  const size_t at = needy.find(std::string("libfake_future.so") + '\0');
  REQUIRE(at != std::string::npos);
  needy.replace(at, 18, std::string("libc.so") + std::string(11, '\0'));
  s.files["/app/needy.so"] = needy;
  for (const char* name : {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}) {
    s.files[std::string("/lib/") + name] = Content(FAKE_FUTURE);
  }
  s.files["/usr/lib/libc.so"] = "/* GNU ld script */";
  const Finding f = CheckLibrary(s, "/app/needy.so").front();
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found, "libc.so of musl not found"));
  CHECK(Says(f.fix, "for glibc"));
}

TEST_CASE("a hostile ELF file costs neither time nor memory") {
  // Header, one segment over all, a dynamic section; the rest are the same 16 bytes again and
  // again, so that each version points at the next and all names overlap.
  std::string bytes = Content(FAKE_NEEDY), why;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  SECTION("many segments") {
    header.e_phnum = 0xffff;
    std::memcpy(bytes.data(), &header, sizeof(header));
    CHECK_FALSE(ParseElf(bytes, &why));
    header.e_phentsize = 0;
    std::memcpy(bytes.data(), &header, sizeof(header));
    CHECK_FALSE(ParseElf(bytes, &why));
  }
  SECTION("a million symbols with long names") {
    std::string all(sizeof(header) + 2 * sizeof(Elf64_Phdr), '\0');
    std::vector<Elf64_Dyn> dynamic(3);
    uint64_t symbols = all.size() + dynamic.size() * sizeof(Elf64_Dyn);
    uint64_t strings = symbols + (uint64_t{1} << 20) * sizeof(Elf64_Sym);
    header.e_phoff = sizeof(header);
    header.e_phnum = 2;
    Elf64_Phdr load{}, place{};
    load.p_type = PT_LOAD;
    load.p_filesz = strings + 4096;
    place.p_type = PT_DYNAMIC;
    place.p_offset = all.size();
    std::memcpy(all.data(), &header, sizeof(header));
    std::memcpy(all.data() + sizeof(header), &load, sizeof(load));
    std::memcpy(all.data() + sizeof(header) + sizeof(load), &place, sizeof(place));
    dynamic[0] = {DT_STRTAB, {strings}};
    dynamic[1] = {DT_SYMTAB, {symbols}};
    all.append(reinterpret_cast<const char*>(dynamic.data()), dynamic.size() * sizeof(Elf64_Dyn));
    Elf64_Sym symbol{};
    symbol.st_info = STT_OBJECT;
    symbol.st_shndx = 1;
    symbol.st_size = 4;
    for (int i = 0; i < 1 << 20; ++i) {
      all.append(reinterpret_cast<const char*>(&symbol), sizeof(symbol));
    }
    all += std::string(4095, 'n') + '\0';
    auto elf = ParseElf(all, &why);
    REQUIRE(elf);
    size_t text = 0;
    for (const auto& [name, value] : elf->constants) text += name.size();
    CHECK(text > 1000);
    CHECK(text < (size_t{65} << 20));
  }
}

TEST_CASE("damaged ELF files are refused or read as far as they go") {
  std::string bytes = Content(FAKE_NEEDY), why;
  REQUIRE(!bytes.empty());
  for (size_t size = 0; size < bytes.size(); size += 61) {
    std::string cut = bytes.substr(0, size);
    ParseElf({cut.data(), cut.size()}, &why);
  }
  uint32_t random = 7;
  for (int i = 0; i < 3000; ++i) {
    std::string spoilt = bytes;
    for (int k = 0; k < 4; ++k) {
      random = random * 1664525 + 1013904223;
      spoilt[random % std::min<size_t>(spoilt.size(), i % 2 ? 4096 : spoilt.size())] =
          static_cast<char>(random >> 24);
    }
    ParseElf({spoilt.data(), spoilt.size()}, &why);
  }
  FakeSystem s;
  s.files["/x.so"] = "#!/bin/sh\n";
  CHECK(CheckLibrary(s, "/x.so").front().level == Level::kError);
  CHECK(CheckLibrary(s, "/none.so").front().level == Level::kError);
}

}  // namespace
}  // namespace xp::doctor
