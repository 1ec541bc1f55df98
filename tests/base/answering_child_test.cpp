#include "exp/base/answering_child.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "catch.h"
#include "exp/base/child_process.h"
#include "exp/base/stopwatch.h"

namespace {

TEST_CASE("a child answers by a function of this program, until it ends or hangs") {
  int asked = 0;
  xp::AnsweringChild child([&](const std::string& question) {
    if (question == "end") std::abort();
    if (question == "hang") std::this_thread::sleep_for(std::chrono::seconds(100));
    return question + std::to_string(++asked);
  });
  CHECK(child.Ask("a", 10) == "a1");
  CHECK(child.Ask("", 10) == "2");
  CHECK(asked == 0);  // what the child changes is its own
  const std::string large(50000, 'x');
  CHECK(child.Ask(large, 10) == large + "3");
  CHECK_FALSE(child.Ask(std::string(100000, 'x'), 10));
  CHECK(child.state() == xp::AnsweringChild::State::kAnswers);
  CHECK_FALSE(child.Ask("end", 10));
  CHECK(child.state() == xp::AnsweringChild::State::kEnded);
  CHECK_FALSE(child.Ask("a", 10));
  xp::AnsweringChild hangs([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::seconds(100));
    return std::string();
  });
  const xp::Stopwatch watch;
  CHECK_FALSE(hangs.Ask("a", 1));
  CHECK(hangs.state() == xp::AnsweringChild::State::kHangs);
  CHECK(watch.Seconds() < 30);
}

TEST_CASE("a child that answers keeps nothing of the program open") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  xp::AnsweringChild child([](const std::string& question) { return question; });
  REQUIRE(child.Ask("a", 10) == "a");
  ::close(pipe[1]);
  char byte = 0;
  CHECK(::read(pipe[0], &byte, 1) == 0);  // the end: nobody else can write into it
  ::close(pipe[0]);
}

// As a kernel before 5.9 does, or a container's filter of system calls: there is no close_range.
bool TakeCloseRange() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the system call's number
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

std::string OpenFiles(const std::string&) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return std::to_string(count - 1);  // the list itself is open, too
}

TEST_CASE("a child that answers keeps nothing open where the kernel has no close_range") {
  const int kept = ::open("/dev/null", O_RDONLY);
  REQUIRE(kept >= 0);
  constexpr int kNoFilter = 77;
  const pid_t program = ::fork();
  REQUIRE(program >= 0);
  if (program == 0) {  // the filter is for good
    if (!TakeCloseRange()) ::_exit(kNoFilter);
    xp::AnsweringChild child(OpenFiles);
    ::_exit(std::atoi(child.Ask("", 10).value_or("99").c_str()));
  }
  int status = 0;
  REQUIRE(::waitpid(program, &status, 0) == program);
  ::close(kept);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoFilter) return;
  CHECK(WEXITSTATUS(status) == 4);  // the usual three and the one it answers by
}

TEST_CASE("a child that hangs ends with the program") {
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_CLOEXEC) == 0);
  const pid_t program = ::fork();
  REQUIRE(program >= 0);
  if (program == 0) {
    xp::AnsweringChild child([](const std::string& question) {
      if (question == "hang") std::this_thread::sleep_for(std::chrono::seconds(100));
      return std::to_string(::getpid());
    });
    const int pid = std::atoi(child.Ask("", 10).value_or("").c_str());
    static_cast<void>(::write(pipe[1], &pid, sizeof(pid)));
    ::alarm(1);  // ends it as a kill does, while it waits
    child.Ask("hang", 100);
    ::_exit(0);
  }
  int status = 0, pid = 0;
  REQUIRE(::read(pipe[0], &pid, sizeof(pid)) == sizeof(pid));
  REQUIRE(::waitpid(program, &status, 0) == program);
  REQUIRE(WIFSIGNALED(status));
  ::close(pipe[0]);
  ::close(pipe[1]);
  // Who takes it over may leave it as a zombie, which computes nothing: it has no memory.
  auto lives = [pid] {
    std::ifstream memory("/proc/" + std::to_string(pid) + "/statm");
    int pages = 0;
    return memory >> pages && pages > 0;
  };
  const xp::Stopwatch watch;
  while (lives() && watch.Seconds() < 10) ::usleep(10000);
  CHECK_FALSE(lives());
}

}  // namespace
