// PyTorch on the same cases, by bench/peers/torch_bench.py, which is part of this program.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "exp/base/child_process.h"
#include "exp/base/stopwatch.h"
#include "exp/bench/throughput.h"
#include "exp/models/zoo.h"
#include "src/bench/guarded.h"
#include "src/bench/torch_script.h"

namespace xp::bench {
namespace {

using nlohmann::json;

constexpr double kPatience = 1800;  // seconds a case: torch.compile takes minutes

json ToJson(const Case& c) {
  const models::ZooEntry& entry = models::FindInZoo(c.model);
  return {{"model", c.model},
          {"batch", c.batch},
          {"precision", c.precision},
          {"device", c.device},
          {"mode", c.torch_mode},
          {"deterministic", c.deterministic},
          {"seconds", c.seconds_a_repeat},
          {"repeats", c.repeats},
          {"warmup", c.warmup},
          {"settle", c.settle_seconds},
          {"bound", c.seconds_a_case},
          {"height", c.height > 0 ? c.height : entry.height},
          {"width", c.width > 0 ? c.width : entry.width},
          {"max_boxes", entry.max_boxes},
          {"threads", c.threads}};
}

Row Failed(const Case& c, const std::string& reason) {
  Row row;
  row.c = c;
  row.status = Status::kFailed;
  row.reason = reason;
  return row;
}

// Why a process gave no further line.
std::string WhyEnded(ChildProcess& child, double waited) {
  if (waited >= kPatience) return fmt::format("no result within {:.0f} minutes", kPatience / 60);
  int code = child.Wait();
  return code < 0 ? "the peer was killed, by the kernel where memory was short"
                  : fmt::format("the peer ended with exit code {}", code);
}

// The next result; what libraries print between results is passed over. Empty when there is none.
std::string ResultLine(ChildProcess& child, double patience) {
  Stopwatch watch;
  while (auto line = child.Line(patience - watch.Seconds())) {
    if (line->starts_with('{')) return *line;
  }
  return "";
}

}  // namespace

void MeasureTorch(const std::string& python, const std::vector<Case>& cases,
                  const std::function<void(const Row&)>& on_row, StopFlag stop) {
  // cuBLAS repeats only with a workspace of its own (PyTorch's note on determinism).
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  std::string hopeless;  // why no case can be measured
  for (size_t at = 0; at < cases.size();) {
    json list = json::array();
    for (size_t i = at; i < cases.size(); ++i) list.push_back(ToJson(cases[i]));
    ChildProcess child({python, "-c", kTorchScript, list.dump()}, true);
    if (!child.started()) hopeless = "`" + python + "` can't be started";
    for (bool runs = true; runs && at < cases.size(); ++at) {
      const Case& c = cases[at];
      Stopwatch watch;
      std::string line = hopeless.empty() ? ResultLine(child, kPatience) : "";
      ThrowIfStopped(stop);
      json j = json::parse(line, nullptr, false);
      if (j.is_object() && j.contains("missing")) {
        hopeless = "PyTorch isn't there (" + j.value("missing", "") + ")";
      }
      if (!hopeless.empty()) {
        on_row(Failed(c, hopeless));
      } else if (line.empty()) {
        on_row(Failed(c, WhyEnded(child, watch.Seconds())));
        runs = false;
      } else {
        Row row = RowFromJson(line);
        row.c = c;
        on_row(row);
      }
    }
  }
}

}  // namespace xp::bench
