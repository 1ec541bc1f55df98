#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "exp/base/utf8.h"
#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

constexpr int64_t kMaxRange = 1'000'000;

const std::set<std::string>& Builtins() {
  static const std::set<std::string> names{
      "dict", "list",   "tuple",  "set",   "frozenset",  "len",     "range",   "enumerate",
      "zip",  "sum",    "min",    "max",   "abs",        "round",   "int",     "float",
      "str",  "bool",   "sorted", "any",   "all",        "map",     "filter",  "reversed",
      "repr", "divmod", "pow",    "print", "isinstance", "hasattr", "getattr", "callable",
      "type", "chr",    "ord",    "hex",   "oct",        "bin",     "ascii",   "format"};
  return names;
}

// Python's banker's rounding of the exact decimal value.
double RoundTo(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < -300) return 0;
  if (digits < 0) {
    double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / scale) * scale;
  }
  // Correctly rounded decimal text, as CPython's dtoa mode 3.
  return std::stod(fmt::format("{:.{}f}", value, digits));
}

// The number of the one UTF-8 character that the text is.
uint32_t CodePoint(const std::string& character) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0xffU >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3fU);
  return code;
}

// Drops the 0x of int('0x1f', 16) and int('0x1f', 0); returns the base that the digits are of.
int DropBasePrefix(std::string& digits, int base) {
  const size_t sign = !digits.empty() && digits[0] == '-' ? 1 : 0;
  int prefix = 0;
  if (digits.size() > sign + 2 && digits[sign] == '0') {
    const char letter = static_cast<char>(std::tolower(digits[sign + 1]));
    prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  }
  if (prefix != 0 && (base == 0 || base == prefix)) {
    digits.erase(sign, 2);
    return prefix;
  }
  return base == 0 ? 10 : base;
}

}  // namespace

bool Evaluator::IsBuiltin(const std::string& name) { return Builtins().count(name) > 0; }

Value Evaluator::Range(const Ast& at, Arguments& arguments) {
  Need(at, arguments, 1, 3, "range");
  for (const Value& value : arguments.positional) {
    if (!value.IsIntegral()) Fail(at, "range() takes ints");
  }
  const auto& given = arguments.positional;
  int64_t from = given.size() == 1 ? 0 : given[0].AsInt();
  int64_t to = given[given.size() == 1 ? 0 : 1].AsInt();
  int64_t step = given.size() == 3 ? given[2].AsInt() : 1;
  if (step == 0) Fail(at, "range()'s step can't be 0");
  std::vector<Value> items;
  for (int64_t i = from; step > 0 ? i < to : i > to;) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) Fail(at, "a range of more than a million");
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  Charge(at, items.size() * sizeof(Value));
  return arena_.List(std::move(items));
}

Value Evaluator::Round(const Ast& at, Arguments& arguments) {
  Need(at, arguments, 1, 2, "round");
  const Value& value = arguments.positional[0];
  if (!value.IsNumber())
    Fail(at, fmt::format("round() takes a number, this is {}", WithArticle(value.type)));
  bool whole = arguments.positional.size() == 1 || arguments.positional[1].type == Type::kNone;
  if (value.IsIntegral() && whole) return Value::Int(value.AsInt());
  if (whole) {
    double rounded = std::nearbyint(value.number);
    if (!(std::abs(rounded) < 9.2e18)) Fail(at, "the result doesn't fit into 64 bits");
    return Value::Int(static_cast<int64_t>(rounded));
  }
  if (!arguments.positional[1].IsIntegral()) Fail(at, "round()'s digits are an int");
  int64_t digits = arguments.positional[1].AsInt();
  if (value.IsIntegral()) {
    if (digits >= 0) return Value::Int(value.AsInt());
    return Value::Int(static_cast<int64_t>(RoundTo(value.AsDouble(), digits)));
  }
  return Value::Float(RoundTo(value.number, digits));
}

