// Where the loader would find a library, on made-up systems.
#include <cstring>

#include "catch.h"
#include "doctor/elf_files.h"
#include "doctor/fake_system.h"
#include "exp/doctor/elf.h"
#include "src/doctor/find_library.h"
#include "src/doctor/isa_level.h"
#include "src/doctor/loader_cache.h"

namespace xp::doctor {
namespace {

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

// Flags of processors, as Linux tells them.
constexpr const char* kV2 = "fpu sse2 pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm";
constexpr const char* kV3 = " fma movbe xsave avx f16c abm bmi1 avx2 bmi2";
constexpr const char* kV4 = " avx512f avx512dq avx512cd avx512bw avx512vl";

std::string CpuInfo(const std::string& flags) {
  return "processor\t: 0\nflags\t\t: " + flags + "\nbugs\t\t:\n\nprocessor\t: 1\n";
}

TEST_CASE("levels of x86-64") {
  FakeSystem s;
  CHECK(IsaLevel(s) == 0);
  const std::string v3 = std::string(kV2) + kV3;
  const std::pair<std::string, int> processors[] = {
      {"fpu sse2", 1}, {kV2, 2}, {v3, 3}, {v3 + kV4, 4}, {"sse2" + std::string(kV4), 1}, {"", 0}};
  for (const auto& [flags, level] : processors) {
    s.files["/proc/cpuinfo"] = CpuInfo(flags);
    INFO(flags);
    CHECK(IsaLevel(s) == level);
  }
  s.files["/proc/cpuinfo"] = "processor : 0\nFeatures : fp asimd\n";
  CHECK(IsaLevel(s) == 0);
  CHECK(HwcapFolders(1).empty());
  CHECK(HwcapFolders(3) ==
        std::vector<std::string>{"glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2"});
}

TEST_CASE("builds for newer processors are found before the usual ones, folder by folder") {
  FakeSystem s;
  for (const char* path : {"/b/glibc-hwcaps/x86-64-v4/liba.so", "/b/glibc-hwcaps/x86-64-v2/liba.so",
                           "/b/liba.so", "/c/glibc-hwcaps/x86-64-v3/liba.so"}) {
    s.files[path] = Content(FAKE_FUTURE);
  }
  s.variables["LD_LIBRARY_PATH"] = "/a:/b:/c";
  auto found = [&](int level) { return FindLibrary(s, "liba.so", {{}, {}, 0, level}); };
  CHECK(found(0) == "/b/liba.so");
  CHECK(found(1) == "/b/liba.so");
  CHECK(found(2) == "/b/glibc-hwcaps/x86-64-v2/liba.so");
  CHECK(found(3) == "/b/glibc-hwcaps/x86-64-v2/liba.so");
  CHECK(found(4) == "/b/glibc-hwcaps/x86-64-v4/liba.so");
}

// With `hwcaps` as names of folders: entries get their number there, counted from one; 0: none.
std::string ExtendedCache(const std::vector<std::pair<std::string, uint32_t>>& paths,
                          const std::vector<std::string>& hwcaps) {
  std::vector<std::pair<std::string, std::string>> libraries;
  for (const auto& [path, hwcap] : paths) libraries.emplace_back("liba.so", path);
  std::string cache = Cache(libraries);
  auto put = [&](size_t at, uint32_t value) {
    if (at == cache.size()) cache.append(4, 0);
    std::memcpy(cache.data() + at, &value, 4);
  };
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].second == 0) continue;
    put(48 + 24 * i + 16, paths[i].second - 1);
    put(48 + 24 * i + 20, (1u << 30) + 3);  // and bits of a level
  }
  cache.append((4 - cache.size() % 4) % 4, 0);
  std::vector<size_t> names;
  for (const std::string& name : hwcaps) {
    names.push_back(cache.size());
    cache += name + std::string(4 - name.size() % 4, 0);
  }
  const auto list = static_cast<uint32_t>(cache.size());
  for (size_t name : names) put(cache.size(), static_cast<uint32_t>(name));
  put(32, static_cast<uint32_t>(cache.size()));
  const auto bytes = static_cast<uint32_t>(4 * names.size());
  for (uint32_t value : {0xeaa42174u, 2u, 0u, 0u, 0u, 0u, 1u, 0u, list, bytes}) {
    put(cache.size(), value);
  }
  return cache;
}

TEST_CASE("the cache's builds for newer processors") {
  const std::string cache = ExtendedCache(
      {{"/v2/liba.so", 2}, {"/v4/liba.so", 1}, {"/liba.so", 0}, {"/other/liba.so", 3}},
      {"x86-64-v4", "x86-64-v2", "z14"});
  using Paths = std::vector<std::string>;
  CHECK(CachedPaths(cache, "liba.so") == Paths{"/liba.so"});
  CHECK(CachedPaths(cache, "liba.so", HwcapFolders(3)) == Paths{"/v2/liba.so", "/liba.so"});
  CHECK(CachedPaths(cache, "liba.so", HwcapFolders(4)) ==
        Paths{"/v4/liba.so", "/v2/liba.so", "/liba.so"});
  for (size_t size = 0; size < cache.size(); ++size) {
    const std::string cut = cache.substr(0, size);
    CachedPaths({cut.data(), cut.size()}, "liba.so", HwcapFolders(4));
  }
}

}  // namespace
}  // namespace xp::doctor
