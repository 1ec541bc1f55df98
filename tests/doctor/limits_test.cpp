// Limits of the process, memory files and disks, through a fake of the system's files.
#include "catch.h"
#include "doctor/fake_system.h"
#include "src/doctor/room.h"

namespace xp::doctor {
namespace {

// A machine whose /proc/self/limits has one line.
Finding Limited(const std::string& line, const char* id) {
  FakeSystem s = HealthyMachine();
  s.files["/proc/self/limits"] = line + "\n";
  return Get(CheckLimits(s.Of(TestBuild())), id);
}

TEST_CASE("few open files") {
  auto files = [&](const std::string& soft) {
    return Limited("Max open files            " + soft + "   4096   files", "files").level;
  };
  CHECK(files("unlimited") == Level::kOk);
  CHECK(files("512") == Level::kWarning);
  CHECK(files("64") == Level::kError);
}

TEST_CASE("a limited address space, data, file size, stack, processor time") {
  Finding f = Limited("Max address space  68719476736  unlimited  bytes", "address_space");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.found, "64.0 GiB"));
  f = Limited("Max address space  4294967296  unlimited  bytes", "address_space");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.fix, "ulimit -v unlimited"));
  f = Limited("Max data size  4294967296  unlimited  bytes", "data_size");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.fix, "ulimit -d unlimited"));
  f = Limited("Max file size  10240  unlimited  bytes", "file_size");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found, "10.0 KiB a file"));
  CHECK(Limited("Max file size  8589934592  unlimited  bytes", "file_size").level ==
        Level::kWarning);
  CHECK(Limited("Max file size  1099511627776  unlimited  bytes", "file_size").level == Level::kOk);
  f = Limited("Max stack size  65536  unlimited  bytes", "stack");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.fix, "ulimit -s 8192"));
  CHECK(Limited("Max stack size  1572864  unlimited  bytes", "stack").level == Level::kWarning);
  f = Limited("Max processes  100  unlimited  processes", "processes");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.fix, "ulimit -u"));
  f = Limited("Max cpu time  600  unlimited  seconds", "cpu_time");
  CHECK(f.level == Level::kError);
  CHECK(Limited("Max cpu time  86400  unlimited  seconds", "cpu_time").level == Level::kWarning);
  for (const Finding& other : CheckLimits(FakeSystem().Of(TestBuild()))) {
    CHECK(other.level == Level::kAbsent);
  }
}

TEST_CASE("a small /dev/shm") {
  FakeSystem s = HealthyMachine();
  s.spaces["/dev/shm"] = {64u << 20, 64u << 20, 0, 0, false};
  Finding f = Get(CheckDisk(s.Of(TestBuild())), "shm");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.fix, "--shm-size"));
  s.spaces.erase("/dev/shm");
  CHECK(Get(CheckDisk(s.Of(TestBuild())), "shm").level == Level::kAbsent);
}

TEST_CASE("a full disk, one without inodes, a read-only one, no cache folder") {
  FakeSystem s = HealthyMachine();
  auto level = [&](const char* id) { return Get(CheckDisk(s.Of(TestBuild())), id).level; };
  auto fix = [&](const char* id) { return Get(CheckDisk(s.Of(TestBuild())), id).fix; };
  s.spaces["/work"].free_bytes = 4'000'000'000;
  CHECK(level("disk.work") == Level::kWarning);
  CHECK(Says(fix("disk.work"), "free space there, or choose another place"));
  s.spaces["/work"].free_bytes = 0;
  CHECK(level("disk.work") == Level::kError);
  s.spaces["/store"].free_files = 0;
  CHECK(level("disk.store") == Level::kError);
  CHECK(Says(fix("disk.store"), "remove files there"));
  s.spaces["/store"] = s.spaces["/data"];
  s.spaces["/store"].read_only = true;
  CHECK(level("disk.store") == Level::kError);
  CHECK(Says(fix("disk.store"), "mount it to be written"));
  s.spaces["/store"] = s.spaces["/data"];
  CHECK(level("disk.store") == Level::kOk);
  s.writable.clear();
  CHECK(level("disk.cache") == Level::kWarning);
  for (const char* id : {"disk.store", "disk.work", "disk.tmp"}) CHECK(level(id) == Level::kError);
  CHECK(Says(Get(CheckDisk(s.Of(TestBuild())), "disk.work").found, "no folder that this user may"));
  CHECK(Says(fix("disk.tmp"), "the right to write there (chown, chmod), or set TMPDIR"));
  s.variables.erase("HOME");
  CHECK(level("disk.cache") == Level::kWarning);
}

TEST_CASE("a temporary folder that isn't there") {
  FakeSystem s = HealthyMachine();
  s.variables["TMPDIR"] = "/gone";
  Finding f = Get(CheckDisk(s.Of(TestBuild())), "disk.tmp");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.found, "TMPDIR names no folder: /gone; "));
  CHECK(Says(f.found, "(/tmp)"));
  CHECK(Says(f.fix, "unset TMPDIR"));
  s.writable.clear();
  CHECK(Get(CheckDisk(s.Of(TestBuild())), "disk.tmp").level == Level::kError);
}

TEST_CASE("a test that memory has no room for is left out") {
  constexpr uint64_t kMib = 1u << 20;
  CHECK_FALSE(NoRoom({.id = "x"}, 100 * kMib, {100 * kMib, 1000 * kMib}));
  auto f = NoRoom({.id = "x", .group = "smoke"}, 100 * kMib, {50 * kMib, 120 * kMib});
  REQUIRE(f);
  CHECK(f->id == "x");
  CHECK(f->level == Level::kAbsent);
  CHECK(Says(f->found, "left out: it takes 100.0 MiB of memory, and 50.0 MiB are left"));
  CHECK_FALSE(NoRoom({.id = "x"}, 100 * kMib, {0, 0}));  // nothing is told
}

}  // namespace
}  // namespace xp::doctor
