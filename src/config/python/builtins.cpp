// The builtins of numbers and types, and the table of all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "src/config/python/evaluator.h"
#include "src/config/python/numbers.h"

namespace xp::config::python {
namespace {

constexpr int64_t kMaxRange = 1'000'000;

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
      {"filter", &Evaluator::Filter},
      {"float", &Evaluator::Convert},
      {"format", &Evaluator::Text},
      {"getattr", &Evaluator::Attributes},
      {"hasattr", &Evaluator::Attributes},
      {"hex", &Evaluator::Text},
      {"int", &Evaluator::Convert},
      {"isinstance", &Evaluator::IsInstance},
      {"len", &Evaluator::Length},
      {"list", &Evaluator::Collect},
      {"map", &Evaluator::Map},
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
  return arena_.List(std::move(items), Type::kRange);
}

Value Evaluator::Round(const Ast& at, const std::string& name, Arguments& arguments) {
  PutKeyword(arguments, "ndigits", 1);
  Need(at, arguments, 1, 2, name);
  const auto& given = arguments.positional;
  const Value& value = given[0];
  if (!value.IsNumber())
    Fail(at, fmt::format("round() takes a number, this is {}", WithArticle(value.type)));
  if (given.size() == 1 || given[1].type == Type::kNone) {
    if (value.IsIntegral()) return Value::Int(value.AsInt());
    return WholeNumber(at, std::nearbyint(value.number));  // half to even
  }
  if (!given[1].IsIntegral()) Fail(at, "round()'s digits are an int");
  const int64_t digits = given[1].AsInt();
  if (value.type == Type::kFloat) return Value::Float(RoundFloat(value.number, digits));
  if (digits >= 0) return Value::Int(value.AsInt());
  const std::optional<int64_t> rounded = RoundInt(value.AsInt(), digits);
  if (!rounded) Fail(at, "the result doesn't fit into 64 bits");
  return Value::Int(*rounded);
}

// bool, float, int, str
Value Evaluator::Convert(const Ast& at, const std::string& type, Arguments& arguments) {
  if (type == "int") PutKeyword(arguments, "base", 1);
  Need(at, arguments, 0, type == "int" ? 2 : 1, type);
  const auto& given = arguments.positional;
  if (given.empty()) {
    return type == "int"     ? Value::Int(0)
           : type == "float" ? Value::Float(0)
           : type == "bool"  ? Value::Bool(false)
                             : Value::String("");
  }
  const Value& value = given[0];
  if (type == "bool") return Value::Bool(Truthy(value));
  if (type == "str") return Value::String(Converted(at, value, "s"));
  if (given.size() == 2 && value.type != Type::kString)
    Fail(at, fmt::format("int() with a base takes a string, this is {}", WithArticle(value.type)));
  if (value.IsReal()) {
    if (type == "float") return Value::Float(ToDouble(value));
    if (value.type == Type::kBig) return value;
    if (value.IsIntegral()) return Value::Int(value.AsInt());
    return WholeNumber(at, std::trunc(value.number));
  }
  if (value.type != Type::kString)
    Fail(at, fmt::format("{}() can't take {}", type, WithArticle(value.type)));
  if (type == "float") {
    const std::optional<double> number = ReadFloat(value.Text());
    if (!number) Fail(at, fmt::format("float() can't read {}", Shown(value)));
    return Value::Float(*number);
  }
  const bool fits = given.size() == 1 ||
                    (given[1].IsIntegral() &&
                     (given[1].AsInt() == 0 || (given[1].AsInt() >= 2 && given[1].AsInt() <= 36)));
  if (!fits) Fail(at, "int()'s base is 0 or from 2 to 36");
  const int base = given.size() == 1 ? 10 : static_cast<int>(given[1].AsInt());
  const std::optional<Value> number = ReadInt(value.Text(), base);
  if (!number) Fail(at, fmt::format("int() can't read {} in base {}", Shown(value), base));
  return *number;
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

namespace {

// The name of a value's class; "" where it is none that a config can ask for.
std::string ClassName(const Value& value) {
  switch (value.type) {
    case Type::kNone:
      return "NoneType";
    case Type::kFunction:
    case Type::kLazy:
    case Type::kModule:
    case Type::kIterator:
      return "";
    case Type::kDict:
      return value.dict->config ? "ConfigDict" : value.dict->ordered ? "OrderedDict" : "dict";
    default:
      return TypeName(value.type);
  }
}

// Whether an attribute that a config can't use isn't there in Python either.
bool KnowsAttributes(const Value& object, const std::string& attribute) {
  // What values have beside the methods that configs can call, of all types.
  static constexpr std::string_view kOthers[] = {"as_integer_ratio",
                                                 "bit_count",
                                                 "bit_length",
                                                 "conjugate",
                                                 "deepcopy",
                                                 "denominator",
                                                 "difference_update",
                                                 "encode",
                                                 "expandtabs",
                                                 "freeze",
                                                 "from_bytes",
                                                 "fromhex",
                                                 "fromkeys",
                                                 "hex",
                                                 "imag",
                                                 "intersection_update",
                                                 "is_integer",
                                                 "isascii",
                                                 "isdisjoint",
                                                 "isprintable",
                                                 "issubset",
                                                 "issuperset",
                                                 "istitle",
                                                 "maketrans",
                                                 "mapping",
                                                 "move_to_end",
                                                 "numerator",
                                                 "real",
                                                 "start",
                                                 "step",
                                                 "stop",
                                                 "symmetric_difference",
                                                 "symmetric_difference_update",
                                                 "to_bytes",
                                                 "translate",
                                                 "unfreeze",
                                                 "build_lazy",
                                                 "pop",
                                                 "count",
                                                 "index",
                                                 "lazy"};
  const bool plain = object.type != Type::kFunction && object.type != Type::kLazy &&
                     object.type != Type::kModule && object.type != Type::kIterator;
  return plain && !attribute.starts_with("_") &&
         std::find(std::begin(kOthers), std::end(kOthers), attribute) == std::end(kOthers);
}

}  // namespace

Value Evaluator::IsInstance(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 2, 2, name);
  const auto& given = arguments.positional;
  const std::string is = ClassName(given[0]);
  std::vector<Value> types{given[1]};
  while (!types.empty()) {
    Step(at);
    const Value type = types.back();
    types.pop_back();
    if (type.type == Type::kTuple) {
      types.insert(types.end(), type.list->items.begin(), type.list->items.end());
      continue;
    }
    if (type.type != Type::kFunction) Fail(at, "isinstance() takes a type, or a tuple of types");
    if (is.empty()) {
      Fail(at,
           fmt::format("what class {} is can't be asked in a config", WithArticle(given[0].type)));
    }
    const std::string& wanted = type.function->name;
    const bool derived =
        (wanted == "int" && is == "bool") || (wanted == "dict" && given[0].type == Type::kDict);
    if (wanted == is || wanted == "collections." + is || derived) return Value::Bool(true);
  }
  return Value::Bool(false);
}

// type, callable
Value Evaluator::Kind(const Ast& at, const std::string& name, Arguments& arguments) {
  Need(at, arguments, 1, 1, name);
  const Value& value = arguments.positional[0];
  if (name == "callable")
    return Value::Bool(value.type == Type::kFunction || value.type == Type::kLazy);
  const std::string type = ClassName(value);
  if (type.empty())
    Fail(at, fmt::format("the type of {} can't be used in a config", WithArticle(value.type)));
  return NamedFunction(type);
}

// hasattr, getattr
Value Evaluator::Attributes(const Ast& at, const std::string& name, Arguments& arguments) {
  const auto& given = arguments.positional;
  Need(at, arguments, 2, name == "getattr" ? 3 : 2, name);
  if (given[1].type != Type::kString) Fail(at, fmt::format("{}() takes a name", name));
  const std::string& attribute = given[1].Text();
  const Value& object = given[0];
  const bool config = object.type == Type::kDict && object.dict->config;
  const bool has =
      HasMethod(object, attribute) || (config && object.dict->Find("s" + attribute) != nullptr) ||
      (object.type == Type::kModule && IsModuleMember(object.Text() + "." + attribute));
  if (!has && (name == "hasattr" || given.size() == 3) && !KnowsAttributes(object, attribute)) {
    Fail(at, fmt::format("whether {} has `{}` can't be asked in a config", WithArticle(object.type),
                         attribute));
  }
  if (name == "hasattr") return Value::Bool(has);
  return !has && given.size() == 3 ? given[2] : Attribute(at, object, attribute);
}

// Says nothing: a config that prints is read all the same.
Value Evaluator::Print(const Ast&, const std::string&, Arguments&) { return Value::None(); }

}  // namespace xp::config::python
