#include "exp/bench/row.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace xp::bench {
namespace {

using nlohmann::json;

// Each field of a row once, for writing and reading: its key, its place, and whether it is written
// even where it says nothing (0, false, empty).
template <class SomeRow, class Field>
void ForEachField(SomeRow& r, Field field) {
  auto& c = r.c;
  field("program", c.program, true);
  field("kind", c.kind, true);
  field("model", c.model, true);
  field("batch", c.batch, true);
  field("precision", c.precision, true);
  field("device_asked", c.device, true);
  field("graph", c.captured, true);
  field("fusion", c.fusion, true);
  field("deterministic", c.deterministic, true);
  field("largest", c.largest, false);
  field("tell_device", c.tell_device, false);
  field("workers", c.workers, false);
  field("height", c.height, false);
  field("width", c.width, false);
  field("torch_mode", c.torch_mode, false);
  field("reason", r.reason, false);
  field("device", r.device, false);
  field("machine", r.machine, false);
  field("measured_ns", r.measured_ns, false);
  field("images_per_second", r.images_per_second, false);
  field("milliseconds", r.milliseconds, false);
  field("fastest_milliseconds", r.fastest, false);
  field("slowest_milliseconds", r.slowest, false);
  field("spread", r.spread, r.status == Status::kOk);
  field("repeats", r.repeats, false);
  field("outliers", r.outliers, r.repeats > 0);
  field("steps_a_repeat", r.steps_a_repeat, false);
  field("bytes", r.bytes, false);
  field("setup_seconds", r.setup_seconds, false);
  field("loss", r.loss, true);
  field("first_epoch_seconds", r.first_epoch_seconds, false);
  field("epoch_seconds", r.epoch_seconds, false);
  field("watts", r.watts, false);
  field("celsius", r.celsius, false);
  field("sm_mhz", r.sm_mhz, false);
  field("throttled", r.throttled, false);
  field("flop", r.flop, false);
  field("moved_bytes", r.moved_bytes, false);
  field("matrix_share", r.matrix_share, false);
  field("copy_share", r.copy_share, false);
}

Status StatusOf(const std::string& text) {
  for (Status s : {Status::kOk, Status::kMemoryLimit, Status::kTimeLimit}) {
    if (text == StatusText(s)) return s;
  }
  return Status::kFailed;
}

// A number that JSON can hold; others are left out.
void Put(json& j, const char* key, double value) {
  if (std::isfinite(value) && value != 0) j[key] = value;
}

}  // namespace

const char* StatusText(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kMemoryLimit:
      return "mem lim";
    case Status::kTimeLimit:
      return "time lim";
    case Status::kFailed:
      return "fail";
  }
  return "fail";
}

std::string Mode(const Case& c) {
  std::string mode;
  if (c.kind == "loader") {
    mode = fmt::format("{} workers", c.workers);
  } else if (c.program == "torch") {
    mode = c.torch_mode + (c.deterministic ? " deterministic" : "");
  } else {
    mode = fmt::format("{} {} {}", c.captured ? "graph" : "launches", c.fusion ? "fused" : "plain",
                       c.deterministic ? "deterministic" : "free");
  }
  if (c.kind == "end_to_end") mode += fmt::format(", {} workers", c.workers);
  if (c.tell_device && c.kind != "loader") mode += " " + c.device;
  if (c.height > 0 || c.width > 0) mode += fmt::format(" {}x{}", c.width, c.height);
  return mode;
}

std::string Key(const Case& c) {
  // A loader knows neither: what stands there is of the call's first case.
  const bool loader = c.kind == "loader";
  return fmt::format("{}|{}|{}|{}|{}|{}", c.program, c.kind, loader ? "" : c.model,
                     c.largest ? "largest" : std::to_string(c.batch), loader ? "" : c.precision,
                     Mode(c));
}

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string RowJson(const Row& r) {
  json j = {{"status", StatusText(r.status)}};
  ForEachField(r, [&](const char* key, const auto& value, bool always) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
      if (!std::isfinite(value)) return;
    }
    if (always || value != std::decay_t<decltype(value)>()) j[key] = value;
  });
  if (r.watts > 0) Put(j, "images_per_second_per_watt", r.images_per_second / r.watts);
  if (r.milliseconds > 0) {
    Put(j, "tflop_per_second", r.flop / r.milliseconds * 1e-9);
    Put(j, "tb_per_second", r.moved_bytes / r.milliseconds * 1e-9);
  }
  for (const OperationTime& t : r.profile) {
    j["profile"].push_back({{"name", t.name}, {"type", t.type}, {"milliseconds", t.milliseconds}});
  }
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Row RowFromJson(const std::string& text) {
  Row r;
  json j = json::parse(text, nullptr, false);
  try {
    if (!j.is_object()) throw std::runtime_error("it is no object");
    ForEachField(r, [&](const char* key, auto& value, bool) { value = j.value(key, value); });
    r.status = StatusOf(j.value("status", ""));
    if (j.contains("profile") && j["profile"].is_array()) {
      for (const json& t : j["profile"]) {
        r.profile.push_back(
            {t.value("name", ""), t.value("type", ""), t.value("milliseconds", 0.0)});
      }
    }
  } catch (const std::exception& e) {
    r.status = Status::kFailed;
    r.reason = std::string("a row that can't be read: ") + e.what();
  }
  return r;
}

}  // namespace xp::bench
