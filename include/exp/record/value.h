// One recorded number or text. What goes in comes out bit for bit, NaN payloads and -0.0 included.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace xp::record {

// JSON text of anything that is neither a double nor a 64-bit signed integer: a string in quotes, a
// list, an unsigned integer above 2^63-1.
struct JsonText {
  std::string text;
  bool operator==(const JsonText&) const = default;
};

using Value = std::variant<double, int64_t, JsonText>;

// Equal to the last bit: NaN equals a NaN of the same payload, 0.0 doesn't equal -0.0.
bool SameBits(const Value& a, const Value& b);

// The value as a double where it is a number, NaN otherwise.
double AsDouble(const Value& value);

// Valid JSON: NaN and infinities, which JSON lacks, become the strings "NaN", "Infinity",
// "-Infinity".
nlohmann::json ToJson(const Value& value);
nlohmann::json ToJson(double value);

// What ToJson wrote, or any JSON value.
Value FromJson(const nlohmann::json& json);

// For tables: 6 significant digits; a text is cut after `limit` bytes with its full size behind it.
std::string Show(const Value& value, size_t limit = 60);

// The same with all digits: a double reads back as the same one.
std::string ShowExact(const Value& value, size_t limit = 60);
// Values of which at least two differ, so that people can tell them apart: exact, and with the kind
// (1 and 1.0), the payload (of NaNs) or the first byte that differs (of long texts) behind those
// that read the same. nullptr: `absent`.
std::vector<std::string> ShowApart(const std::vector<const Value*>& values,
                                   const std::string& absent);

// How deeply lists and objects are nested in a JSON text. Readers recurse: more than kDeepestJson
// is refused.
size_t JsonDepth(std::string_view text);
inline constexpr size_t kDeepestJson = 500;

}  // namespace xp::record
