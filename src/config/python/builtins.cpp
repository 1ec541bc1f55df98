// The builtins of numbers and types, and the table of all.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

constexpr int64_t kMaxRange = 1'000'000;

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

const Evaluator::BuiltinFunction* Evaluator::FindBuiltin(const std::string& name) {
  static const std::unordered_map<std::string_view, BuiltinFunction> table{
      {"abs", &Evaluator::Calculate},
      {"all", &Evaluator::AnyAll},
      {"any", &Evaluator::AnyAll},
      {"ascii", &Evaluator::Text},
      {"bin", &Evaluator::Text},
      {"bool", &Evaluator::Convert},
      {"callable", &Evaluator::Kind},
      {"chr", &Evaluator::Text},
      {"ConfigDict", &Evaluator::MakeDict},
      {"dict", &Evaluator::MakeDict},
      {"divmod", &Evaluator::Calculate},
      {"enumerate", &Evaluator::Enumerate},
      {"filter", &Evaluator::MapFilter},
      {"float", &Evaluator::Convert},
      {"format", &Evaluator::Text},
      {"frozenset", &Evaluator::Collect},
      {"getattr", &Evaluator::Attributes},
      {"hasattr", &Evaluator::Attributes},
      {"hex", &Evaluator::Text},
      {"int", &Evaluator::Convert},
      {"isinstance", &Evaluator::IsInstance},
      {"len", &Evaluator::Length},
      {"list", &Evaluator::Collect},
      {"map", &Evaluator::MapFilter},
      {"max", &Evaluator::Extreme},
      {"min", &Evaluator::Extreme},
      {"oct", &Evaluator::Text},
      {"ord", &Evaluator::Text},
      {"pow", &Evaluator::Calculate},
      {"print", &Evaluator::Print},
      {"range", &Evaluator::Range},
      {"repr", &Evaluator::Text},
      {"reversed", &Evaluator::Reversed},
      {"round", &Evaluator::Round},
      {"set", &Evaluator::Collect},
      {"sorted", &Evaluator::Sorted},
      {"str", &Evaluator::Convert},
      {"sum", &Evaluator::Sum},
      {"tuple", &Evaluator::Collect},
      {"type", &Evaluator::Kind},
      {"zip", &Evaluator::Zip},
  };
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

bool Evaluator::IsBuiltin(const std::string& name) {
  return name != "ConfigDict" && FindBuiltin(name) != nullptr;  // which is imported
}

Value Evaluator::Builtin(const Ast& at, const std::string& name, Arguments& arguments) {
  const BuiltinFunction* function = FindBuiltin(name);
  if (function == nullptr) Fail(at, fmt::format("`{}()` can't be used in a config", name));
  return (this->**function)(at, name, arguments);
}

Value Evaluator::Range(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 3, name);
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

Value Evaluator::Round(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 2, name);
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
  if (type == "str") return Value::String(Converted(at, value, "s"));
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
      Fail(at, fmt::format("int() can't read {}", Shown(value)));
    return Value::Int(number);
  }
  double number = 0;
  auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error == std::errc::invalid_argument || stop != end)
    Fail(at, fmt::format("float() can't read {}", Shown(value)));
  if (error == std::errc::result_out_of_range) number = std::strtod(digits.c_str(), nullptr);
  return Value::Float(number);
}

// abs, divmod, pow
Value Evaluator::Calculate(const Ast& at, const std::string& name, Arguments& arguments) {
  const size_t operands = name == "abs" ? 1 : 2;
  Need(at, arguments, operands, operands, name);  // pow without a modulus
  const auto& given = arguments.positional;
  if (name == "pow") return Binary(at, "**", given[0], given[1]);
  if (name == "divmod") {
    return arena_.List({Binary(at, "//", given[0], given[1]), Binary(at, "%", given[0], given[1])},
                       Type::kTuple);
  }
  const Value& value = given[0];
  if (!value.IsNumber()) Fail(at, "abs() takes a number");
  if (value.type == Type::kFloat) return Value::Float(std::abs(value.number));
  return value.AsInt() < 0 ? Unary(at, "-", value) : Value::Int(value.AsInt());
}

Value Evaluator::IsInstance(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 2, 2, name);
  const auto& given = arguments.positional;
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

// type, callable
Value Evaluator::Kind(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  const Value& value = arguments.positional[0];
  if (name == "callable") return Value::Bool(value.type == Type::kFunction);
  FunctionObject type;
  type.name = TypeName(value.type);
  return arena_.Function(std::move(type));
}

// hasattr, getattr
Value Evaluator::Attributes(const Ast& at, const std::string& name, Arguments& arguments) {
  auto& given = arguments.positional;
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

// Says nothing: a config that prints is read all the same.
Value Evaluator::Print(const Ast&, const std::string&, Arguments&) { return Value::None(); }

}  // namespace xp::config::python
