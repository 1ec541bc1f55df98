#include "src/config/scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "exp/base/error.h"

namespace xp::config {
namespace {

bool AnyOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool AllDigits(std::string_view text, std::string_view digits) {
  return !text.empty() && text.find_first_not_of(digits) == std::string_view::npos;
}

constexpr std::string_view kDecimal = "0123456789";

Node ParseInt(std::string_view digits, int base, bool negative, std::string_view text) {
  uint64_t magnitude = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  if (error == std::errc() && magnitude > limit && !negative) {
    Node big(std::to_string(magnitude));
    big.set_tag(kBigInt);
    return big;
  }
  if (error != std::errc() || magnitude > limit) {
    throw UsageError({.what = "the int " + std::string(text.substr(0, 40)) +
                              (text.size() > 40 ? "..." : "") + " doesn't fit into 64 bits",
                      .expected = "an int from -2^63 to 2^64-1",
                      .next = "write it with a decimal point, or in quotes to keep it as text"});
  }
  return Node(static_cast<int64_t>(negative ? 0 - magnitude : magnitude));
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? with a point or an exponent
bool LooksLikeFloat(std::string_view body) {
  size_t mantissa_end = body.find_first_of("eE");
  std::string_view mantissa = body.substr(0, mantissa_end);
  size_t point = mantissa.find('.');
  if (mantissa_end != std::string_view::npos) {
    std::string_view exponent = body.substr(mantissa_end + 1);
    if (!exponent.empty() && (exponent[0] == '-' || exponent[0] == '+')) exponent.remove_prefix(1);
    if (!AllDigits(exponent, kDecimal)) return false;
  } else if (point == std::string_view::npos) {
    return false;
  }
  std::string_view whole = mantissa.substr(0, point);
  std::string_view fraction =
      point == std::string_view::npos ? std::string_view() : mantissa.substr(point + 1);
  if (whole.empty() && fraction.empty()) return false;
  return (whole.empty() || AllDigits(whole, kDecimal)) &&
         (fraction.empty() || AllDigits(fraction, kDecimal));
}

double ParseFloat(std::string_view body) {
  double value = 0;
  auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), value);
  if (error == std::errc::result_out_of_range) {
    // strtod tells what from_chars doesn't: too large is infinite, too small is zero.
    return std::strtod(std::string(body).c_str(), nullptr);
  }
  return value;
}

}  // namespace

Node ResolveScalar(std::string_view text, ScalarStyle style, std::string* warning) {
  const bool in_override = style == ScalarStyle::kOverride;
  if (AnyOf(text, {"", "~", "null", "Null", "NULL"}) || (in_override && text == "None")) {
    return Node();
  }
  if (AnyOf(text, {"true", "True", "TRUE"})) return Node(true);
  if (AnyOf(text, {"false", "False", "FALSE"})) return Node(false);
  const bool negative = text[0] == '-';
  std::string_view body = text;
  if (text[0] == '-' || text[0] == '+') body.remove_prefix(1);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (AnyOf(body, {".inf", ".Inf", ".INF"}) || (in_override && AnyOf(body, {"inf", "infinity"}))) {
    return Node(negative ? -kInf : kInf);
  }
  if (AnyOf(text, {".nan", ".NaN", ".NAN"}) || (in_override && AnyOf(text, {"nan", "NaN"}))) {
    return Node(std::numeric_limits<double>::quiet_NaN());
  }
  if (AllDigits(body, kDecimal)) {
    if (body.size() > 1 && body[0] == '0' && warning != nullptr &&
        body.find_first_not_of('0') != std::string_view::npos) {
      *warning = std::string(text) + " is read as the decimal number; write 0o" +
                 std::string(body.substr(body.find_first_not_of('0'))) + " for octal";
    }
    return ParseInt(body, 10, negative, text);
  }
  if (body.size() > 2 && body[0] == '0' && (body[1] == 'x' || body[1] == 'o')) {
    std::string_view digits = body.substr(2);
    bool hex = body[1] == 'x';
    if (AllDigits(digits, hex ? "0123456789abcdefABCDEF" : "01234567")) {
      return ParseInt(digits, hex ? 16 : 8, negative, text);
    }
  }
  if (LooksLikeFloat(body)) return Node(negative ? -ParseFloat(body) : ParseFloat(body));
  return Node(text);
}

bool NeedsQuotes(std::string_view text) {
  // What YAML reads as syntax. Checked more widely than the standard needs, so that flow lists are
  // safe too.
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return true;
  if (text.find_first_of("!&*|>'\"%@`?#,[]{}-:") == 0 &&
      !(text[0] == '-' && text.size() > 1 && std::isalpha(text[1]))) {
    return true;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c >= 0x7f || c == ',' || c == '[' || c == ']' || c == '{' || c == '}')
      return true;
    if (c == '#' || (c == ':' && (i + 1 == text.size() || text[i + 1] == ' '))) return true;
  }
  // What other loaders would read as something else counts too: yes, on, None, 1:30, 1_000, =, <<.
  if (AnyOf(text, {"yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF",
                   "y", "Y", "n", "N", "None", "=", "<<"})) {
    return true;
  }
  if (kDecimal.find(text[0]) != std::string_view::npos || text[0] == '+' || text[0] == '.' ||
      text[0] == '-') {
    return text.find_first_not_of("0123456789+-._:eExXoOaAbBcCdDfFiInN") == std::string_view::npos;
  }
  try {
    return !ResolveScalar(text, ScalarStyle::kOverride, nullptr).IsString();
  } catch (const Error&) {
    return true;
  }
}

}  // namespace xp::config
