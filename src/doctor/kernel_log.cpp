// What the kernel has written of GPUs, memory and disks since it started.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "exp/base/leading_integer.h"
#include "exp/doctor/checks.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

// NVIDIA's numbers: "XID Errors" (docs.nvidia.com/deploy/xid-errors). `card`: the card or its
// driver is at fault, else the program that ran.
struct Xid {
  int number;
  bool card;
  const char* text;
};
constexpr Xid kXids[] = {
    {13, false, "a program's kernel failed (illegal instruction or address)"},
    {31, false, "a program read or wrote outside of its memory"},
    {32, false, "broken data in the command stream"},
    {43, false, "a program was ended after an error of its own"},
    {45, false, "a program was ended (killed, or after another error)"},
    {48, true, "double-bit memory error"},
    {61, true, "the card's microcontroller stopped"},
    {62, true, "the card's microcontroller stopped"},
    {63, true, "a memory page or row was replaced"},
    {64, true, "a bad memory page or row couldn't be replaced"},
    {69, false, "a program's graphics engine error"},
    {74, true, "NVLink error"},
    {79, true, "the card fell off the bus"},
    {92, true, "many corrected memory errors"},
    {94, true, "memory error, contained to the program that met it"},
    {95, true, "memory error, not contained"},
    {109, false, "a program's context switch took too long"},
    {119, true, "the card's firmware (GSP) doesn't answer"},
    {120, true, "the card's firmware (GSP) failed"},
    {140, true, "memory error in an unrecovered place"},
};

const Xid* Find(int64_t number) {
  for (const Xid& x : kXids) {
    if (x.number == number) return &x;
  }
  return nullptr;
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
std::optional<int64_t> XidOf(const std::string& line) {
  size_t at = line.find("NVRM: Xid (");
  if (at == std::string::npos) return std::nullopt;
  size_t colon = line.find("): ", at);
  return colon == std::string::npos ? std::nullopt : LeadingInteger(line.substr(colon + 3));
}

Finding Xids(const std::vector<std::string>& lines) {
  Finding f{.id = "xid", .group = "health"};
  f.needed = "no Xid errors";
  constexpr size_t kMostKinds = 64;  // NVIDIA's list is not much longer
  std::map<int64_t, int> counts;
  for (const std::string& line : lines) {
    auto number = XidOf(line);
    if (number && (counts.size() < kMostKinds || counts.count(*number) > 0)) ++counts[*number];
  }
  if (counts.empty()) {
    f.found = "none in the kernel's log";
    return f;
  }
  std::vector<std::string> words;
  bool card = false;
  for (const auto& [number, count] : counts) {
    const Xid* known = Find(number);
    words.push_back(fmt::format("{} x Xid {} ({})", count, number,
                                known ? known->text : "see NVIDIA's list of Xid errors"));
    card |= known == nullptr || known->card;
    f.numbers.emplace_back(fmt::format("xid_{}", number), count);
  }
  f.found = Listed(words);
  f.level = card ? Level::kError : Level::kWarning;
  f.why = card ? "the card or its driver has failed since the machine was started"
               : "a program failed on the GPU; the card itself is probably fine";
  f.fix = card ? "reset the card or reboot, run `exp doctor --deep`; have it replaced if it comes "
                 "back"
               : "look at which program it was (`dmesg | grep Xid`)";
  return f;
}

Finding Killed(const std::vector<std::string>& lines) {
  Finding f{.id = "kernel.memory", .group = "health"};
  int count = 0;
  std::string last;
  for (const std::string& line : lines) {
    // "Out of memory: Killed process 7 (x)", "Memory cgroup out of memory: Killed ..."; kernels
    // before 5 wrote "Kill process 7 (x) score 9 or sacrifice child", and the killing after it.
    const size_t at = line.find("ut of memory: Kill");
    if (at == std::string::npos) continue;
    ++count;
    size_t open = line.find('(', at), close = line.find(')', open);
    if (close != std::string::npos) last = line.substr(open + 1, close - open - 1);
  }
  f.found = count == 0 ? "no program was killed for memory"
                       : fmt::format("{} killed for memory, last `{}`",
                                     count == 1 ? "one program was"
                                                : fmt::format("{} programs were", count),
                                     last);
  f.numbers = {{"killed", count}};
  if (count == 0) return f;
  f.level = Level::kWarning;
  f.needed = "none";
  f.why = "a training may end the same way";
  f.fix = "lower data.workers_per_gpu or what else runs; `exp show RUN` says when a run was killed";
  return f;
}

// What the kernel's file systems and block devices write of errors.
bool TellsDiskError(const std::string& line) {
  static constexpr const char* kErrors[] = {
      "I/O error, dev ",     "Buffer I/O error on dev",
      "medium error, dev ",  "metadata I/O error",
      "EXT4-fs error",       "EXT3-fs error",
      "BTRFS error",         "BTRFS critical",
      "Corruption detected", "Remounting filesystem read-only",
      "forced readonly"};
  // Virtual machines have drives without a disk or a disc in them, which are asked now and then.
  static constexpr const char* kEmptyDrives[] = {"dev fd", "dev sr", "device fd", "device sr"};
  auto holds = [&](const char* text) { return line.find(text) != std::string::npos; };
  return std::any_of(std::begin(kErrors), std::end(kErrors), holds) &&
         std::none_of(std::begin(kEmptyDrives), std::end(kEmptyDrives), holds);
}

Finding Disks(const std::vector<std::string>& lines) {
  Finding f{.id = "kernel.disk", .group = "health"};
  int count = 0;
  std::string last;
  for (const std::string& line : lines) {
    if (!TellsDiskError(line)) continue;
    ++count;
    last = Trimmed(line);
  }
  f.found = count == 0
                ? "no disk errors"
                : fmt::format("{} disk error{}, last: {}", count, count == 1 ? "" : "s", last);
  f.numbers = {{"errors", count}};
  if (count == 0) return f;
  f.level = Level::kError;
  f.needed = "none";
  f.why = "images and checkpoints may be damaged";
  f.fix = "save what matters and look at `smartctl -a` and the cables";
  return f;
}

}  // namespace

Findings CheckKernelLog(const Subject& s) {
  auto text = s.system.KernelLog();
  if (!text) {
    return {{.id = "xid",
             .group = "health",
             .level = Level::kAbsent,
             .found = s.system.IsHere() ? "the kernel's log can't be read by this user"
                                        : "there is no log of the kernel among the files",
             .needed = s.system.IsHere() ? "root, to look for Xid errors"
                                         : "var/log/kern.log, messages, syslog or dmesg"}};
  }
  std::vector<std::string> lines = Lines(*text);
  return {Xids(lines), Killed(lines), Disks(lines)};
}

}  // namespace xp::doctor
