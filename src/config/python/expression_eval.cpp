#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "src/config/python/evaluator.h"

namespace xp::config::python {
void Evaluator::Fail(const Ast& at, const std::string& what, const std::string& next) const {
  // Reprs in it may be long.
  constexpr size_t kMost = 400;
  throw UsageError(
      {.what = Abridged(what, kMost), .where = At(at).Text(), .expected = "", .next = next});
}

void Evaluator::Step(const Ast& at) {
  if (--budget_.steps < 0) Fail(at, "the config takes more than five million steps to evaluate");
  Charge(at, 0);  // what the arena took
}

void Evaluator::Charge(const Ast& at, size_t bytes) {
  budget_.bytes -= static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX / 4));
  if (budget_.bytes < 0) Fail(at, "the config takes more than 256 MiB to evaluate");
}

void Evaluator::Look(const Ast& at, const Value& whole) { Look(at, Weight(whole)); }

void Evaluator::Look(const Ast& at, size_t count) {
  budget_.looked -= static_cast<int64_t>(std::min<size_t>(count, INT64_MAX / 4));
  if (budget_.looked < 0) Fail(at, "the config takes too long to evaluate");
}

void Evaluator::LookFor(const Ast& at, std::string_view what, std::string_view text) {
  constexpr size_t kShort = 256, kAtOnce = 64;  // bytes that are compared in about one step
  const bool brief = what.size() + text.size() <= kShort;
  Look(at, brief ? 1 : (text.size() + 1) * (what.size() / kAtOnce + 1));
}

Value Evaluator::Place(Value value, const Ast& ast) const {
  value.origin = At(ast);
  value.history = nullptr;
  return value;
}

Value Evaluator::Eval(const Ast& ast) {
  Step(ast);
  DepthGuard guard(*this, ast);
  switch (ast.kind) {
    case AstKind::kNone:
      return Place(Value::None(), ast);
    case AstKind::kTrue:
    case AstKind::kFalse:
      return Place(Value::Bool(ast.kind == AstKind::kTrue), ast);
    case AstKind::kInt:
      return Place(ast.text.empty() ? Value::Int(ast.integer) : Value::Big(ast.text), ast);
    case AstKind::kFloat:
      return Place(Value::Float(ast.number), ast);
    case AstKind::kString:
      Charge(ast, ast.text.size() + sizeof(Value));
      return Place(Value::String(ast.text), ast);
    case AstKind::kFString:
      return Place(EvalFString(ast), ast);
    case AstKind::kEllipsis: {
      Value value;
      value.type = Type::kEllipsis;
      return Place(std::move(value), ast);
    }
    case AstKind::kPlaceholder:
      return EvalPlaceholder(ast);
    case AstKind::kName:
    case AstKind::kAttribute:
    case AstKind::kSubscript: {
      std::string path = ChainPath(ast);
      Value value = EvalChain(ast);
      if (!path.empty()) return Place(Derived(std::move(value), path), ast);
      // Can't be a config's value, which the message then says with this place.
      if (value.type == Type::kFunction || value.type == Type::kModule) value.origin = At(ast);
      return value;
    }
    case AstKind::kTuple:
    case AstKind::kList:
    case AstKind::kSet:
      return Place(EvalDisplay(ast), ast);
    case AstKind::kDict:
      return Place(EvalDict(ast), ast);
    case AstKind::kUnary: {
      Value operand = Eval(*ast.kids[0]);
      Value value = Place(Unary(ast, ast.text, operand), ast);
      value.from = operand.from;
      return value;
    }
    case AstKind::kBinary: {
      Value left = Eval(*ast.kids[0]);
      Value right = Eval(*ast.kids[1]);
      Value value = Place(Binary(ast, ast.text, left, right), ast);
      value.from = Join(left.from, right.from);
      return value;
    }
    case AstKind::kBool: {
      Value left = Eval(*ast.kids[0]);
      return Truthy(left) == (ast.text == "and") ? Eval(*ast.kids[1]) : left;
    }
    case AstKind::kCompare:
      return Place(EvalCompare(ast), ast);
    case AstKind::kConditional: {
      Value condition = Eval(*ast.kids[0]);
      Value value = Eval(*ast.kids[Truthy(condition) ? 1 : 2]);
      value.from = Join(value.from, condition.from);
      return value;
    }
    case AstKind::kCall:
      return Call(ast);
    case AstKind::kListComp:
    case AstKind::kSetComp:
    case AstKind::kDictComp:
    case AstKind::kGenerator:
      return Place(EvalComprehension(ast), ast);
    case AstKind::kLambda:
      return EvalFunction(ast);
    case AstKind::kWalrus: {
      Value value = Eval(*ast.kids[0]);
      BindOutsideComprehension(ast.text, value);
      return value;
    }
    case AstKind::kStarred:
      Fail(ast, "`*` stands where it can't unpack anything");
    default:
      Fail(ast, "this can't stand in an expression");
  }
}

