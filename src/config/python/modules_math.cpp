// Python's math module.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "src/config/python/evaluator.h"
#include "src/config/python/numbers.h"

namespace xp::config::python {
namespace {

constexpr double kPi = 3.141592653589793;

using OfOne = double (*)(double);

// The functions from one number to a float.
OfOne FunctionOfOne(const std::string& name) {
  static const std::unordered_map<std::string_view, OfOne> table{
      {"math.sqrt", std::sqrt},
      {"math.log2", std::log2},
      {"math.log10", std::log10},
      {"math.log1p", std::log1p},
      {"math.exp", std::exp},
      {"math.sin", std::sin},
      {"math.cos", std::cos},
      {"math.tan", std::tan},
      {"math.atan", std::atan},
      {"math.fabs", std::fabs},
      {"math.radians", [](double x) { return x * (kPi / 180); }},
      {"math.degrees", [](double x) { return x * (180 / kPi); }},
  };
  auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

// Adds a to *sum, of which a is the smaller; what is lost goes to *rest.
void AddExactly(double a, double* sum, double* rest) {
  const double total = *sum + a;
  *rest += a - (total - *sum);
  *sum = total;
}

// CPython's vector_norm, bit for bit: the parts scaled, their squares summed without loss, the root
// corrected by what it misses.
double Hypot(const std::vector<double>& parts) {
  double largest = 0;
  bool nan = false;
  for (double part : parts) {
    if (std::isinf(part)) return HUGE_VAL;
    nan = nan || std::isnan(part);
    largest = std::max(largest, std::abs(part));
  }
  if (nan) return std::nan("");
  if (largest == 0 || parts.size() == 1) return largest;
  int exponent = 0;
  std::frexp(largest, &exponent);
  if (exponent < -1023) {  // the scale would overflow
    constexpr double kSmallest = 0x1p-1022;
    std::vector<double> scaled;
    scaled.reserve(parts.size());
    for (double part : parts) scaled.push_back(part / kSmallest);
    return kSmallest * Hypot(scaled);
  }
  const double scale = std::ldexp(1.0, -exponent);
  double sum = 1, products = 0, sums = 0;  // and what rounding left of both
  for (double part : parts) {
    const double x = part * scale;
    const double square = x * x;
    products += std::fma(x, x, -square);
    AddExactly(square, &sum, &sums);
  }
  const double root = std::sqrt(sum - 1 + (products + sums));
  const double square = -root * root;
  products += std::fma(-root, root, -square);
  AddExactly(square, &sum, &sums);
  return (root + (sum - 1 + (products + sums)) / (2 * root)) / scale;
}

}  // namespace

// prod, gcd, factorial: by Python's own operators.
Value Evaluator::MathOfInts(const Ast& at, const std::string& name, Arguments& arguments) {
  if (name == "math.prod") {
    Value product = Keyword(arguments, "start").value_or(Value::Int(1));
    Need(at, arguments, 1, 1, name);
    for (const Value& item : Iterate(at, arguments.positional[0]))
      product = Binary(at, "*", product, item);
    return product;
  }
  const bool gcd = name == "math.gcd";
  Need(at, arguments, gcd ? 0 : 1, gcd ? SIZE_MAX : 1, name);
  const auto& given = arguments.positional;
  for (const Value& value : given) {
    if (!value.IsIntegral()) Fail(at, fmt::format("{}() takes ints", name));
  }
  if (gcd) {
    uint64_t common = 0;
    for (const Value& value : given) common = std::gcd(common, Magnitude(value));
    if (common > INT64_MAX) Fail(at, "the result doesn't fit into 64 bits");
    return Value::Int(static_cast<int64_t>(common));
  }
  if (given[0].AsInt() < 0) Fail(at, "math.factorial() takes an int of 0 or more");
  Value product = Value::Int(1);
  for (int64_t i = 2; i <= given[0].AsInt(); ++i) product = Binary(at, "*", product, Value::Int(i));
  return product;
}

bool Evaluator::IsClose(const Ast& at, Arguments& arguments) {
  const Value relative = Keyword(arguments, "rel_tol").value_or(Value::Float(1e-9));
  const Value absolute = Keyword(arguments, "abs_tol").value_or(Value::Float(0));
  Need(at, arguments, 2, 2, "math.isclose");
  const auto& given = arguments.positional;
  if (!given[0].IsReal() || !given[1].IsReal() || !relative.IsReal() || !absolute.IsReal())
    Fail(at, "math.isclose() takes numbers");
  const double a = ToDouble(given[0]), b = ToDouble(given[1]);
  const double rel = ToDouble(relative), abs = ToDouble(absolute);
  if (rel < 0 || abs < 0) Fail(at, "math.isclose()'s tolerances are 0 or more");
  if (a == b) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  const double apart = std::fabs(b - a);
  return apart <= std::fabs(rel * b) || apart <= std::fabs(rel * a) || apart <= abs;
}

Value Evaluator::Mathematics(const Ast& at, const std::string& name, Arguments& arguments) {
  if (name == "math.prod" || name == "math.gcd" || name == "math.factorial")
    return MathOfInts(at, name, arguments);
  if (name == "math.isclose") return Value::Bool(IsClose(at, arguments));
  const bool two = name == "math.pow" || name == "math.atan2";
  const bool any = name == "math.hypot";
  const bool log = name == "math.log";
  Need(at, arguments, any ? 0 : two ? 2 : 1, any ? SIZE_MAX : two || log ? 2 : 1, name);
  const auto& given = arguments.positional;
  std::vector<double> x;
  for (const Value& value : given) {
    if (!value.IsReal())
      Fail(at, fmt::format("{}() takes numbers, this is {}", name, WithArticle(value.type)));
    x.push_back(ToDouble(value));
  }
  const bool finite =
      std::all_of(x.begin(), x.end(), [](double one) { return std::isfinite(one); });
  const bool nan = std::any_of(x.begin(), x.end(), [](double one) { return std::isnan(one); });
  if (name == "math.ceil" || name == "math.floor" || name == "math.trunc") {
    if (given[0].type != Type::kFloat)
      return given[0].type == Type::kBool ? Value::Int(given[0].AsInt()) : given[0];
    return WholeNumber(at, name == "math.ceil"    ? std::ceil(x[0])
                           : name == "math.floor" ? std::floor(x[0])
                                                  : std::trunc(x[0]));
  }
  if (name == "math.isnan") return Value::Bool(nan);
  if (name == "math.isinf") return Value::Bool(std::isinf(x[0]));
  double result = 0;
  if (const OfOne function = FunctionOfOne(name)) {
    result = function(x[0]);
  } else if (any) {
    result = Hypot(x);
  } else if (two) {
    result = name == "math.pow" ? std::pow(x[0], x[1]) : std::atan2(x[0], x[1]);
  } else {  // log
    if (x[0] <= 0 || (x.size() == 2 && (x[1] <= 0 || x[1] == 1)))
      Fail(at, "math.log() isn't defined there");
    result = x.size() == 2 ? std::log(x[0]) / std::log(x[1]) : std::log(x[0]);
  }
  // As CPython's rule: no infinity comes of what is finite, no NaN of what is none.
  if ((std::isinf(result) && finite) || (std::isnan(result) && !nan))
    Fail(at, fmt::format("{}() isn't defined there, or its result is too large", name));
  return Value::Float(result);
}

}  // namespace xp::config::python
