// Symbol versions of real ELF files against made-up systems.
#include <elf.h>

#include <cstring>

#include "catch.h"
#include "doctor/elf_files.h"
#include "doctor/fake_system.h"
#include "exp/doctor/elf.h"

namespace xp::doctor {
namespace {

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

TEST_CASE("a library for newer processors than this one is refused, as by the loader") {
  FakeSystem s;
  s.files["/app/needy.so"] = Content(FAKE_NEEDY);
  for (const char* name : {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}) {
    s.files[std::string("/lib/") + name] = Content(FAKE_FUTURE);
  }
  s.files["/proc/cpuinfo"] =
      "processor : 0\nflags : sse2 pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm\n";
  s.files["/lib/libfake_future.so"] = Content(FAKE_NEWER);
  if (ParseElf(s.files["/lib/libfake_future.so"], nullptr)->isa_level == 0)
    return;  // an old linker
  CHECK(ParseElf(s.files["/lib/libfake_future.so"], nullptr)->isa_level == 4);
  const Finding f = CheckLibrary(s, "/app/needy.so").front();
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found,
             "/lib/libfake_future.so is built for x86-64-v4; this "
             "processor is x86-64-v2"));
  CHECK(Says(f.fix, "x86-64-v2 or lower"));
  // By itself, too, though it needs nothing.
  CHECK(CheckLibrary(s, "/lib/libfake_future.so").front().level == Level::kError);
  s.files["/proc/cpuinfo"] = "";
  CHECK(CheckLibrary(s, "/app/needy.so").front().level == Level::kOk);
}

}  // namespace
}  // namespace xp::doctor
