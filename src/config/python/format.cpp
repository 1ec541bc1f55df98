// f-strings, str.format and %.
#include <fmt/format.h>

#include "exp/base/error.h"
#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

constexpr int kMaxWidth = 1000;

struct Spec {
  char fill = ' ';
  char align = 0;
  char sign = '-';
  bool zero = false;
  bool comma = false;
  int width = 0;
  int precision = -1;
  char type = 0;
};

// [[fill]align][sign][0][width][,][.precision][type]; throws a message.
Spec ParseSpec(const std::string& text) {
  Spec spec;
  size_t at = 0;
  auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (text.size() > 1 && is_align(text[1])) {
    spec.fill = text[0];
    spec.align = text[1];
    at = 2;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' '))
    spec.sign = text[at++];
  if (at < text.size() && text[at] == '0') {
    spec.zero = true;
    ++at;
  }
  auto number = [&] {
    int value = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9' && value <= kMaxWidth)
      value = value * 10 + (text[at++] - '0');
    if (value > kMaxWidth) throw std::string("a format's width or precision over 1000");
    return value;
  };
  spec.width = number();
  if (at < text.size() && text[at] == ',') {
    spec.comma = true;
    ++at;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    spec.precision = number();
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) throw fmt::format("the format `{}` can't be used in a config", text);
  return spec;
}

std::string Padded(const std::string& text, const Spec& spec, char usual) {
  auto width = static_cast<size_t>(spec.width);
  if (text.size() >= width) return text;
  size_t missing = width - text.size();
  char align = spec.align != 0 ? spec.align : usual;
  char fill = spec.zero && spec.align == 0 ? '0' : spec.fill;
  bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  if ((align == '=' || (spec.zero && spec.align == 0)) && usual == '>') {
    std::string zeros(missing, fill);
    return sign ? text[0] + zeros + text.substr(1) : zeros + text;
  }
  if (align == '<') return text + std::string(missing, fill);
  if (align == '^')
    return std::string(missing / 2, fill) + text + std::string(missing - missing / 2, fill);
  return std::string(missing, fill) + text;
}

std::string Grouped(const std::string& text) {
  size_t from = !text.empty() && text[0] == '-' ? 1 : 0;
  size_t end = std::min(text.find_first_of(".e"), text.size());
  std::string out = text.substr(0, from);
  for (size_t i = from; i < end; ++i) {
    if (i > from && (end - i) % 3 == 0) out += ',';
    out += text[i];
  }
  return out + text.substr(end);
}

std::string FormatNumber(const Value& value, const Spec& spec) {
  std::string text;
  char type = spec.type;
  if (value.IsIntegral() &&
      (type == 0 || type == 'd' || type == 'x' || type == 'X' || type == 'o' || type == 'b')) {
    int64_t number = value.AsInt();
    uint64_t magnitude =
        number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    text = type == 'x'   ? fmt::format("{:x}", magnitude)
           : type == 'X' ? fmt::format("{:X}", magnitude)
           : type == 'o' ? fmt::format("{:o}", magnitude)
           : type == 'b' ? fmt::format("{:b}", magnitude)
                         : fmt::format("{}", magnitude);
    if (number < 0) text.insert(0, "-");
  } else {
    double number = value.AsDouble();
    int precision = spec.precision;
    if (type == 0 && precision < 0) {
      text = FloatRepr(number);
    } else if (type == 'f' || type == 'F') {
      text = fmt::format("{:.{}f}", number, precision < 0 ? 6 : precision);
    } else if (type == 'e' || type == 'E') {
      text = fmt::format(fmt::runtime(type == 'e' ? "{:.{}e}" : "{:.{}E}"), number,
                         precision < 0 ? 6 : precision);
    } else if (type == 'g' || type == 'G' || type == 0) {
      text = fmt::format("{:.{}g}", number, precision < 0 ? 6 : std::max(precision, 1));
      if (type == 0 && text.find_first_of(".en") == std::string::npos) text += ".0";
    } else if (type == '%') {
      text = fmt::format("{:.{}f}%", number * 100, precision < 0 ? 6 : precision);
    } else {
      throw fmt::format("the format type `{}` doesn't fit a {}", type, TypeName(value.type));
    }
  }
  if (spec.comma) text = Grouped(text);
  if (spec.sign != '-' && text[0] != '-') text.insert(0, 1, spec.sign);
  return text;
}

}  // namespace

