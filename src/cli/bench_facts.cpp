#include "src/cli/bench_facts.h"

#include <fmt/format.h>

#include <algorithm>
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

// "2026-12-02 23:08:56 to 2026-12-03 01:00:12": from the call's begin to its last row, which may be
// of a day on which it was continued.
std::string WhenMeasured(const record::BenchRecord& r, const std::vector<bench::Row>& rows) {
  int64_t first = r.created_ns, last = r.created_ns;
  for (const bench::Row& row : rows) {
    if (row.measured_ns == 0) continue;
    first = first == 0 ? row.measured_ns : std::min(first, row.measured_ns);
    last = std::max(last, row.measured_ns);
  }
  if (first == 0) return "";
  const std::string begin = record::ShowTime(first), end = record::ShowTime(last);
  return begin == end ? begin : begin + " to " + end;
}

// Identities: that of the call, and of others that it was continued on.
std::string Machines(const record::BenchRecord& r, const std::vector<bench::Row>& rows) {
  std::map<std::string, size_t> others;
  for (const bench::Row& row : rows) {
    if (!row.machine.empty() && row.machine != r.machine) ++others[row.machine];
  }
  std::string text = r.machine;
  for (const auto& [machine, count] : others) {
    text += fmt::format(", {} for {} of {} rows", machine, count, rows.size());
  }
  return text;
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

bench::Call CallOf(const record::BenchRecord& r, std::vector<bench::Row> rows) {
  bench::Call call{
      Printable(r.name), Printable(r.label), r.machine, StateFacts(r.environment_json), {},
      std::move(rows)};
  bench::Facts& facts = call.facts;
  Add("call", r.name + (r.label.empty() ? "" : " (" + r.label + ")"), &facts);
  Add("measured", WhenMeasured(r, call.rows), &facts);
  Add("device", r.device, &facts);
  Add("machine", Machines(r, call.rows), &facts);
  facts.insert(facts.end(), call.state.begin(), call.state.end());
  for (const auto& [key, speeds] : bench::SpeedsFromJson(r.speeds_json)) {
    Add("best of " + key, bench::SpeedsText(speeds), &facts);
  }
  return call;
}

}  // namespace xp::cli
