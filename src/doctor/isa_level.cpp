#include "src/doctor/isa_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

// As /proc/cpuinfo calls what each level adds: "abm" is LZCNT, "pni" SSE3.
const std::vector<const char*> kAdded[] = {
    {"sse2"},
    {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"},
    {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"},
    {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}};

}  // namespace

int IsaLevel(const System& system) {
  const std::string cpus = system.Text("/proc/cpuinfo").value_or("");
  const size_t at = cpus.find("\nflags");
  if (at == std::string::npos) return 0;
  const std::vector<std::string> words = Words(cpus.substr(at, cpus.find('\n', at + 1) - at));
  const std::set<std::string> flags(words.begin(), words.end());
  int level = 0;
  for (const auto& added : kAdded) {
    const bool all = std::all_of(added.begin(), added.end(),
                                 [&](const char* flag) { return flags.count(flag) > 0; });
    if (!all) break;
    ++level;
  }
  return level;
}

std::vector<std::string> HwcapFolders(int level) {
  std::vector<std::string> out;
  for (; level >= 2; --level) out.push_back(fmt::format("glibc-hwcaps/x86-64-v{}", level));
  return out;
}

}  // namespace xp::doctor
