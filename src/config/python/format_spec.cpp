#include "src/config/python/format_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "src/config/python/text_search.h"

namespace xp::config::python {
namespace {

constexpr int kMaxWidth = 1000;

// The parts of a number's text, as CPython's formatter sees them.
struct NumberText {
  bool negative = false;
  std::string prefix;  // 0x
  std::string digits;  // before the point; empty for inf and nan
  std::string rest;    // the point, what follows it, the exponent, %; or inf, nan
};

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

std::string Times(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

// Digits with separators every `size` of them; `least` characters are filled up with zeros, which
// are separated too.
std::string Grouped(std::string digits, char separator, size_t size, int64_t least) {
  if (digits.empty()) return digits;
  auto width = [&](size_t count) { return separator == 0 ? count : count + (count - 1) / size; };
  size_t count = digits.size();
  while (static_cast<int64_t>(width(count)) < least) ++count;
  digits.insert(0, count - digits.size(), '0');
  if (separator == 0) return digits;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string Layout(const NumberText& number, const FormatSpec& spec, size_t group_size) {
  const char align = spec.align == 0 ? '>' : spec.align;
  std::string front = number.negative                        ? "-"
                      : spec.sign == '+' || spec.sign == ' ' ? std::string(1, spec.sign)
                                                             : "";
  front += number.prefix;
  const auto fixed = static_cast<int64_t>(front.size() + number.rest.size());
  const bool zeros = spec.fill == "0" && align == '=';
  const std::string body =
      Grouped(number.digits, spec.group, group_size, zeros ? spec.width - fixed : 0) + number.rest;
  const auto size = static_cast<int64_t>(front.size() + body.size());
  const auto missing = static_cast<size_t>(std::max<int64_t>(0, spec.width - size));
  const size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const std::string left = Times(spec.fill, before), right = Times(spec.fill, missing - before);
  return align == '=' ? front + left + body : left + front + body + right;
}

// A positive finite number's significant digits; the point stands after `point` of them.
struct Decimal {
  std::string digits;
  int point = 0;
};

// `precision` digits, correctly rounded, or with -1 as many as repr() needs.
Decimal Digits(double value, int precision) {
  char buffer[1200];
  char* last = buffer + sizeof(buffer);
  auto [end, error] = precision < 0
                          ? std::to_chars(buffer, last, value, std::chars_format::scientific)
                          : std::to_chars(buffer, last, value, std::chars_format::scientific,
                                          std::max(precision - 1, 0));
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  Decimal out;
  for (char c : text.substr(0, e)) {
    if (c != '.') out.digits += c;
  }
  out.point = std::stoi(std::string(text.substr(e + 1))) + 1;
  return out;
}

std::string Exponent(int value) {
  return fmt::format("e{}{:02}", value < 0 ? '-' : '+', std::abs(value));
}

// CPython's format_float_short for 'g' and for 'r', the format of repr(). `point_zero`: a whole
// number gets ".0".
void GeneralDigits(double value, const FormatSpec& spec, bool repr, bool point_zero,
                   NumberText* out) {
  const int precision = std::max(spec.precision < 0 ? 6 : spec.precision, 1);
  Decimal decimal = Digits(value, repr ? -1 : precision);
  if (value == 0) decimal.point = 1;
  if (repr || !spec.alternate) {  // trailing zeros go
    const size_t kept = decimal.digits.find_last_not_of('0');
    decimal.digits.resize(kept == std::string::npos ? 1 : kept + 1);
  }
  const int most = repr ? 16 : precision - (point_zero ? 1 : 0);
  const bool exponent = decimal.point <= -4 || decimal.point > most;
  int point = exponent ? 1 : decimal.point;
  if (point <= 0) {
    decimal.digits.insert(0, static_cast<size_t>(1 - point), '0');
    point = 1;
  }
  auto places = static_cast<size_t>(point);
  const size_t least = places + (point_zero && !exponent ? 1 : 0);
  if (decimal.digits.size() < least) decimal.digits.resize(least, '0');
  out->digits = decimal.digits.substr(0, places);
  const std::string fraction = decimal.digits.substr(places);
  if (!fraction.empty() || spec.alternate) out->rest = "." + fraction;
  if (exponent) out->rest += Exponent(decimal.point - 1);
}

// f, e
void PlainDigits(double value, const FormatSpec& spec, char type, NumberText* out) {
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  char buffer[1500];
  auto [end, error] = std::to_chars(
      buffer, buffer + sizeof(buffer), value,
      type == 'e' ? std::chars_format::scientific : std::chars_format::fixed, precision);
  const std::string text(buffer, end);
  const size_t digits = std::min(text.find_first_of(".e"), text.size());
  out->digits = text.substr(0, digits);
  out->rest = text.substr(digits);
  if (spec.alternate && precision == 0) out->rest.insert(0, ".");
}

void RequireGroup(const FormatSpec& spec) {
  if (spec.group == 0) return;
  constexpr std::string_view kThousands("defgEG%F\0", 9);
  const bool digits = std::string_view("boxX").find(spec.type) != std::string_view::npos;
  if (kThousands.find(spec.type) != std::string_view::npos || (digits && spec.group == '_')) return;
  throw fmt::format("`{}` can't go with the format type `{}`", spec.group, spec.type);
}

[[noreturn]] void Unfit(char type, const Value& value) {
  throw fmt::format("the format type `{}` doesn't fit {}", type, WithArticle(value.type));
}

}  // namespace

FormatSpec ParseFormatSpec(const std::string& text, Type type) {
  FormatSpec spec;
  const bool number = type != Type::kString;
  size_t at = 0;
  const std::string_view first = FirstCharacter(text);
  const bool filled = first.size() < text.size() && IsAlign(text[first.size()]);
  if (filled) {
    spec.fill = first;
    spec.align = text[first.size()];
    at = first.size() + 1;
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[at++];
  }
  auto is = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos;
  };
  if (is("+- ")) spec.sign = text[at++];
  if (is("#")) {
    spec.alternate = true;
    ++at;
  }
  if (!filled && is("0")) {
    spec.fill.assign(1, '0');
    if (spec.align == 0 && number) spec.align = '=';
    ++at;
  }
  auto count = [&] {
    int value = 0;
    for (; is("0123456789") && value <= kMaxWidth; ++at) value = value * 10 + (text[at] - '0');
    if (value > kMaxWidth) throw std::string("a format's width or precision over 1000");
    return value;
  };
  spec.width = count();
  if (is(",_")) spec.group = text[at++];
  if (is(".")) {
    ++at;
    if (!is("0123456789")) throw fmt::format("the format `{}` has no digits after its point", text);
    spec.precision = count();
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) throw fmt::format("the format `{}` can't be used in a config", text);
  return spec;
}

std::string FormatText(const std::string& text, const FormatSpec& spec) {
  const Window window = WindowOf(text, 0, spec.precision < 0 ? INT64_MAX : spec.precision);
  const auto width = static_cast<size_t>(spec.width);
  const size_t missing = width > window.characters ? width - window.characters : 0;
  const size_t before = spec.align == '>' ? missing : spec.align == '^' ? missing / 2 : 0;
  return Times(spec.fill, before) + text.substr(0, window.to) + Times(spec.fill, missing - before);
}

std::string FormatInt(const Value& value, const FormatSpec& spec) {
  NumberText number;
  number.negative = value.type != Type::kBig && value.AsInt() < 0;
  const uint64_t magnitude = Magnitude(value);
  const char type = spec.type;
  number.digits = type == 'x'   ? fmt::format("{:x}", magnitude)
                  : type == 'X' ? fmt::format("{:X}", magnitude)
                  : type == 'o' ? fmt::format("{:o}", magnitude)
                  : type == 'b' ? fmt::format("{:b}", magnitude)
                                : fmt::format("{}", magnitude);
  const auto least = static_cast<size_t>(std::max(spec.precision, 0));
  if (number.digits.size() < least) number.digits.insert(0, least - number.digits.size(), '0');
  const bool based = type == 'x' || type == 'X' || type == 'o' || type == 'b';
  if (spec.alternate && based) number.prefix = {'0', type};
  return Layout(number, spec, based ? 4 : 3);
}

std::string FormatFloat(double value, const FormatSpec& spec) {
  NumberText number;
  const char type = spec.type;
  if (type == '%') value *= 100;
  number.negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::abs(value);
  if (!std::isfinite(value)) {
    number.rest = std::isnan(value) ? "nan" : "inf";
  } else if (type == 0) {
    GeneralDigits(magnitude, spec, spec.precision < 0, true, &number);
  } else if (type == 'g' || type == 'G') {
    GeneralDigits(magnitude, spec, false, false, &number);
  } else {
    PlainDigits(magnitude, spec, type == 'e' || type == 'E' ? 'e' : 'f', &number);
  }
  if (type == 'E' || type == 'F' || type == 'G') {
    for (char& c : number.rest) {
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
  }
  if (type == '%') number.rest += '%';
  return Layout(number, spec, 3);
}

std::string FormatValue(const Value& value, const std::string& text) {
  const bool number = value.IsNumber() || value.type == Type::kBig;
  if (!number && value.type != Type::kString)
    throw fmt::format("{} takes no format", WithArticle(value.type));
  FormatSpec spec = ParseFormatSpec(text, value.type);
  if (value.type == Type::kString) {
    if (spec.type != 0 && spec.type != 's') Unfit(spec.type, value);
    if (spec.sign != 0 || spec.alternate || spec.align == '=' || spec.group != 0)
      throw fmt::format("the format `{}` is a number's, this is a str", text);
    return FormatText(value.Text(), spec);
  }
  const bool integral = value.type != Type::kFloat;
  if (integral && spec.type == 0) spec.type = 'd';
  RequireGroup(spec);
  if (integral && std::string_view("bdoxX").find(spec.type) != std::string_view::npos) {
    if (spec.precision >= 0)
      throw fmt::format("the format `{}` has a precision, an int has none", text);
    return FormatInt(value, spec);
  }
  constexpr std::string_view kFloats("eEfFgG%\0", 8);
  if (kFloats.find(spec.type) == std::string_view::npos) Unfit(spec.type, value);
  return FormatFloat(
      value.type == Type::kBig ? static_cast<double>(Magnitude(value)) : value.AsDouble(), spec);
}

}  // namespace xp::config::python
