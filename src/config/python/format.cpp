// f-strings, str.format and %.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
  bool alternate = false;  // #: 0x before hexadecimal digits
  char group = 0;          // , or _ between thousands
  int width = 0;
  int precision = -1;
  char type = 0;
};

// [[fill]align][sign][#][0][width][,_][.precision][type]; throws a message.
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
  if (at < text.size() && text[at] == '#') {
    spec.alternate = true;
    ++at;
  }
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
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.group = text[at++];
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
  const size_t size = Characters(text).size();
  if (size >= width) return text;
  size_t missing = width - size;
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

std::string Grouped(const std::string& text, char separator) {
  size_t from = !text.empty() && text[0] == '-' ? 1 : 0;
  size_t end = std::min(text.find_first_of(".e"), text.size());
  std::string out = text.substr(0, from);
  for (size_t i = from; i < end; ++i) {
    if (i > from && (end - i) % 3 == 0) out += separator;
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
    if (spec.alternate && type != 0 && type != 'd')
      text.insert(0, type == 'x' ? "0x" : type == 'X' ? "0X" : type == 'o' ? "0o" : "0b");
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
      throw fmt::format("the format type `{}` doesn't fit {}", type, WithArticle(value.type));
    }
  }
  if (spec.group != 0) text = Grouped(text, spec.group);
  if (spec.sign != '-' && text[0] != '-') text.insert(0, 1, spec.sign);
  return text;
}

}  // namespace

std::string Evaluator::Format(const Ast& at, const Value& value, const std::string& spec_text) {
  if (spec_text.empty()) return Str(value);
  try {
    Spec spec = ParseSpec(spec_text);
    if (value.IsNumber())  // with a format True is 1
      return Padded(FormatNumber(value, spec), spec, '>');
    if (value.type == Type::kBig) return Padded(Str(value), spec, '>');
    if (value.type != Type::kString && value.type != Type::kBool)
      throw fmt::format("{} takes no format", WithArticle(value.type));
    if (spec.type != 0 && spec.type != 's')
      throw fmt::format("the format type `{}` doesn't fit {}", spec.type, WithArticle(value.type));
    std::string text = Str(value);
    if (spec.precision >= 0) {
      std::vector<std::string> characters = Characters(text);
      text.clear();
      for (size_t i = 0; i < std::min(characters.size(), static_cast<size_t>(spec.precision)); ++i)
        text += characters[i];
    }
    return Padded(text, spec, '<');
  } catch (const std::string& message) {
    Fail(at, message);
  }
}

// One field's value: a number or name, then .attribute and [key] any number of times.
Value Evaluator::FormatField(const Ast& at, const std::string& name, const Arguments& arguments,
                             size_t* next) {
  size_t end = std::min(name.find_first_of(".["), name.size());
  const std::string first = name.substr(0, end);
  Value value;
  if (first.find_first_not_of("0123456789") == std::string::npos) {
    size_t index = first.empty() ? (*next)++ : first.size() > 4 ? SIZE_MAX : std::stoul(first);
    if (index >= arguments.positional.size())
      Fail(at, "the format asks for more values than there are");
    value = arguments.positional[index];
  } else {
    auto it = std::find_if(arguments.keywords.begin(), arguments.keywords.end(),
                           [&](const auto& pair) { return pair.first == first; });
    if (it == arguments.keywords.end())
      Fail(at, fmt::format("the format asks for `{}`, which isn't given", first));
    value = it->second;
  }
  while (end < name.size()) {
    const bool key = name[end] == '[';
    size_t close =
        key ? name.find(']', end) : std::min(name.find_first_of(".[", end + 1), name.size());
    if (close == std::string::npos) Fail(at, "a [ in a format isn't closed");
    const std::string part = name.substr(end + 1, close - end - 1);
    end = close + (key ? 1 : 0);
    if (!key) {
      value = Attribute(at, value, part);
      continue;
    }
    Ast index;
    index.line = at.line;
    index.column = at.column;
    const bool number = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    index.kind = number ? AstKind::kInt : AstKind::kString;
    index.text = number ? "" : part;
    if (number) index.integer = std::stoll(part);
    value = Subscript(at, value, index);
  }
  return value;
}

std::string Evaluator::FormatTemplate(const Ast& at, std::string_view text,
                                      const Arguments& arguments, size_t* next, int depth) {
  if (depth > 2) Fail(at, "a format nested too deeply");
  std::string out;
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
    size_t close = i + 1;
    for (int open = 1; close < text.size(); ++close) {
      open += text[close] == '{' ? 1 : text[close] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (close >= text.size()) Fail(at, "a { in a format isn't closed");
    std::string_view field = text.substr(i + 1, close - i - 1);
    const size_t colon = field.find(':');
    std::string name(field.substr(0, colon));
    std::string conversion;
    if (size_t bang = name.find('!'); bang != std::string::npos) {
      conversion = name.substr(bang + 1);
      name = name.substr(0, bang);
    }
    Value value = FormatField(at, name, arguments, next);
    std::string spec;
    if (colon != std::string_view::npos)
      spec = FormatTemplate(at, field.substr(colon + 1), arguments, next, depth + 1);
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
    size_t from = i + 1;
    std::string key;
    if (from < text.size() && text[from] == '(') {
      size_t close = text.find(')', from);
      if (close == std::string::npos) Fail(at, "a ( in a % format isn't closed");
      key = text.substr(from + 1, close - from - 1);
      from = close + 1;
      if (value.type != Type::kDict) Fail(at, "a %(name) format needs a dict");
    }
    size_t end = text.find_first_not_of("0123456789.+- #", from);
    if (end == std::string::npos) Fail(at, "a % format isn't complete");
    if (text[end] == '%') {
      out += '%';
      i = end;
      continue;
    }
    Value argument;
    if (from > i + 1) {
      const DictObject::Pair* pair = value.dict->Find("s" + key);
      if (pair == nullptr) Fail(at, fmt::format("the dict has no key '{}'", key));
      argument = pair->value;
    } else {
      if (next >= values.size()) Fail(at, "the % format asks for more values than there are");
      argument = values[next++];
    }
    // %[flags][width][.precision]type in the words of format().
    char type = text[end];
    const size_t digits = std::min(text.find_first_not_of("+- #0", from), end);
    const std::string flags = text.substr(from, digits - from);
    auto flag = [&](char c) { return flags.find(c) != std::string::npos; };
    if (type == 's' || type == 'r') {
      argument = Value::String(type == 's' ? Str(argument) : Repr(argument));
      type = 's';
    } else if (type == 'i' || type == 'd' || type == 'u') {
      type = 'd';
      if (argument.type == Type::kFloat) {
        if (!(std::abs(argument.number) < 9.2e18)) Fail(at, "the result doesn't fit into 64 bits");
        argument = Value::Int(static_cast<int64_t>(argument.number));
      }
    }
    std::string spec;
    if (flag('-')) {
      spec = "<";
    } else if (type == 's') {
      spec = ">";
    }
    if (type != 's') {
      if (flag('+')) spec += '+';
      if (flag(' ') && !flag('+')) spec += ' ';
      if (flag('#')) spec += '#';
      if (flag('0') && !flag('-')) spec += '0';
    }
    spec += text.substr(digits, end - digits);
    out += Format(at, argument, spec + type);
    Charge(at, out.size());
    i = end;
  }
  if (next < values.size() && value.type != Type::kDict)
    Fail(at, "the % format leaves values over");
  return out;
}

}  // namespace xp::config::python