// A lambda or a `def`: the scopes that it stands in are shared, not copied.
Value Evaluator::EvalFunction(const Ast& ast) {
  FunctionObject function;
  function.name = ast.text.empty() ? "<lambda>" : ast.text;
  function.code = &ast;
  function.globals = globals_.dict;
  function.source = source_;
  for (size_t i = 1; i < ast.kids.size(); ++i)
    function.defaults.push_back(ast.kids[i] == nullptr ? Value::None() : Eval(*ast.kids[i]));
  function.captured.assign(scopes_.begin() + static_cast<long>(visible_from_), scopes_.end());
  return Place(arena_.Function(std::move(function)), ast);
}

Value Evaluator::EvalDisplay(const Ast& ast) {
  std::vector<Value> items;
  for (const AstPtr& kid : ast.kids) {
    if (kid->kind == AstKind::kStarred) {
      const Value whole = Eval(*kid->kids[0]);
      for (Value& item : ast.kind == AstKind::kSet ? Members(*kid, whole) : Iterate(*kid, whole))
        items.push_back(std::move(item));
    } else {
      items.push_back(Eval(*kid));
    }
    Charge(ast, sizeof(Value));
  }
  if (ast.kind != AstKind::kSet) {
    return arena_.List(std::move(items), ast.kind == AstKind::kList ? Type::kList : Type::kTuple);
  }
  Value set = arena_.Set();
  for (const Value& item : items) SetKey(ast, *set.dict, item, Value::None());
  return set;
}

Value Evaluator::EvalDict(const Ast& ast) {
  Value dict = arena_.Dict();
  for (size_t i = 0; i + 1 < ast.kids.size(); i += 2) {
    if (ast.kids[i] == nullptr) {
      Value from = Eval(*ast.kids[i + 1]);
      if (from.type != Type::kDict)
        Fail(*ast.kids[i + 1],
             fmt::format("`**` needs a dict, this is {}", WithArticle(from.type)));
      UpdateDict(ast, *dict.dict, from, false);
    } else {
      Value key = Eval(*ast.kids[i]);
      SetKey(*ast.kids[i], *dict.dict, key, Eval(*ast.kids[i + 1]));
    }
  }
  return dict;
}

void Evaluator::Clause(const Ast& ast, size_t clause, bool* unordered,
                       const std::function<void()>& body) {
  if (clause == ast.kids.size()) return body();
  const Ast& loop = *ast.kids[clause];
  DepthGuard guard(*this, loop);
  const Value whole = Eval(*loop.kids[1]);
  *unordered = *unordered || NoOrder(whole);
  if (ast.kind == AstKind::kDictComp) RequireOrder(*loop.kids[1], whole);
  Cursor cursor = Begin(*loop.kids[1], whole);
  for (Value item; Next(*loop.kids[1], cursor, &item);) {
    Step(loop);
    Assign(*loop.kids[0], std::move(item));
    bool passes = true;
    for (size_t i = 2; i < loop.kids.size() && passes; ++i) passes = Truthy(Eval(*loop.kids[i]));
    if (passes) Clause(ast, clause + 1, unordered, body);
  }
}

Value Evaluator::EvalComprehension(const Ast& ast) {
  bool dict = ast.kind == AstKind::kDictComp;
  Value result = dict                              ? arena_.Dict()
                 : ast.kind == AstKind::kSetComp   ? arena_.Set()
                 : ast.kind == AstKind::kGenerator ? Iterator({})
                                                   : arena_.List();
  bool unordered = false;
  scopes_.push_back(std::make_shared<Scope>());
  scopes_.back()->comprehension = true;
  try {
    Clause(ast, dict ? 2 : 1, &unordered, [&] {
      Charge(ast, sizeof(Value));
      Value first = Eval(*ast.kids[0]);
      if (dict) {
        SetKey(ast, *result.dict, first, Eval(*ast.kids[1]));
      } else if (result.type == Type::kSet) {
        SetKey(ast, *result.dict, first, Value::None());
      } else {
        result.list->items.push_back(std::move(first));
      }
    });
  } catch (...) {
    scopes_.pop_back();
    throw;
  }
  scopes_.pop_back();
  if (result.IsList()) result.list->unordered = unordered;
  return result;
}

