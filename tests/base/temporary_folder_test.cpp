#include "exp/base/temporary_folder.h"

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
