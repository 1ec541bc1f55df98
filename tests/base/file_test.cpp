#include "exp/base/file.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/system_advice.h"
#include "exp/base/temporary_folder.h"
#include "src/base/unfinished_file.h"

namespace fs = std::filesystem;

namespace {

std::set<std::string> Names(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

bool Any(const std::string&) { return true; }

// A process that is in the middle of writing `target`, until Kill.
class Writer {
 public:
  explicit Writer(const fs::path& target) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      xp::UnfinishedFile file(target);
      bool written = ::write(file.fd(), "half", 4) == 4 && ::write(ready[1], "!", 1) == 1;
      for (; written;) ::pause();
      ::_exit(1);
    }
    ::close(ready[1]);
    char mark = 0;
    REQUIRE(::read(ready[0], &mark, 1) == 1);
    ::close(ready[0]);
  }
  ~Writer() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("what a killed process left half written goes with the next writing of the file") {
  xp::TemporaryFolder folder("file");
  const fs::path root = folder.path(), file = root / "a.json";
  Writer killed(file);
  CHECK(Names(root) == std::set<std::string>{"a.json.tmp.0"});
  killed.Kill();
  CHECK(Names(root) == std::set<std::string>{"a.json.tmp.0"});
  xp::WriteFileAtomic(file, "whole");
  CHECK(Names(root) == std::set<std::string>{"a.json"});
  CHECK(xp::ReadFile(file) == "whole");
}

TEST_CASE("a file that another process is writing is left alone") {
  xp::TemporaryFolder folder("file");
  const fs::path root = folder.path(), file = root / "a.json";
  Writer other(file);
  xp::WriteFileAtomic(file, "ours");
  CHECK(Names(root) == std::set<std::string>{"a.json", "a.json.tmp.0"});
  CHECK(xp::ReadFile(root / "a.json.tmp.0") == "half");
  CHECK(xp::RemoveAbandoned(root, Any).files == 0);
  other.Kill();
  xp::Abandoned left = xp::RemoveAbandoned(root, Any, true);
  CHECK(left.files == 1);
  CHECK(left.bytes == 4);
  CHECK(Names(root).size() == 2);
  CHECK(xp::RemoveAbandoned(root, Any).files == 1);
  CHECK(Names(root) == std::set<std::string>{"a.json"});
}

TEST_CASE("only unfinished files of the names asked for are removed") {
  xp::TemporaryFolder folder("file");
  const fs::path root = folder.path();
  for (const char* name : {"a.tmp.4711", "b.tmp.1", "a.tmp", "a.tmp.", "a.tmp.x1", ".tmp.1"})
    xp::WriteFileAtomic(root / name, "");
  fs::create_directory(root / "a.tmp.2");
  fs::create_symlink("b.tmp.1", root / "a.tmp.3");
  REQUIRE(::mkfifo((root / "a.tmp.5").c_str(), 0600) == 0);
  auto is_a = [](const std::string& name) { return name == "a"; };
  CHECK(xp::RemoveAbandoned(root, is_a).files == 1);
  CHECK(Names(root) == std::set<std::string>{"b.tmp.1", "a.tmp", "a.tmp.", "a.tmp.x1", ".tmp.1",
                                             "a.tmp.2", "a.tmp.3", "a.tmp.5"});
  CHECK(xp::RemoveAbandoned(root / "none", Any).files == 0);
  // None of these is in the way of a new content, and links are not written through.
  fs::create_symlink("b.tmp.1", root / "a.tmp.0");
  xp::WriteFileAtomic(root / "a", "new");
  CHECK(xp::ReadFile(root / "b.tmp.1").empty());
  CHECK(xp::ReadFile(root / "a") == "new");
}

TEST_CASE("many writers and one who cleans up: each content is whole, nothing is left") {
  xp::TemporaryFolder folder("file");
  const fs::path root = folder.path(), file = root / "a";
  const std::string contents[] = {std::string(50'000, 'x'), std::string(70'000, 'y')};
  xp::WriteFileAtomic(file, contents[0]);
  std::atomic<int> writing{4}, torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) xp::WriteFileAtomic(file, contents[(t + i) % 2]);
      --writing;
    });
  }
  threads.emplace_back([&] {
    while (writing > 0) xp::RemoveAbandoned(root, Any);
  });
  threads.emplace_back([&] {
    while (writing > 0) {
      std::string seen = xp::ReadFile(file);
      if (seen != contents[0] && seen != contents[1]) ++torn;
    }
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == 0);
  CHECK(Names(root) == std::set<std::string>{"a"});
}

TEST_CASE("a folder that can't be written is said") {
  CHECK_THROWS_WITH(
      xp::WriteFileAtomic("/nowhere/at/all", ""),
      "/nowhere/at/all: can't be created: No such file or directory\n  next: make its "
      "folder, or choose another place");
}

TEST_CASE("what the system refuses comes with what to do, and never with another reason's advice") {
  for (int error : {ENOENT, ENOTDIR, EACCES, EPERM, EROFS, EISDIR, ENOSPC, EDQUOT, EFBIG, EMFILE,
                    ENAMETOOLONG, ELOOP, EIO}) {
    INFO(error);
    CHECK_FALSE(xp::WriteAdvice(error).empty());
  }
  CHECK(xp::ReadAdvice(EACCES) == "make it readable for this user");
  CHECK(xp::ReadAdvice(ENOENT) == "check the path");
  CHECK(xp::ReadAdvice(EIO) == xp::WriteAdvice(EIO));
  CHECK(xp::WriteAdvice(EINVAL).empty());
  CHECK_THROWS_WITH(xp::ReadFile("/nowhere"),
                    "/nowhere: can't be opened: No such file or directory\n  next: check the path");
  CHECK_THROWS_WITH(xp::ReadFile("/"),
                    "/: can't be read: Is a directory\n  next: name a file, not a folder");
  CHECK_THROWS_WITH(xp::WriteFileAtomic("/" + std::string(300, 'x'), ""),
                    ContainsSubstring("next: choose a shorter name"));
}
