// What is read of ELF files, whole and damaged ones.
#include <elf.h>

#include <cstring>

#include "catch.h"
#include "doctor/elf_files.h"
#include "doctor/fake_system.h"
#include "exp/doctor/elf.h"

namespace xp::doctor {
namespace {

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

}  // namespace
}  // namespace xp::doctor
