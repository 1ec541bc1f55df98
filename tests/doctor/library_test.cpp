// Symbol versions of real ELF files against made-up systems.
#include <fstream>
#include <iterator>

#include "catch.h"
#include "doctor/fake_system.h"
#include "exp/doctor/elf.h"

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
    s.files[std::string("/lib/") + name] = "";
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
