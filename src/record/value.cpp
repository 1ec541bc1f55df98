#include "exp/record/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "exp/base/utf8.h"

namespace xp::record {
bool SameBits(const Value& a, const Value& b) {
  if (a.index() != b.index()) return false;
  if (const double* x = std::get_if<double>(&a)) {
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(std::get<double>(b));
  }
  return a == b;
}

double AsDouble(const Value& value) {
  if (const double* x = std::get_if<double>(&value)) return *x;
  if (const int64_t* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  return std::nan("");
}

nlohmann::json ToJson(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

nlohmann::json ToJson(const Value& value) {
  if (const double* x = std::get_if<double>(&value)) return ToJson(*x);
  if (const int64_t* i = std::get_if<int64_t>(&value)) return *i;
  const std::string& text = std::get<JsonText>(value).text;
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() ? nlohmann::json(ValidUtf8(text)) : parsed;
}

Value FromJson(const nlohmann::json& json) {
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX}) {
    return JsonText{json.dump()};
  }
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_string()) {
    const std::string& text = json.get_ref<const std::string&>();
    if (text == "NaN") return std::nan("");
    if (text == "Infinity") return HUGE_VAL;
    if (text == "-Infinity") return -HUGE_VAL;
  }
  return JsonText{json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

size_t JsonDepth(std::string_view text) {
  size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::string Show(const Value& value, size_t limit) {
  if (const double* x = std::get_if<double>(&value)) {
    if (std::isnan(*x)) return "NaN";
    if (std::isinf(*x)) return *x > 0 ? "+Inf" : "-Inf";
    return fmt::format("{:.6g}", *x);
  }
  if (const int64_t* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  std::string text = std::get<JsonText>(value).text;
  if (text.size() <= limit) return text;
  size_t cut = limit;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return fmt::format("{}... ({} bytes)", text.substr(0, cut), text.size());
}

}  // namespace xp::record
