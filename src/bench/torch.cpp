// PyTorch on the same cases, by bench/peers/torch_bench.py, which is part of this program.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "exp/base/child_process.h"
#include "exp/bench/throughput.h"
#include "exp/models/zoo.h"
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

Row FromLine(const Case& c, const std::string& line) {
  json j = json::parse(line, nullptr, false);
  if (!j.is_object()) return Failed(c, "the peer ended without a result");
  if (j.contains("missing")) {
    return Failed(c, "PyTorch isn't there (" + j.value("missing", "") + ")");
  }
  Row row = RowFromJson(line);
  row.c = c;
  return row;
}

}  // namespace

void MeasureTorch(const std::string& python, const std::vector<Case>& cases,
                  const std::function<void(const Row&)>& on_row) {
  json list = json::array();
  for (const Case& c : cases) list.push_back(ToJson(c));
  // cuBLAS repeats only with a workspace of its own (PyTorch's note on determinism).
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  ChildProcess child({python, "-c", kTorchScript, list.dump()}, true);
  bool missing = false;
  std::string last;
  for (const Case& c : cases) {
    std::string line = missing ? last : child.started() ? child.Line(kPatience) : "";
    if (!child.started()) {
      on_row(Failed(c, "`" + python + "` can't be started"));
      continue;
    }
    missing = missing || line.find("\"missing\"") != std::string::npos;
    last = line;
    on_row(FromLine(c, line));
  }
}

}  // namespace xp::bench
