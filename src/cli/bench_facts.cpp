#include "src/cli/bench_facts.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "exp/base/json_text.h"
#include "exp/base/printable.h"
#include "exp/bench/speeds.h"
#include "exp/record/reader.h"

namespace xp::cli {
namespace {

using nlohmann::json;

void Add(const std::string& name, const std::string& text, bench::Facts* facts) {
  if (text.find_first_not_of(", ") != std::string::npos) facts->emplace_back(name, Printable(text));
}

// "2 x NVIDIA H200, NVIDIA A40"
std::string GpuNames(const json& environment) {
  const json::json_pointer devices("/gpu/devices");
  if (!environment.is_object() || !environment.contains(devices)) return "";
  std::map<std::string, int> counts;
  for (const json& gpu : environment.at(devices)) ++counts[TextAt(gpu, "/name")];
  std::string names;
  for (const auto& [name, count] : counts) {
    names += fmt::format("{}{}{}", names.empty() ? "" : ", ",
                         count > 1 ? std::to_string(count) + " x " : "", name);
  }
  return names;
}

}  // namespace

bench::Facts StateFacts(const std::string& environment_json) {
  const json e = json::parse(environment_json, nullptr, false);
  bench::Facts facts;
  Add("GPUs", GpuNames(e), &facts);
  Add("driver", TextAt(e, "/gpu/driver"), &facts);
  Add("CUDA of the driver", TextAt(e, "/gpu/cuda_driver"), &facts);
  Add("CUDA runtime of exp", TextAt(e, "/cuda_build/runtime"), &facts);
  Add("cuDNN", TextAt(e, "/gpu/cudnn"), &facts);
  Add("CPU", TextAt(e, "/cpu/model") + ", " + TextAt(e, "/cpu/logical") + " threads", &facts);
  Add("system", TextAt(e, "/os/name") + ", " + TextAt(e, "/os/kernel"), &facts);
  Add("container", TextAt(e, "/os/container"), &facts);
  Add("oneDNN", TextAt(e, "/libraries/libdnnl/version"), &facts);
  Add("exp", TextAt(e, "/program/version") + ", " + TextAt(e, "/program/compiler"), &facts);
  Add("exp's build", TextAt(e, "/program/build_id").substr(0, 12), &facts);
  return facts;
}

bench::Facts FactsOf(const record::BenchRecord& r) {
  bench::Facts facts;
  Add("call", r.name + (r.label.empty() ? "" : " (" + r.label + ")"), &facts);
  Add("measured", r.created_ns > 0 ? record::ShowTime(r.created_ns) : "", &facts);
  Add("device", r.device, &facts);
  for (auto& fact : StateFacts(r.environment_json)) facts.push_back(std::move(fact));
  for (const auto& [key, speeds] : bench::SpeedsFromJson(r.speeds_json)) {
    Add("best of " + key, bench::SpeedsText(speeds), &facts);
  }
  return facts;
}

}  // namespace xp::cli
