#include "src/config/python/numbers.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace xp::config::python {
namespace {

__extension__ using Wide = __int128;
__extension__ using WideUnsigned = unsigned __int128;

Wide ToWide(const Value& value) {
  const Wide magnitude = Magnitude(value);
  return value.type != Type::kBig && value.AsInt() < 0 ? -magnitude : magnitude;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v\x1c\x1d\x1e\x1f";
  const size_t from = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(from);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes a run of digits off the front, with single underscores between them; false when it isn't
// one.
template <typename IsOne>
bool TakeDigits(std::string_view* text, std::string* digits, IsOne is_one) {
  size_t at = 0;
  for (; at < text->size(); ++at) {
    if (is_one((*text)[at])) {
      *digits += (*text)[at];
    } else if ((*text)[at] != '_' || at == 0 || (*text)[at - 1] == '_') {
      break;
    }
  }
  const bool good = at > 0 && (*text)[at - 1] != '_';
  text->remove_prefix(at);
  return good;
}

// 16 of 0x, 8 of 0o, 2 of 0b, else 0.
int PrefixBase(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1]) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
    case 'O':
      return 8;
    case 'b':
    case 'B':
      return 2;
    default:
      return 0;
  }
}

// Rounds a decimal integer's digits to a multiple of 10^places, half to even; `more`: a fraction
// follows.
void RoundDigits(std::string* digits, size_t places, bool more) {
  if (places > digits->size()) {
    *digits = "0";
    return;
  }
  digits->insert(0, 1, '0');  // room for a carry
  const size_t kept = digits->size() - places;
  const std::string cut = digits->substr(kept);
  const bool half = cut[0] == '5' && cut.find_first_not_of('0', 1) == std::string::npos && !more;
  const bool up = half ? ((*digits)[kept - 1] - '0') % 2 == 1 : cut[0] >= '5';
  std::fill(digits->begin() + static_cast<long>(kept), digits->end(), '0');
  for (size_t i = kept; up && i-- > 0;) {
    if ((*digits)[i] != '9') {
      ++(*digits)[i];
      break;
    }
    (*digits)[i] = '0';
  }
}

}  // namespace

std::optional<Value> ReadInt(const std::string& text, int base) {
  std::string_view rest = Trimmed(text);
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const int prefix = PrefixBase(rest);
  const bool zeros_only = base == 0 && prefix == 0 && rest.starts_with('0');
  if (prefix != 0 && (base == 0 || base == prefix)) {
    base = prefix;
    rest.remove_prefix(2);
    if (rest.starts_with('_')) rest.remove_prefix(1);
  }
  if (base == 0) base = 10;
  auto is_digit = [base](char c) {
    const int value = IsDigit(c) ? c - '0'
                      : std::isalpha(static_cast<unsigned char>(c)) != 0
                          ? std::tolower(c) - 'a' + 10
                          : 99;
    return value < base;
  };
  std::string digits;
  if (!TakeDigits(&rest, &digits, is_digit) || !rest.empty()) return std::nullopt;
  const size_t first = digits.find_first_not_of('0');
  if (zeros_only && first != std::string::npos) return std::nullopt;
  uint64_t magnitude = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  constexpr uint64_t kLargest = uint64_t{1} << 63;
  if (error != std::errc() || (negative && magnitude > kLargest))
    throw "the int " + text.substr(0, 40) + " doesn't fit into 64 bits";
  if (negative) return Value::Int(static_cast<int64_t>(0 - magnitude));
  if (magnitude < kLargest) return Value::Int(static_cast<int64_t>(magnitude));
  return Value::Big(std::to_string(magnitude));
}