std::string Evaluator::Format(const Ast& at, const Value& value, const std::string& spec_text) {
  if (spec_text.empty()) return Str(value);
  try {
    Spec spec = ParseSpec(spec_text);
    if (value.IsNumber() && !(value.type == Type::kBool && spec.type == 0))
      return Padded(FormatNumber(value, spec), spec, '>');
    if (value.type != Type::kString && value.type != Type::kBool)
      throw fmt::format("a {} takes no format", TypeName(value.type));
    if (spec.type != 0 && spec.type != 's')
      throw fmt::format("the format type `{}` doesn't fit a {}", spec.type, TypeName(value.type));
    std::string text = Str(value);
    if (spec.precision >= 0) text = text.substr(0, static_cast<size_t>(spec.precision));
    return Padded(text, spec, '<');
  } catch (const std::string& message) {
    Fail(at, message);
  }
}

std::string Evaluator::FormatTemplate(const Ast& at, const std::string& text,
                                      Arguments& arguments) {
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '{' || text[i] == '}') && i + 1 < text.size() && text[i + 1] == text[i]) {
      out += text[i++];
      continue;
    }
    if (text[i] == '}') Fail(at, "a single } in a format");
    if (text[i] != '{') {
      out += text[i];
      continue;
    }
    size_t close = text.find('}', i);
    if (close == std::string::npos) Fail(at, "a { in a format isn't closed");
    std::string field = text.substr(i + 1, close - i - 1);
    size_t colon = field.find(':');
    std::string spec = colon == std::string::npos ? "" : field.substr(colon + 1);
    std::string name = field.substr(0, colon);
    std::string conversion;
    if (size_t bang = name.find('!'); bang != std::string::npos) {
      conversion = name.substr(bang + 1);
      name = name.substr(0, bang);
    }
    Value value;
    if (name.empty() || name.find_first_not_of("0123456789") == std::string::npos) {
      size_t index = name.empty() ? next++ : name.size() > 4 ? SIZE_MAX : std::stoul(name);
      if (index >= arguments.positional.size())
        Fail(at, "the format asks for more values than there are");
      value = arguments.positional[index];
    } else {
      bool found = false;
      for (const auto& [word, candidate] : arguments.keywords) {
        if (word != name) continue;
        value = candidate;
        found = true;
      }
      if (!found) Fail(at, fmt::format("the format asks for `{}`, which isn't given", name));
    }
    if (!conversion.empty()) value = Value::String(conversion == "r" ? Repr(value) : Str(value));
    out += Format(at, value, spec);
    Charge(at, out.size());
    i = close;
  }
  return out;
}

// text % value
std::string Evaluator::Percent(const Ast& at, const std::string& text, const Value& value) {
  std::vector<Value> values =
      value.type == Type::kTuple ? value.list->items : std::vector<Value>{value};
  size_t next = 0;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    size_t end = text.find_first_not_of("0123456789.+- ", i + 1);
    if (end == std::string::npos) Fail(at, "a % format isn't complete");
    if (text[end] == '%') {
      out += '%';
      i = end;
      continue;
    }
    if (text[end] == '(') Fail(at, "%(name) formats can't be used in a config", "use an f-string");
    if (next >= values.size()) Fail(at, "the % format asks for more values than there are");
    Value argument = values[next++];
    std::string spec = text.substr(i + 1, end - i - 1);
    char type = text[end];
    if (type == 's' || type == 'r') {
      std::string shown = type == 's' ? Str(argument) : Repr(argument);
      argument = Value::String(shown);
      type = 's';
    }
    if (type == 'i' || type == 'd') {
      type = 'd';
      if (argument.type == Type::kFloat)
        argument = Value::Int(static_cast<int64_t>(argument.number));
    }
    if (!spec.empty() && spec[0] == '-') {
      spec[0] = '<';
    } else if (type == 's' && !spec.empty() && spec[0] != '.') {
      spec.insert(0, ">");
    }
    out += Format(at, argument, spec + type);
    Charge(at, out.size());
    i = end;
  }
  if (next < values.size() && value.type != Type::kDict)
    Fail(at, "the % format leaves values over");
  return out;
}

}  // namespace xp::config::python