Value Evaluator::EvalFString(const Ast& ast) {
  std::string out;
  Sources from;
  for (const AstPtr& kid : ast.kids) {
    if (kid->kind == AstKind::kString) {
      Charge(ast, kid->text.size());
      out += kid->text;
      continue;
    }
    Value value = Eval(*kid->kids[0]);
    from = Join(from, value.from);
    std::string spec = kid->kids[1] == nullptr ? "" : EvalFString(*kid->kids[1]).Text();
    if (!kid->text.empty()) value = Value::String(Converted(*kid, value, kid->text));
    out += Format(*kid, value, spec);
  }
  Value value = Value::String(std::move(out));
  value.from = from;
  return value;
}

bool Evaluator::Contains(const Ast& at, const Value& container, const Value& item) {
  if (container.type == Type::kString) {
    if (item.type != Type::kString)
      Fail(at, fmt::format("a string holds strings only, this is {}", WithArticle(item.type)),
           "convert it: str(...)");
    LookFor(at, item.Text(), container.Text());
    return container.Text().find(item.Text()) != std::string::npos;
  }
  if (container.type == Type::kModule && container.Text() == "os.environ" &&
      item.type == Type::kString) {
    return std::getenv(item.Text().c_str()) != nullptr;
  }
  if (container.type == Type::kDict || container.type == Type::kSet ||
      container.type == Type::kKeys)
    return container.dict->Find(Id(at, item)) != nullptr;
  Cursor cursor = Begin(at, container);
  for (Value candidate; Next(at, cursor, &candidate);) {
    if (EqualElements(candidate, item, looked())) return true;
  }
  return false;
}

// `is`: of numbers and strings CPython keeps some once, others not.
bool Evaluator::Same(const Ast& at, const Value& left, const Value& right) {
  if (left.type != right.type) return false;
  if (left.IsView()) Fail(at, "whether two views are one object isn't known", "compare lists");
  if (left.IsList() && left.list == right.list) return true;
  if (left.type == Type::kTuple && Equal(left, right, looked())) {
    if (left.list->items.empty()) return true;
    Fail(at, "whether two equal tuples are one object isn't known", "compare them with ==");
  }
  if (left.IsList()) return false;
  if (left.type == Type::kDict || left.type == Type::kSet) return left.dict == right.dict;
  const bool small = left.type == Type::kBool ||
                     (left.type == Type::kInt && left.integer >= -5 && left.integer <= 256);
  const bool equal = Equal(left, right, looked());
  const bool nan = left.type == Type::kFloat && std::isnan(left.number);
  if (left.IsReal() && !small && (equal || nan))
    Fail(at, "whether two equal numbers are one object isn't known", "compare them with ==");
  return equal;
}

bool Evaluator::Holds(const Ast& at, const std::string& op, const Value& left, const Value& right) {
  if (op == "==" || op == "!=") return Equal(left, right, looked()) == (op == "==");
  if (op == "is" || op == "is not") return Same(at, left, right) == (op == "is");
  if (op == "in" || op == "not in") return Contains(at, right, left) == (op == "in");
  if (left.type == Type::kSet && right.type == Type::kSet) {
    Look(at, left);
    Look(at, right);
    auto within = [](const Value& a, const Value& b) {
      return std::all_of(a.dict->pairs.begin(), a.dict->pairs.end(),
                         [&](const auto& pair) { return b.dict->Find(pair.id) != nullptr; });
    };
    bool proper = op == "<" || op == ">";
    if (proper && left.dict->pairs.size() == right.dict->pairs.size()) return false;
    return op[0] == '<' ? within(left, right) : within(right, left);
  }
  const std::partial_ordering order = Compare(left, right, looked());
  return op == "<"    ? std::is_lt(order)
         : op == ">"  ? std::is_gt(order)
         : op == "<=" ? std::is_lteq(order)
                      : std::is_gteq(order);
}

Value Evaluator::EvalCompare(const Ast& ast) {
  Value left = Eval(*ast.kids[0]);
  Sources from = left.from;
  bool holds = true;
  for (size_t i = 0; i < ast.names.size() && holds; ++i) {
    Value right = Eval(*ast.kids[i + 1]);
    from = Join(from, right.from);
    try {
      holds = Holds(ast, ast.names[i], left, right);
    } catch (const std::string& message) {
      Fail(ast, message);
    }
    left = std::move(right);
  }
  Value value = Value::Bool(holds);
  value.from = from;
  return value;
}

}  // namespace xp::config::python
