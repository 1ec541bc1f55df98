// Differences of two environments, weighed by what they can do to a result's bits.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "exp/record/verdict.h"

namespace xp::record {
namespace {

using nlohmann::json;

struct Rule {
  std::string_view prefix;
  int weight;
};
// First match counts. Weights: 3 other kernels or other arithmetic; 2 perhaps; 1 speed; 0 a name.
constexpr std::array kRules = {
    Rule{"program/path", 0},
    Rule{"program/build_id", 2},
    Rule{"program", 3},
    Rule{"cpu/threads_used", 3},
    Rule{"cpu/flags", 3},
    Rule{"cpu/model", 2},
    Rule{"cpu/vendor", 2},
    Rule{"cpu/microcode", 1},
    Rule{"cpu", 1},
    Rule{"gpu/cudnn", 3},
    Rule{"gpu/cuda_runtime", 3},
    Rule{"gpu/driver", 2},
    Rule{"gpu/cuda_driver", 2},
    Rule{"gpu/nccl", 2},
    Rule{"gpu/devices/", 1},
    Rule{"libraries/libdnnl", 3},
    Rule{"libraries/libcudnn", 3},
    Rule{"libraries/libcublas", 3},
    Rule{"libraries/libcudart", 3},
    Rule{"libraries/libm", 3},
    Rule{"libraries/libjpeg", 3},
    Rule{"libraries/libgomp", 2},
    Rule{"libraries/libnccl", 2},
    Rule{"libraries/libstdc++", 1},
    Rule{"libraries", 1},
    Rule{"os/glibc", 2},
    Rule{"os/machine", 3},
    Rule{"os/kernel", 1},
    Rule{"os/host", 0},
    Rule{"os/time_zone", 0},
    Rule{"os", 1},
    Rule{"memory", 1},
    Rule{"python/packages", 2},
    Rule{"python", 2},
    Rule{"variables/SLURM", 0},
    Rule{"variables/LANG", 0},
    Rule{"variables/TZ", 0},
    Rule{"variables/LC_", 1},
    Rule{"variables/LD_LIBRARY_PATH", 1},
    Rule{"variables/MALLOC", 1},
    Rule{"variables", 3},
};

int DeviceWeight(const std::string& path) {
  for (const char* key : {"/name", "/compute_capability"}) {
    if (path.size() > std::string_view(key).size() && path.ends_with(key)) return 3;
  }
  return path.ends_with("/uuid") ? 1 : -1;
}

void Flatten(const json& value, const std::string& path, std::map<std::string, std::string>& out) {
  // Lists of plain values (CPU flags, packages) are compared as a whole.
  bool nested =
      value.is_object() || (value.is_array() && !value.empty() && value[0].is_structured());
  if (!nested) {
    out[path] = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return;
  }
  for (const auto& [key, child] : value.items())
    Flatten(child, path.empty() ? key : path + "/" + key, out);
}

std::map<std::string, std::string> Flat(const std::string& text) {
  std::map<std::string, std::string> out;
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_object()) Flatten(parsed, "", out);
  return out;
}

// Two long lists: only what one has and the other hasn't.
void Narrow(EnvironmentDifference& d) {
  json a = json::parse(d.before, nullptr, false), b = json::parse(d.after, nullptr, false);
  if (!a.is_array() || !b.is_array()) return;
  json only_a = json::array(), only_b = json::array();
  for (const json& x : a) {
    if (std::find(b.begin(), b.end(), x) == b.end()) only_a.push_back(x);
  }
  for (const json& x : b) {
    if (std::find(a.begin(), a.end(), x) == a.end()) only_b.push_back(x);
  }
  d.before = only_a.dump();
  d.after = only_b.dump();
}

}  // namespace

int EnvironmentWeight(const std::string& path) {
  if (path.rfind("gpu/devices/", 0) == 0) {
    int weight = DeviceWeight(path);
    if (weight >= 0) return weight;
  }
  for (const Rule& rule : kRules) {
    if (path.rfind(rule.prefix, 0) == 0) return rule.weight;
  }
  return 1;
}

std::vector<EnvironmentDifference> CompareEnvironments(const std::string& before,
                                                       const std::string& after) {
  std::map<std::string, std::string> a = Flat(before), b = Flat(after);
  std::vector<EnvironmentDifference> out;
  for (const auto& [path, value] : a) {
    auto found = b.find(path);
    if (found == b.end())
      out.push_back({path, value, "", EnvironmentWeight(path)});
    else if (found->second != value)
      out.push_back({path, value, found->second, EnvironmentWeight(path)});
  }
  for (const auto& [path, value] : b) {
    if (!a.count(path)) out.push_back({path, "", value, EnvironmentWeight(path)});
  }
  for (EnvironmentDifference& d : out) Narrow(d);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& x, const auto& y) { return x.weight > y.weight; });
  return out;
}

}  // namespace xp::record
