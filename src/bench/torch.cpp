// PyTorch on the same cases, by bench/peers/torch_bench.py, which is part of this program.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "exp/base/child_process.h"
#include "exp/base/json_text.h"
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
  row.measured_ns = NowNs();
  return row;
}

// What a peer may claim: another program than ours may stand where Python is looked for.
bool Believable(const Row& r) {
  for (double v : {r.images_per_second, r.milliseconds, r.fastest, r.slowest, r.spread,
                   r.setup_seconds, r.watts, r.celsius, r.sm_mhz}) {
    if (!std::isfinite(v) || v < 0) return false;
  }
  if (r.repeats < 0 || r.outliers < 0 || r.steps_a_repeat < 0) return false;
  return r.status == Status::kOk ? r.images_per_second > 0 && r.milliseconds > 0
                                 : !r.reason.empty();
}

Row PeerRow(const Case& c, const std::string& line) {
  Row row = RowFromJson(line);
  if (!Believable(row)) {
    constexpr size_t kShown = 200;
    return Failed(c, "the peer's result can't be understood: " + line.substr(0, kShown));
  }
  row.c = c;
  row.machine.clear();
  row.measured_ns = NowNs();
  return row;
}

// The cases from `at` on that one call's argument holds: Linux takes 128 KiB of it.
json AsManyAsFit(const std::vector<Case>& cases, size_t at) {
  constexpr size_t kMost = size_t{96} << 10;
  json list = json::array();
  size_t bytes = 2;
  for (; at < cases.size(); ++at) {
    json c = ToJson(cases[at]);
    bytes += c.dump().size() + 1;
    if (bytes > kMost && !list.empty()) break;
    list.push_back(std::move(c));
  }
  return list;
}

// One line of the peer, or why there is none.
struct Answer {
  std::string line, none;
};

std::string WhyNoMore(ChildProcess& child) {
  const int code = child.Wait(2);
  return code == ChildProcess::kEnded ? "the peer printed no further result and didn't end"
         : code < 0                   ? "the peer was killed, by the kernel where memory was short"
                                      : fmt::format("the peer ended with exit code {}{}", code,
                                  code == 0 ? ": is it a Python?" : "");
}

// The next result. What libraries print between results is passed over, up to what no library
// prints.
Answer NextAnswer(ChildProcess& child, StopFlag stop) {
  constexpr double kLook = 0.5;  // seconds between looks at `stop`
  constexpr size_t kMostOther = size_t{4} << 20;
  Stopwatch watch;
  size_t other = 0;
  while (watch.Seconds() < kPatience && other < kMostOther) {
    ThrowIfStopped(stop);
    auto line = child.Line(kLook);
    if (line && line->starts_with('{')) return {*line, ""};
    if (line) other += line->size() + 1;
    if (line || !child.at_end()) continue;
    ThrowIfStopped(stop);
    return {"", WhyNoMore(child)};
  }
  return {"", other < kMostOther ? fmt::format("no result within {:.0f} minutes", kPatience / 60)
                                 : "the peer prints no results but something else"};
}

// Runs one process on cases from `at` on, until it has answered its cases or ends; gives the next
// case that isn't answered. What shows that no case can be measured is put into `hopeless`.
size_t RunPeer(const std::string& python, const std::vector<Case>& cases, size_t at,
               const std::function<void(const Row&)>& on_row, StopFlag stop,
               std::string* hopeless) {
  const json list = AsManyAsFit(cases, at);
  ChildProcess child({python, "-c", kTorchScript, list.dump()}, true);
  if (!child.started()) {
    *hopeless = "`" + python + "` can't be started: --python names the Python that has PyTorch";
    return at;
  }
  for (const size_t end = at + list.size(); at < end; ++at) {
    const Answer answer = NextAnswer(child, stop);
    if (answer.line.empty()) {
      on_row(Failed(cases[at], answer.none));
      return at + 1;
    }
    const json j = json::parse(answer.line, nullptr, false);
    if (j.is_object() && j.contains("missing")) {
      *hopeless = "PyTorch isn't there (" + TextAt(j, "/missing") +
                  "): --python names the Python that has it";
      return at;
    }
    on_row(PeerRow(cases[at], answer.line));
  }
  return at;
}

}  // namespace

void MeasureTorch(const std::string& python, const std::vector<Case>& cases,
                  const std::function<void(const Row&)>& on_row, StopFlag stop) {
  // cuBLAS repeats only with a workspace of its own (PyTorch's note on determinism).
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  std::string hopeless;  // why no case can be measured
  size_t at = 0;
  while (at < cases.size() && hopeless.empty()) {
    at = RunPeer(python, cases, at, on_row, stop, &hopeless);
  }
  for (; at < cases.size(); ++at) on_row(Failed(cases[at], hopeless));
}

}  // namespace xp::bench
