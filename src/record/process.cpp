#include "exp/record/process.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace xp::record {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

struct Stat {
  bool found = false;
  char state = '?';
  int64_t start = 0;
};

// The command name in field 2 may hold spaces and parentheses: fields are counted from the last
// ')'.
Stat ReadStat(int64_t pid) {
  std::string line = FirstLine("/proc/" + std::to_string(pid) + "/stat");
  size_t close = line.rfind(')');
  if (close == std::string::npos) return {};
  std::istringstream rest(line.substr(close + 1));
  Stat stat;
  std::string skipped;
  rest >> stat.state;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  rest >> stat.start;
  stat.found = !rest.fail();
  return stat;
}

int64_t PidNamespace() {
  struct stat info;
  return ::stat("/proc/self/ns/pid", &info) == 0 ? static_cast<int64_t>(info.st_ino) : 0;
}

std::string Host() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

ProcessIdentity ThisProcess() {
  ProcessIdentity p;
  p.pid = ::getpid();
  p.start = ReadStat(p.pid).start;
  p.pid_namespace = PidNamespace();
  p.boot_id = FirstLine("/proc/sys/kernel/random/boot_id");
  p.host = Host();
  return p;
}

Life Probe(const ProcessIdentity& process) {
  std::string boot = FirstLine("/proc/sys/kernel/random/boot_id");
  if (boot != process.boot_id) return process.host == Host() ? Life::kRebooted : Life::kUnknown;
  if (process.pid_namespace != PidNamespace()) return Life::kUnknown;
  Stat stat = ReadStat(process.pid);
  if (!stat.found) {
    // A /proc mounted with hidepid hides the processes of others; a signal of 0 still finds them.
    bool hidden = ::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == EPERM;
    return hidden ? Life::kAlive : Life::kGone;
  }
  if (stat.start != process.start) return Life::kGone;
  if (stat.state == 'Z' || stat.state == 'X' || stat.state == 'x') return Life::kGone;
  return stat.state == 'T' || stat.state == 't' ? Life::kStopped : Life::kAlive;
}

std::optional<int64_t> OutOfMemoryKills() {
  // cgroup v2: the line "0::/path" of /proc/self/cgroup names the folder below /sys/fs/cgroup.
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    if (line.rfind("0::", 0) != 0) continue;
    std::ifstream events("/sys/fs/cgroup" + line.substr(3) + "/memory.events");
    std::string key;
    int64_t count = 0;
    while (events >> key >> count) {
      if (key == "oom_kill") return count;
    }
  }
  return std::nullopt;
}

}  // namespace xp::record
