#include <fmt/format.h>

#include <cmath>

#include "src/config/python/evaluator.h"
#include "src/config/python/numbers.h"

namespace xp::config::python {
namespace {

constexpr size_t kMaxString = 16 << 20;

}  // namespace

Value Evaluator::WholeNumber(const Ast& at, double value) const {
  if (!(value >= -0x1p63 && value < 0x1p63))
    Fail(at, std::isfinite(value) ? "the result doesn't fit into 64 bits"
                                  : fmt::format("{} can't become an int", FloatRepr(value)));
  return Value::Int(static_cast<int64_t>(value));
}

Value Evaluator::Unary(const Ast& at, const std::string& op, const Value& operand) {
  if (op == "not") return Value::Bool(!Truthy(operand));
  if (operand.type == Type::kBig) {
    if (op == "+") return operand;
    if (op == "-" && operand.Text() == "9223372036854775808") return Value::Int(INT64_MIN);
    Fail(at, "the result doesn't fit into 64 bits");
  }
  if (operand.IsIntegral()) {
    int64_t value = operand.AsInt();
    if (op == "+") return Value::Int(value);
    if (op == "~") return Value::Int(~value);
    if (value == INT64_MIN) Fail(at, "the result doesn't fit into 64 bits");
    return Value::Int(-value);
  }
  if (operand.type == Type::kFloat && op != "~")
    return Value::Float(op == "-" ? -operand.number : operand.number);
  Fail(at, fmt::format("`{}` can't be applied to {}", op, WithArticle(operand.type)));
}

Value Evaluator::Integers(const Ast& at, const std::string& op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &out);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &out);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &out);
  } else if (op == "/") {
    if (b == 0) Fail(at, "division by zero");
    return Value::Float(DivideInts(a, b));
  } else if (op == "//" || op == "%") {
    if (b == 0) Fail(at, "division by zero");
    if (b == -1) {
      overflow = op == "//" && a == INT64_MIN;
      out = op == "%" || overflow ? 0 : -a;
    } else {
      int64_t quotient = a / b;
      int64_t rest = a % b;
      if (rest != 0 && ((rest < 0) != (b < 0))) {  // Python rounds down
        --quotient;
        rest += b;
      }
      out = op == "//" ? quotient : rest;
    }
  } else if (op == "**") {
    if (b < 0) return Floats(at, op, static_cast<double>(a), static_cast<double>(b));
    if (b > 64 && (a > 1 || a < -1)) Fail(at, "the result doesn't fit into 64 bits");
    out = 1;
    int64_t count = b > 64 ? 64 + b % 2 : b;  // 0, 1 and -1 repeat
    for (int64_t i = 0; i < count && !overflow; ++i)
      overflow = __builtin_mul_overflow(out, a, &out);
  } else if (op == "<<" || op == ">>") {
    if (b < 0) Fail(at, "a negative shift");
    if (op == ">>") return Value::Int(b > 63 ? (a < 0 ? -1 : 0) : a >> b);
    overflow = a != 0 && (b > 62 || __builtin_mul_overflow(a, int64_t{1} << b, &out));
  } else if (op == "&") {
    out = a & b;
  } else if (op == "|") {
    out = a | b;
  } else if (op == "^") {
    out = a ^ b;
  } else {
    Fail(at, fmt::format("`{}` can't be used in a config", op));
  }
  if (overflow) Fail(at, "the result doesn't fit into 64 bits");
  return Value::Int(out);
}

Value Evaluator::Floats(const Ast& at, const std::string& op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") {
    if (a == 0 && b < 0) Fail(at, "division by zero");
    if (a < 0 && b != std::floor(b)) Fail(at, "the result is complex");
    const double power = std::pow(a, b);
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b))
      Fail(at, "the result is too large for a float");
    return Value::Float(power);
  }
  if (op != "/" && op != "//" && op != "%")
    Fail(at, fmt::format("`{}` can't be applied to floats", op));
  if (b == 0) Fail(at, "division by zero");
  if (op == "/") return Value::Float(a / b);
  double rest = std::fmod(a, b);  // as CPython's float_divmod
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (op == "%") return Value::Float(rest);
  if (quotient == 0) return Value::Float(std::copysign(0.0, a / b));
  double floor = std::floor(quotient);
  return Value::Float(quotient - floor > 0.5 ? floor + 1 : floor);
}

