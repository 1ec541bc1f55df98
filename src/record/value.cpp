#include "exp/record/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

namespace xp::record {
namespace {

// Bytes of the UTF-8 sequence that starts at `i`, 0 where it is invalid (RFC 3629, section 4).
size_t SequenceLength(const std::string& s, size_t i) {
  auto byte = [&](size_t k) -> unsigned {
    return k < s.size() ? static_cast<unsigned char>(s[k]) : 0u;
  };
  auto tail = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  unsigned a = byte(i), b = byte(i + 1);
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return tail(i + 1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    bool ok = tail(i + 1) && tail(i + 2) && !(a == 0xE0 && b < 0xA0) && !(a == 0xED && b > 0x9F);
    return ok ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    bool ok = tail(i + 1) && tail(i + 2) && tail(i + 3) && !(a == 0xF0 && b < 0x90) &&
              !(a == 0xF4 && b > 0x8F);
    return ok ? 4 : 0;
  }
  return 0;
}

}  // namespace

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

std::string ValidUtf8(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    size_t n = SequenceLength(text, i);
    if (n == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
    } else {
      out.append(text, i, n);
      i += n;
    }
  }
  return out;
}

bool IsValidUtf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    size_t n = SequenceLength(text, i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

}  // namespace xp::record
