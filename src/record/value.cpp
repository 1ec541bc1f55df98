#include "exp/record/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "exp/base/utf8.h"

namespace xp::record {
namespace {

// What tells a value from another that reads the same.
std::string Kind(const Value& value, const Value& other) {
  if (const double* x = std::get_if<double>(&value))
    return std::isnan(*x) ? fmt::format(" ({:#x})", std::bit_cast<uint64_t>(*x)) : " (a float)";
  if (std::holds_alternative<int64_t>(value)) return " (an integer)";
  const JsonText* text = std::get_if<JsonText>(&other);
  if (!text) return " (a text)";
  const std::string& own = std::get<JsonText>(value).text;
  const auto at = std::mismatch(own.begin(), own.end(), text->text.begin(), text->text.end()).first;
  return fmt::format(" (differs from byte {})", at - own.begin() + 1);
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
  const std::string& text = std::get<JsonText>(value).text;  // perhaps an integer above 2^63-1
  const bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::strtod(text.c_str(), nullptr) : std::nan("");
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
  return fmt::format("{}... ({} bytes)", Utf8Head(text, limit), text.size());
}

std::string ShowExact(const Value& value, size_t limit) {
  const double* x = std::get_if<double>(&value);
  return x && std::isfinite(*x) ? fmt::format("{}", *x) : Show(value, limit);
}

std::vector<std::string> ShowApart(const std::vector<const Value*>& values,
                                   const std::string& absent) {
  constexpr size_t kLimit = 40;
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const Value* v : values) texts.push_back(v ? ShowExact(*v, kLimit) : absent);
  std::vector<std::string> out = texts;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t k = 0; values[i] && k < values.size(); ++k) {
      const bool alike = values[k] && texts[i] == texts[k] && !SameBits(*values[i], *values[k]);
      if (!alike) continue;
      out[i] += Kind(*values[i], *values[k]);
      break;
    }
  }
  return out;
}

}  // namespace xp::record