Value Evaluator::Repeat(const Ast& at, const Value& value, int64_t count) {
  size_t times = static_cast<size_t>(std::max<int64_t>(count, 0));
  size_t size = value.type == Type::kString ? value.Text().size() : value.list->items.size();
  size_t unit = value.type == Type::kString ? 1 : sizeof(Value);
  if (size == 0) times = 0;
  if (size > 0 && times > kMaxString / size) Fail(at, "the repeated value is too long");
  Charge(at, size * times * unit);
  if (value.type == Type::kString) {
    std::string text;
    for (size_t i = 0; i < times; ++i) text += value.Text();
    return Value::String(std::move(text));
  }
  std::vector<Value> items;
  items.reserve(size * times);
  for (size_t i = 0; i < times; ++i)
    items.insert(items.end(), value.list->items.begin(), value.list->items.end());
  return ListLike(value, std::move(items));
}

Value Evaluator::Sets(const Ast& at, const std::string& op, const Value& left, const Value& right) {
  Look(at, left);
  Look(at, right);
  Value out = arena_.Set();
  if (op == "|") {
    AddAll(at, out, left);
    AddAll(at, out, right);
    return out;
  }
  for (const DictObject::Pair& pair : left.dict->pairs) {
    bool both = right.dict->Find(pair.id) != nullptr;
    if (both == (op == "&")) SetKey(at, *out.dict, pair.key, Value::None());
  }
  if (op != "^") return out;
  for (const DictObject::Pair& pair : right.dict->pairs) {
    if (left.dict->Find(pair.id) == nullptr) SetKey(at, *out.dict, pair.key, Value::None());
  }
  return out;
}

Value Evaluator::Binary(const Ast& at, const std::string& op, const Value& left,
                        const Value& right) {
  if (left.IsNumber() && right.IsNumber()) {
    bool bools = left.type == Type::kBool && right.type == Type::kBool;
    if (bools && (op == "&" || op == "|" || op == "^")) {
      return Value::Bool(Integers(at, op, left.AsInt(), right.AsInt()).integer != 0);
    }
    return left.IsIntegral() && right.IsIntegral()
               ? Integers(at, op, left.AsInt(), right.AsInt())
               : Floats(at, op, left.AsDouble(), right.AsDouble());
  }
  if (op == "%" && left.type == Type::kString)
    return Value::String(Percent(at, left.Text(), right));
  if (op == "+" && left.type == right.type) {
    if (left.type == Type::kString) {
      Charge(at, left.Text().size() + right.Text().size());
      return Value::String(left.Text() + right.Text());
    }
    if (left.IsSequence()) {
      std::vector<Value> items = left.list->items;
      items.insert(items.end(), right.list->items.begin(), right.list->items.end());
      Charge(at, items.size() * sizeof(Value));
      Value list = ListLike(left, std::move(items));
      list.list->unordered = left.list->unordered || right.list->unordered;
      return list;
    }
  }
  if (op == "*") {
    bool left_repeats = left.IsSequence() || left.type == Type::kString;
    bool right_repeats = right.IsSequence() || right.type == Type::kString;
    if (left_repeats && right.IsIntegral()) return Repeat(at, left, right.AsInt());
    if (right_repeats && left.IsIntegral()) return Repeat(at, right, left.AsInt());
  }
  if (op == "|" && left.type == Type::kDict && right.type == Type::kDict)
    return Merged(at, left, right);
  auto set = [](const Value& value) {
    return value.type == Type::kSet || value.type == Type::kKeys;
  };
  if (set(left) && set(right) && (op == "|" || op == "&" || op == "-" || op == "^"))
    return Sets(at, op, left, right);
  if ((left.type == Type::kBig || left.IsNumber()) &&
      (right.type == Type::kBig || right.IsNumber()))
    Fail(at, "the result doesn't fit into 64 bits",
         "ints of 2^63 and more can't be calculated with");
  Fail(at, fmt::format("`{}` can't be applied to {} and {}", op, WithArticle(left.type),
                       WithArticle(right.type)));
}

}  // namespace xp::config::python