Value Evaluator::Convert(const Ast& at, const std::string& type, Arguments& arguments) {
  Need(at, arguments, 0, 2, type);
  if (arguments.positional.empty()) {
    return type == "int"     ? Value::Int(0)
           : type == "float" ? Value::Float(0)
           : type == "bool"  ? Value::Bool(false)
                             : Value::String("");
  }
  const Value& value = arguments.positional[0];
  if (type == "bool") return Value::Bool(Truthy(value));
  if (type == "str") return Value::String(Str(value));
  if (value.type == Type::kBig)
    return type == "int" ? value : Value::Float(std::strtod(value.Text().c_str(), nullptr));
  if (value.IsNumber()) {
    if (type == "float") return Value::Float(value.AsDouble());
    if (value.IsIntegral()) return Value::Int(value.AsInt());
    if (!(std::abs(value.number) < 9.2e18)) Fail(at, "the result doesn't fit into 64 bits");
    return Value::Int(static_cast<int64_t>(value.number));
  }
  if (value.type != Type::kString)
    Fail(at, fmt::format("{}() can't take {}", type, WithArticle(value.type)));
  std::string text = value.Text();
  text.erase(0, std::min(text.find_first_not_of(" \t\n\r"), text.size()));
  text.erase(text.find_last_not_of(" \t\n\r") + 1);
  std::string digits = text;
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  if (!digits.empty() && digits[0] == '+') digits.erase(0, 1);
  const char* end = digits.data() + digits.size();
  if (type == "int") {
    int64_t number = 0;
    int base = 10;
    if (arguments.positional.size() == 2 && arguments.positional[1].IsIntegral()) {
      int64_t asked = arguments.positional[1].AsInt();
      if (asked != 0 && (asked < 2 || asked > 36)) Fail(at, "int()'s base is 0 or from 2 to 36");
      base = DropBasePrefix(digits, static_cast<int>(asked));
    }
    end = digits.data() + digits.size();
    auto [stop, error] = std::from_chars(digits.data(), end, number, base);
    if (error != std::errc() || stop != end)
      Fail(at, fmt::format("int() can't read {}", Repr(value)));
    return Value::Int(number);
  }
  double number = 0;
  auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error == std::errc::invalid_argument || stop != end)
    Fail(at, fmt::format("float() can't read {}", Repr(value)));
  if (error == std::errc::result_out_of_range) number = std::strtod(digits.c_str(), nullptr);
  return Value::Float(number);
}

Value Evaluator::Extreme(const Ast& at, const std::string& name, Arguments& arguments) {
  std::vector<Value> items = arguments.positional;
  if (items.size() == 1) items = Iterate(at, items[0]);
  const Value* key = nullptr;
  for (const auto& [word, value] : arguments.keywords) {
    if (word == "default" && items.empty()) return value;
    if (word == "key") key = &value;
    if (word != "default" && word != "key")
      Fail(at, fmt::format("{}() can't take the argument `{}`", name, word));
  }
  if (items.empty()) Fail(at, fmt::format("{}() of nothing", name));
  auto measure = [&](const Value& item) {
    return key == nullptr ? item : Invoke(at, *key, {{item}, {}});
  };
  Value best = items[0];
  Value best_measure = measure(best);
  for (size_t i = 1; i < items.size(); ++i) {
    Value candidate = measure(items[i]);
    int order = Compare(candidate, best_measure);
    if (name == "min" ? order < 0 : order > 0) {
      best = items[i];
      best_measure = candidate;
    }
  }
  return best;
}

Value Evaluator::Sorted(const Ast& at, std::vector<Value> items, Arguments& arguments) {
  bool reverse = false;
  const Value* key = nullptr;
  for (const auto& [word, value] : arguments.keywords) {
    if (word == "reverse") {
      reverse = Truthy(value);
    } else if (word == "key") {
      key = &value;
    } else {
      Fail(at, fmt::format("sorted() can't take the argument `{}`", word));
    }
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Step(at);
    Value measure =
        key == nullptr || key->type == Type::kNone ? item : Invoke(at, *key, {{item}, {}});
    keyed.emplace_back(std::move(measure), std::move(item));
  }
  // NaN makes the order inconsistent, which a merge sort survives where std::sort may not.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    int order = Compare(a.first, b.first);
    return reverse ? order > 0 : order < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (auto& [measure, item] : keyed) sorted.push_back(std::move(item));
  return arena_.List(std::move(sorted));
}

