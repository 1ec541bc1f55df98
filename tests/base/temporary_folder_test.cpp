#include "exp/base/temporary_folder.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.h"

namespace fs = std::filesystem;

TEST_CASE("a temporary folder goes with all that is in it") {
  std::string path;
  {
    xp::TemporaryFolder folder("test");
    path = folder.path();
    REQUIRE(fs::is_directory(path));
    CHECK(fs::path(path).filename().string().starts_with("exp-test-"));
    xp::TemporaryFolder other("test");
    CHECK(other.path() != path);
    fs::create_directories(path + "/a/b");
    std::ofstream(path + "/a/b/c") << "x";
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("folders that killed processes have left go, those in use and new ones stay") {
  const xp::TemporaryFolder base("test-base");
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  ::setenv("TMPDIR", base.path().c_str(), 1);
  const fs::path root = base.path();
  for (const char* name :
       {"exp-test-abcdef/x", "exp-test-young1", "exp-other-abcdef", "exp-test-longer-abcdef"}) {
    fs::create_directories(root / name);
  }
  std::ofstream(root / "exp-test-abcdef/x/y") << "x";
  fs::create_directories(root / "elsewhere");
  fs::create_directory_symlink(root / "elsewhere", root / "exp-test-linked");
  const xp::TemporaryFolder in_use("test");
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& old :
       {root / "exp-test-abcdef", root / "exp-other-abcdef", root / "elsewhere",
        root / "exp-test-longer-abcdef", fs::path(in_use.path())}) {
    fs::last_write_time(old, long_ago);
  }
  const xp::TemporaryFolder next("test");
  CHECK_FALSE(fs::exists(root / "exp-test-abcdef"));
  for (const char* name : {"exp-test-young1", "exp-other-abcdef", "exp-test-longer-abcdef",
                           "exp-test-linked", "elsewhere"}) {
    INFO(name);
    CHECK(fs::exists(root / name));
  }
  CHECK(fs::exists(in_use.path()));
  CHECK(fs::exists(next.path()));
  before ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
}

TEST_CASE("a temporary folder where TMPDIR names none") {
  const char* before = std::getenv("TMPDIR");
  std::string kept = before ? before : "";
  ::setenv("TMPDIR", "/nonexistent", 1);
  {
    xp::TemporaryFolder folder("test");
    CHECK(fs::path(folder.path()).parent_path() == "/tmp");
  }
  before ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
}
