// Limits of the process (setrlimit(2)), as /proc/self/limits tells them.
#include <fmt/format.h>

#include "exp/base/leading_integer.h"
#include "exp/doctor/checks.h"
#include "exp/doctor/measure.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

// A line of /proc/self/limits and what it means here. Amounts are in the line's own unit.
struct Limit {
  const char *id, *line, *unit;
  bool bytes;              // shown as such
  int64_t warning, error;  // below these
  const char *why, *fix;
};

constexpr int64_t kMib = int64_t{1} << 20, kGib = int64_t{1} << 30;
constexpr int64_t kAny = INT64_MAX;  // each limit is worth a warning

constexpr Limit kLimits[] = {
    {"files", "Max open files", "open files", false, 1024, 256,
     "loaders of many workers open many files, and fail with \"too many open files\"",
     "ulimit -n 65536, or LimitNOFILE= of the service"},
    {"processes", "Max processes", "processes and threads of this user", false, 1024, 256,
     "each worker and each CPU of a computation is a thread: they can't be started",
     "ulimit -u 4096, or LimitNPROC= of the service"},
    {"address_space", "Max address space", "of address space", true, kAny, 16 * kGib,
     "CUDA reserves addresses for all memory of the host and the cards at once, and each thread "
     "some more: both fail with \"out of memory\" while memory is free",
     "ulimit -v unlimited, or take RLIMIT_AS out of limits.conf, the service or the batch job"},
    {"data_size", "Max data size", "of data", true, kAny, 8 * kGib,
     "activations and batches are data: they can't be had while memory is free",
     "ulimit -d unlimited, or take RLIMIT_DATA out of limits.conf, the service or the batch job"},
    {"file_size", "Max file size", "a file", true, 64 * kGib, 1 * kGib,
     "checkpoints and the record can't be written beyond it",
     "ulimit -f unlimited, or take RLIMIT_FSIZE out of limits.conf, the service or the batch job"},
    {"stack", "Max stack size", "of stack", true, 2 * kMib, 1 * kMib,
     "each thread gets as much: libraries end the program with a segmentation fault",
     "ulimit -s 8192, or LimitSTACK= of the service"},
    {"cpu_time", "Max cpu time", "seconds of processor time", false, kAny, 3600,
     "the kernel ends a training that has used them up",
     "ulimit -t unlimited, or take RLIMIT_CPU out of limits.conf, the service or the batch job"},
};

// The soft limit as it is written ("unlimited", "1024"); empty where it isn't told.
std::string SoftLimit(const std::vector<std::string>& lines, const std::string& name) {
  for (const std::string& line : lines) {
    if (!line.starts_with(name)) continue;
    std::vector<std::string> words = Words(line.substr(name.size()));
    return words.empty() ? "" : words[0];
  }
  return "";
}

Finding Judge(const Limit& limit, const std::vector<std::string>& lines) {
  Finding f{.id = limit.id, .group = "health", .level = Level::kAbsent};
  std::string soft = SoftLimit(lines, limit.line);
  // As far as 63 bits count; above that it is as good as none.
  const bool digits = soft.find_first_not_of("0123456789") == std::string::npos;
  if (soft.empty() || (soft != "unlimited" && !digits)) {
    f.found = "the limit can't be read";
    return f;
  }
  auto show = [&](int64_t amount) {
    std::string text = limit.bytes ? Gib(static_cast<double>(amount)) : fmt::format("{}", amount);
    return text + " " + limit.unit;
  };
  f.level = Level::kOk;
  f.needed = limit.warning == kAny ? "no limit" : show(limit.warning) + " or more";
  auto amount = LeadingInteger(soft);
  f.found = amount ? show(*amount) : "no limit";
  if (!amount) return f;
  f.numbers = {{limit.bytes ? "soft_bytes" : "soft", static_cast<double>(*amount)}};
  if (*amount >= limit.warning) return f;
  f.level = *amount < limit.error ? Level::kError : Level::kWarning;
  f.why = limit.why;
  f.fix = limit.fix;
  return f;
}

}  // namespace

Finding JudgeThreads(int started, int wanted) {
  Finding f{.id = "cpu.threads", .group = "health"};
  f.found = fmt::format("{} of {} threads can be started", started, wanted);
  f.needed = fmt::format("{}: one for each CPU", wanted);
  f.numbers = {{"started", started}, {"wanted", wanted}};
  if (started >= wanted) return f;
  f.level = Level::kError;
  f.why = "computing and loading start as many; each needs a stack, and counts as a process";
  f.fix = "raise `ulimit -u`, `ulimit -v` or the container's limits of processes and memory";
  return f;
}

Findings CheckLimits(const Subject& s) {
  std::vector<std::string> lines = Lines(s.system.Text("/proc/self/limits").value_or(""));
  Findings out;
  for (const Limit& limit : kLimits) out.push_back(Judge(limit, lines));
  return out;
}

}  // namespace xp::doctor