// Builtins of names and letters.
Value Evaluator::Text(const Ast& at, const std::string& name, Arguments& arguments) {
  auto& given = arguments.positional;
  if (name == "hasattr" || name == "getattr") {
    Need(at, arguments, 2, name == "getattr" ? 3 : 2, name);
    if (given[1].type != Type::kString) Fail(at, fmt::format("{}() takes a name", name));
    const std::string& attribute = given[1].Text();
    const Value& object = given[0];
    const bool key =
        object.type == Type::kDict && object.dict->config && object.dict->Find("s" + attribute);
    const bool has =
        HasMethod(object, attribute) || key ||
        (object.type == Type::kModule && IsModuleMember(object.Text() + "." + attribute));
    if (name == "hasattr") return Value::Bool(has);
    return !has && given.size() == 3 ? given[2] : Attribute(at, object, attribute);
  }
  Need(at, arguments, 1, name == "format" ? 2 : 1, name);
  const Value& value = given[0];
  if (name == "format") {
    if (given.size() == 2 && given[1].type != Type::kString) Fail(at, "format() takes a string");
    return Value::String(Format(at, value, given.size() == 2 ? given[1].Text() : ""));
  }
  if (name == "ascii") {
    std::string out;
    for (const std::string& character : Characters(Repr(value))) {
      const uint32_t code = CodePoint(character);
      out += code < 0x80      ? character
             : code < 0x100   ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
    }
    return Value::String(std::move(out));
  }
  if (name == "ord") {
    if (value.type != Type::kString || Characters(value.Text()).size() != 1)
      Fail(at, "ord() takes one character");
    return Value::Int(CodePoint(value.Text()));
  }
  if (!value.IsIntegral()) Fail(at, fmt::format("{}() takes an int", name));
  int64_t number = value.AsInt();
  if (name == "chr") {
    const bool surrogate = number >= 0xd800 && number <= 0xdfff;
    if (number < 0 || number > 0x10ffff || surrogate)
      Fail(at, "chr() takes the number of a character, up to 0x10ffff");
    std::string character;
    AppendUtf8(character, static_cast<uint32_t>(number));
    return Value::String(std::move(character));
  }
  uint64_t magnitude =
      number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string digits = name == "hex"   ? fmt::format("{:#x}", magnitude)
                       : name == "oct" ? fmt::format("0o{:o}", magnitude)
                                       : fmt::format("{:#b}", magnitude);
  return Value::String((number < 0 ? "-" : "") + digits);
}

