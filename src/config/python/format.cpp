// f-strings, str.format and %.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exp/base/error.h"
#include "src/config/python/evaluator.h"
#include "src/config/python/format_spec.h"
#include "src/config/python/numbers.h"

namespace xp::config::python {

std::string Evaluator::Converted(const Ast& at, const Value& value, std::string_view conversion) {
  const char kind = conversion.size() == 1 ? conversion[0] : '\0';
  if (kind != 's' && kind != 'r' && kind != 'a') {
    Fail(at, fmt::format("`!{}` is no conversion of a format", conversion), "write !s, !r or !a");
  }
  try {
    std::string text = kind == 's' ? Str(value) : kind == 'r' ? Repr(value) : Ascii(value);
    Charge(at, text.size());
    return text;
  } catch (const std::string& message) {
    const bool order = message == kNoOrder;
    Fail(at, message, order ? kSortIt : "");
  }
}

std::string Evaluator::Format(const Ast& at, const Value& value, const std::string& spec) {
  if (spec.empty()) return Converted(at, value, "s");
  try {
    std::string text = FormatValue(value, spec);
    Charge(at, text.size());
    return text;
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
    // `next` counts the fields without a number; kNumbered once one has one.
    constexpr size_t kNumbered = SIZE_MAX / 2;
    if (first.empty() ? *next >= kNumbered : *next > 0 && *next < kNumbered)
      Fail(at, "a format numbers all of its fields or none");
    if (!first.empty()) *next = kNumbered;
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

namespace {

// Where the name of a {field} ends: at its ! or :, which may also stand in a [key].
size_t NameEnd(std::string_view field) {
  bool key = false;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '[' || field[i] == ']') key = field[i] == '[';
    if (!key && (field[i] == '!' || field[i] == ':')) return i;
  }
  return field.size();
}

}  // namespace

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
    const size_t end = NameEnd(field);
    const std::string_view rest = field.substr(end);
    const size_t colon = rest.find(':');
    Value value = FormatField(at, std::string(field.substr(0, end)), arguments, next);
    std::string spec;
    if (colon != std::string_view::npos)
      spec = FormatTemplate(at, rest.substr(colon + 1), arguments, next, depth + 1);
    if (rest.starts_with('!'))
      value = Value::String(Converted(at, value, rest.substr(1, colon - 1)));
    out += Format(at, value, spec);
    i = close;
  }
  return out;
}

// What the fields of text % value take.
struct Evaluator::PercentValues {
  const Value& given;
  std::vector<Value> places;
  size_t next = 0;
  bool named = false;
};

// The next value by place.
const Value& Evaluator::NextOf(const Ast& at, PercentValues& values) const {
  if (values.named) Fail(at, "a % format takes its values by name or by place, not both");
  if (values.next >= values.places.size())
    Fail(at, "the % format asks for more values than there are");
  return values.places[values.next++];
}

// A width or precision: digits, or * for the next value.
int Evaluator::PercentCount(const Ast& at, const std::string& text, size_t* position,
                            PercentValues& values) const {
  constexpr int kMost = 1000;
  if (*position < text.size() && text[*position] == '*') {
    ++*position;
    const Value& value = NextOf(at, values);
    if (!value.IsIntegral() || std::abs(value.AsDouble()) > kMost)
      Fail(at, "a `*` in a % format takes an int up to 1000");
    return static_cast<int>(value.AsInt());
  }
  int count = 0;
  for (; *position < text.size() && text[*position] >= '0' && text[*position] <= '9'; ++*position) {
    count = count * 10 + (text[*position] - '0');
    if (count > kMost) Fail(at, "a format's width or precision over 1000");
  }
  return count;
}

// Formats the field whose % stands at *position, which moves to its end.
std::string Evaluator::PercentField(const Ast& at, const std::string& text, size_t* position,
                                    PercentValues& values) {
  size_t i = *position + 1;
  const Value* named = nullptr;
  if (i < text.size() && text[i] == '(') {
    const size_t close = text.find(')', i);
    if (close == std::string::npos) Fail(at, "a ( in a % format isn't closed");
    const std::string key = text.substr(i + 1, close - i - 1);
    if (values.given.type != Type::kDict) Fail(at, "a %(name) format needs a dict");
    const DictObject::Pair* pair = values.given.dict->Find("s" + key);
    if (pair == nullptr) Fail(at, fmt::format("the dict has no key '{}'", key));
    named = &pair->value;
    values.named = true;
    i = close + 1;
  }
  const size_t flags_end = std::min(text.find_first_not_of("+- #0", i), text.size());
  const std::string flags = text.substr(i, flags_end - i);
  auto flag = [&](char c) { return flags.find(c) != std::string::npos; };
  i = flags_end;
  FormatSpec spec;
  spec.width = PercentCount(at, text, &i, values);
  const bool left = flag('-') || spec.width < 0;
  spec.width = std::abs(spec.width);
  spec.align = left ? '<' : '>';
  if (i < text.size() && text[i] == '.') {
    ++i;
    spec.precision = std::max(PercentCount(at, text, &i, values), 0);
  }
  if (i < text.size() && (text[i] == 'h' || text[i] == 'l' || text[i] == 'L')) ++i;
  if (i >= text.size()) Fail(at, "a % format isn't complete");
  *position = i;
  spec.type = text[i];
  if (spec.type == '%') return "%";
  if (std::string_view("sradiuoxXeEfFgG").find(spec.type) == std::string_view::npos)
    Fail(at, fmt::format("the % format's type `{}` can't be used in a config", spec.type));
  const Value value = named != nullptr ? *named : NextOf(at, values);
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a')
    return FormatText(Converted(at, value, std::string_view(&spec.type, 1)), spec);
  if (flag('0') && !left) {
    spec.align = '=';
    spec.fill.assign(1, '0');
  }
  spec.sign = flag('+') ? '+' : flag(' ') ? ' ' : '\0';
  spec.alternate = flag('#');
  return PercentNumber(at, value, spec);
}

std::string Evaluator::PercentNumber(const Ast& at, const Value& value, FormatSpec spec) const {
  if (!value.IsReal())
    Fail(at, fmt::format("%{} takes a number, this is {}", spec.type, WithArticle(value.type)));
  if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos)
    return FormatFloat(ToDouble(value), spec);
  const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
  if (!decimal && value.type == Type::kFloat)
    Fail(at, fmt::format("%{} takes an int, this is a float", spec.type));
  if (decimal) spec.type = 'd';
  return FormatInt(value.type == Type::kFloat ? WholeNumber(at, std::trunc(value.number)) : value,
                   spec);
}

// text % value
std::string Evaluator::Percent(const Ast& at, const std::string& text, const Value& value) {
  PercentValues values{value,
                       value.type == Type::kTuple ? value.list->items : std::vector<Value>{value}};
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string field = PercentField(at, text, &i, values);
    Charge(at, field.size());
    out += field;
  }
  // As in Python, a dict, list or range may be left over.
  const bool optional =
      value.type == Type::kDict || value.type == Type::kList || value.type == Type::kRange;
  if (values.next < values.places.size() && !values.named && !optional)
    Fail(at, "the % format leaves values over");
  return out;
}

}  // namespace xp::config::python