std::optional<double> ReadFloat(const std::string& text) {
  std::string_view rest = Trimmed(text);
  std::string number;
  if (rest.starts_with('-') || rest.starts_with('+')) {
    number = rest.substr(0, 1);
    rest.remove_prefix(1);
  }
  std::string word(rest);
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "inf" || word == "infinity" || word == "nan")
    return std::strtod((number + word).c_str(), nullptr);
  bool digits = false;
  if (!rest.empty() && IsDigit(rest[0])) {
    if (!TakeDigits(&rest, &number, IsDigit)) return std::nullopt;
    digits = true;
  }
  if (rest.starts_with('.')) {
    number += '.';
    rest.remove_prefix(1);
    if (!rest.empty() && IsDigit(rest[0])) {
      if (!TakeDigits(&rest, &number, IsDigit)) return std::nullopt;
      digits = true;
    }
  }
  if (!digits) return std::nullopt;
  if (rest.starts_with('e') || rest.starts_with('E')) {
    number += 'e';
    rest.remove_prefix(1);
    if (rest.starts_with('-') || rest.starts_with('+')) {
      number += rest[0];
      rest.remove_prefix(1);
    }
    if (!TakeDigits(&rest, &number, IsDigit)) return std::nullopt;
  }
  if (!rest.empty()) return std::nullopt;
  return std::strtod(number.c_str(), nullptr);
}

double RoundFloat(double value, int64_t digits) {
  // Beyond these CPython leaves the value, or makes it 0: no double has such digits.
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  char buffer[700];
  char* last = buffer + sizeof(buffer);
  const double magnitude = std::abs(value);
  std::string text;
  if (digits >= 0) {
    auto [end, error] =
        std::to_chars(buffer, last, magnitude, std::chars_format::fixed, static_cast<int>(digits));
    text.assign(buffer, end);
  } else {
    auto [end, error] =
        std::to_chars(buffer, last, std::trunc(magnitude), std::chars_format::fixed, 0);
    text.assign(buffer, end);
    RoundDigits(&text, static_cast<size_t>(-digits), magnitude != std::trunc(magnitude));
  }
  return std::copysign(std::strtod(text.c_str(), nullptr), value);
}

std::optional<int64_t> RoundInt(int64_t value, int64_t digits) {
  std::string text = std::to_string(Magnitude(Value::Int(value)));
  RoundDigits(&text, static_cast<size_t>(std::min<int64_t>(-std::max<int64_t>(digits, -100), 100)),
              false);
  if (value < 0) text.insert(0, 1, '-');
  int64_t out = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return std::nullopt;
  return out;
}

double DivideInts(int64_t a, int64_t b) {
  constexpr uint64_t kExact = uint64_t{1} << 53;
  const uint64_t x = Magnitude(Value::Int(a)), y = Magnitude(Value::Int(b));
  if (x <= kExact && y <= kExact) return static_cast<double>(a) / static_cast<double>(b);
  // A quotient of 63 bits and more, its last bit standing for all that follow: rounded once below.
  int shift = 0;
  WideUnsigned dividend = x;
  while (dividend != 0 && (dividend >> 126) == 0) {
    dividend <<= 1;
    ++shift;
  }
  WideUnsigned quotient = dividend / y;
  bool more = dividend % y != 0;
  while ((quotient >> 64) != 0) {
    more = more || (quotient & 1) != 0;
    quotient >>= 1;
    --shift;
  }
  const uint64_t bits = static_cast<uint64_t>(quotient) | (more ? 1 : 0);
  const double magnitude = std::ldexp(static_cast<double>(bits), -shift);
  return (a < 0) != (b < 0) ? -magnitude : magnitude;
}

std::partial_ordering CompareNumbers(const Value& a, const Value& b) {
  if (a.type == Type::kFloat && b.type == Type::kFloat) return a.number <=> b.number;
  if (b.type != Type::kFloat) {
    if (a.type != Type::kFloat) return ToWide(a) <=> ToWide(b);
    const std::partial_ordering order = CompareNumbers(b, a);
    return std::is_lt(order)   ? std::partial_ordering::greater
           : std::is_gt(order) ? std::partial_ordering::less
                               : order;
  }
  if (std::isnan(b.number)) return std::partial_ordering::unordered;
  if (b.number >= 0x1p64) return std::partial_ordering::less;
  if (b.number < -0x1p63) return std::partial_ordering::greater;
  const double whole = std::floor(b.number);
  const std::partial_ordering order = ToWide(a) <=> static_cast<Wide>(whole);
  return std::is_eq(order) && b.number > whole ? std::partial_ordering::less : order;
}

double ToDouble(const Value& number) {
  return number.type == Type::kBig ? static_cast<double>(Magnitude(number)) : number.AsDouble();
}

}  // namespace xp::config::python