Value Evaluator::Builtin(const Ast& at, const std::string& name, Arguments& arguments) {
  auto& given = arguments.positional;
  if (name == "dict" || name == "ConfigDict") return MakeDict(at, arguments);
  if (name == "range") return Range(at, arguments);
  if (name == "round") return Round(at, arguments);
  if (name == "int" || name == "float" || name == "str" || name == "bool")
    return Convert(at, name, arguments);
  if (name == "min" || name == "max") return Extreme(at, name, arguments);
  if (name == "print") return Value::None();
  if (name == "zip") {
    std::vector<std::vector<Value>> columns;
    columns.reserve(given.size());
    for (const Value& value : given) columns.push_back(Iterate(at, value));
    std::vector<Value> rows;
    size_t count = columns.empty() ? 0 : SIZE_MAX;
    for (const auto& column : columns) count = std::min(count, column.size());
    for (size_t i = 0; i < count; ++i) {
      std::vector<Value> row;
      row.reserve(columns.size());
      for (const auto& column : columns) row.push_back(column[i]);
      rows.push_back(arena_.List(std::move(row), Type::kTuple));
    }
    return arena_.List(std::move(rows));
  }
  if (name == "list" || name == "tuple" || name == "set" || name == "frozenset") {
    Need(at, arguments, 0, 1, name);
    std::vector<Value> items = given.empty() ? std::vector<Value>() : Iterate(at, given[0]);
    if (name == "list" || name == "tuple")
      return arena_.List(std::move(items), name == "list" ? Type::kList : Type::kTuple);
    Value set = arena_.Set();
    for (const Value& item : items) SetKey(at, *set.dict, item, Value::None());
    return set;
  }
  if (name == "map" || name == "filter") {
    Need(at, arguments, 2, 2, name);
    std::vector<Value> items;
    for (const Value& item : Iterate(at, given[1])) {
      Step(at);
      Value result = given[0].type == Type::kNone ? item : Invoke(at, given[0], {{item}, {}});
      if (name == "map") {
        items.push_back(std::move(result));
      } else if (Truthy(result)) {
        items.push_back(item);
      }
    }
    return arena_.List(std::move(items));
  }
  if (name == "pow") {
    Need(at, arguments, 2, 2, name);  // without a modulus
    return Binary(at, "**", given[0], given[1]);
  }
  if (name == "divmod") {
    Need(at, arguments, 2, 2, name);
    return arena_.List({Binary(at, "//", given[0], given[1]), Binary(at, "%", given[0], given[1])},
                       Type::kTuple);
  }
  if (name == "hasattr" || name == "getattr" || name == "chr" || name == "ord" || name == "hex" ||
      name == "oct" || name == "bin" || name == "ascii" || name == "format")
    return Text(at, name, arguments);
  if (name == "isinstance") {
    Need(at, arguments, 2, 2, name);
    std::vector<Value> types =
        given[1].type == Type::kTuple ? given[1].list->items : std::vector<Value>{given[1]};
    for (const Value& type : types) {
      if (type.type != Type::kFunction) Fail(at, "isinstance() takes a type");
      const std::string& wanted = type.function->name;
      if (wanted == TypeName(given[0].type) || (wanted == "int" && given[0].type == Type::kBool))
        return Value::Bool(true);
    }
    return Value::Bool(false);
  }
  Need(at, arguments, 1, name == "sum" || name == "enumerate" ? 2 : 1, name);
  const Value& first = given[0];
  if (name == "repr") return Value::String(Repr(first));
  if (name == "callable") return Value::Bool(first.type == Type::kFunction);
  if (name == "type") {
    FunctionObject type;
    type.name = TypeName(first.type);
    return arena_.Function(std::move(type));
  }
  if (name == "len") {
    if (first.type == Type::kString)
      return Value::Int(static_cast<int64_t>(Iterate(at, first).size()));
    if (first.IsSequence()) return Value::Int(static_cast<int64_t>(first.list->items.size()));
    if (first.type == Type::kDict || first.type == Type::kSet)
      return Value::Int(static_cast<int64_t>(first.dict->pairs.size()));
    Fail(at, fmt::format("{} has no length", WithArticle(first.type)));
  }
  if (name == "abs") {
    if (!first.IsNumber()) Fail(at, "abs() takes a number");
    if (first.type == Type::kFloat) return Value::Float(std::abs(first.number));
    return first.AsInt() < 0 ? Unary(at, "-", first) : Value::Int(first.AsInt());
  }
  std::vector<Value> items = Iterate(at, first);
  if (name == "any" || name == "all") {
    bool any = std::any_of(items.begin(), items.end(), Truthy);
    bool all = std::all_of(items.begin(), items.end(), Truthy);
    return Value::Bool(name == "any" ? any : all);
  }
  if (name == "sum") {
    Value total = given.size() == 2 ? given[1] : Value::Int(0);
    for (const auto& [word, value] : arguments.keywords) {
      if (word == "start") total = value;
    }
    for (const Value& item : items) total = Binary(at, "+", total, item);
    return total;
  }
  if (name == "sorted") return Sorted(at, std::move(items), arguments);
  if (name == "reversed") {
    std::reverse(items.begin(), items.end());
    return arena_.List(std::move(items));
  }
  if (name == "enumerate") {
    int64_t start = given.size() == 2 ? given[1].AsInt() : 0;
    for (const auto& [word, value] : arguments.keywords) {
      if (word == "start" && value.IsIntegral()) start = value.AsInt();
    }
    std::vector<Value> pairs;
    for (size_t i = 0; i < items.size(); ++i) {
      Value index = Integers(at, "+", start, static_cast<int64_t>(i));
      pairs.push_back(arena_.List({index, items[i]}, Type::kTuple));
    }
    return arena_.List(std::move(pairs));
  }
  Fail(at, fmt::format("`{}()` can't be used in a config", name));
}

}  // namespace xp::config::python
