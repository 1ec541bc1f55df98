#include "exp/bench/row.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace xp::bench {
namespace {

using nlohmann::json;

// A number that JSON can hold; others are left out.
void Put(json& j, const char* key, double value) {
  if (std::isfinite(value) && value != 0) j[key] = value;
}

}  // namespace

const char* StatusText(Status status) {
  return status == Status::kOk ? "ok" : status == Status::kMemoryLimit ? "mem lim" : "fail";
}

std::string Mode(const Case& c) {
  if (c.kind == "loader") return fmt::format("{} workers", c.workers);
  std::string mode;
  if (c.program == "torch") {
    mode = c.torch_mode + (c.deterministic ? " deterministic" : "");
  } else {
    mode = fmt::format("{} {} {}", c.captured ? "graph" : "launches", c.fusion ? "fused" : "plain",
                       c.deterministic ? "deterministic" : "free");
  }
  if (c.kind == "end_to_end") mode += fmt::format(", {} workers", c.workers);
  if (c.height > 0 || c.width > 0) mode += fmt::format(" {}x{}", c.width, c.height);
  return mode;
}

std::string Key(const Case& c) {
  return fmt::format("{}|{}|{}|{}|{}|{}", c.program, c.kind, c.model,
                     c.largest ? "largest" : std::to_string(c.batch), c.precision, Mode(c));
}

std::string RowJson(const Row& r) {
  const Case& c = r.c;
  json j = {{"program", c.program},
            {"kind", c.kind},
            {"model", c.model},
            {"batch", c.batch},
            {"precision", c.precision},
            {"device_asked", c.device},
            {"graph", c.captured},
            {"fusion", c.fusion},
            {"deterministic", c.deterministic},
            {"status", StatusText(r.status)}};
  if (c.largest) j["largest"] = true;
  if (c.workers > 0) j["workers"] = c.workers;
  if (c.height > 0) j["height"] = c.height;
  if (c.width > 0) j["width"] = c.width;
  if (!c.torch_mode.empty()) j["torch_mode"] = c.torch_mode;
  if (!r.reason.empty()) j["reason"] = r.reason;
  if (!r.device.empty()) j["device"] = r.device;
  Put(j, "images_per_second", r.images_per_second);
  Put(j, "milliseconds", r.milliseconds);
  Put(j, "fastest_milliseconds", r.fastest);
  Put(j, "slowest_milliseconds", r.slowest);
  if (r.status == Status::kOk) j["spread"] = r.spread;
  if (r.repeats > 0) j["repeats"] = r.repeats, j["outliers"] = r.outliers;
  if (r.steps_a_repeat > 0) j["steps_a_repeat"] = r.steps_a_repeat;
  if (r.bytes > 0) j["bytes"] = r.bytes;
  Put(j, "setup_seconds", r.setup_seconds);
  Put(j, "loss", r.loss);
  Put(j, "first_epoch_seconds", r.first_epoch_seconds);
  Put(j, "epoch_seconds", r.epoch_seconds);
  Put(j, "watts", r.watts);
  Put(j, "celsius", r.celsius);
  Put(j, "sm_mhz", r.sm_mhz);
  if (r.watts > 0) Put(j, "images_per_second_per_watt", r.images_per_second / r.watts);
  if (!r.throttled.empty()) j["throttled"] = r.throttled;
  Put(j, "flop", r.flop);
  Put(j, "moved_bytes", r.moved_bytes);
  if (r.milliseconds > 0) {
    Put(j, "tflop_per_second", r.flop / r.milliseconds * 1e-9);
    Put(j, "tb_per_second", r.moved_bytes / r.milliseconds * 1e-9);
  }
  Put(j, "matrix_share", r.matrix_share);
  Put(j, "copy_share", r.copy_share);
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
    Case& c = r.c;
    c.program = j.value("program", c.program);
    c.kind = j.value("kind", c.kind);
    c.model = j.value("model", c.model);
    c.batch = j.value("batch", c.batch);
    c.precision = j.value("precision", c.precision);
    c.device = j.value("device_asked", c.device);
    c.captured = j.value("graph", c.captured);
    c.fusion = j.value("fusion", c.fusion);
    c.deterministic = j.value("deterministic", c.deterministic);
    c.largest = j.value("largest", false);
    c.workers = j.value("workers", 0);
    c.height = j.value("height", 0);
    c.width = j.value("width", 0);
    c.torch_mode = j.value("torch_mode", "");
    std::string status = j.value("status", "fail");
    r.status = status == "ok"        ? Status::kOk
               : status == "mem lim" ? Status::kMemoryLimit
                                     : Status::kFailed;
    r.reason = j.value("reason", "");
    r.device = j.value("device", "");
    r.images_per_second = j.value("images_per_second", 0.0);
    r.milliseconds = j.value("milliseconds", 0.0);
    r.fastest = j.value("fastest_milliseconds", 0.0);
    r.slowest = j.value("slowest_milliseconds", 0.0);
    r.spread = j.value("spread", 0.0);
    r.repeats = j.value("repeats", 0);
    r.outliers = j.value("outliers", 0);
    r.steps_a_repeat = j.value("steps_a_repeat", 0);
    r.bytes = j.value("bytes", uint64_t{0});
    r.setup_seconds = j.value("setup_seconds", 0.0);
    r.loss = j.value("loss", 0.0);
    r.first_epoch_seconds = j.value("first_epoch_seconds", 0.0);
    r.epoch_seconds = j.value("epoch_seconds", 0.0);
    r.watts = j.value("watts", 0.0);
    r.celsius = j.value("celsius", 0.0);
    r.sm_mhz = j.value("sm_mhz", 0.0);
    r.throttled = j.value("throttled", std::vector<std::string>());
    r.flop = j.value("flop", 0.0);
    r.moved_bytes = j.value("moved_bytes", 0.0);
    r.matrix_share = j.value("matrix_share", 0.0);
    r.copy_share = j.value("copy_share", 0.0);
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
