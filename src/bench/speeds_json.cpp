#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "exp/bench/speeds.h"

namespace xp::bench {
namespace {

using nlohmann::json;

constexpr const char *kCopy = "copy_bytes_per_second", *kMatrix = "matrix_flop_per_second";

double NumberAt(const json& object, const char* key) {
  return object.contains(key) && object[key].is_number() ? object[key].get<double>() : 0;
}

}  // namespace

std::string SpeedsJson(const SpeedsByDevice& speeds) {
  json out = json::object();
  for (const auto& [key, s] : speeds) {
    out[key] = {{kCopy, s.copy_bytes_a_second}, {kMatrix, s.matrix_flop_a_second}};
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

SpeedsByDevice SpeedsFromJson(const std::string& text) {
  const json all = json::parse(text, nullptr, false);
  SpeedsByDevice speeds;
  if (!all.is_object()) return speeds;
  for (const auto& [key, s] : all.items()) {
    if (s.is_object()) speeds[key] = {NumberAt(s, kCopy), NumberAt(s, kMatrix)};
  }
  return speeds;
}

std::string SpeedsText(const DeviceSpeeds& speeds) {
  return fmt::format("copies {:.3f} TB/s, multiplies {:.2f} TFLOP/s",
                     speeds.copy_bytes_a_second * 1e-12, speeds.matrix_flop_a_second * 1e-12);
}

}  // namespace xp::bench
