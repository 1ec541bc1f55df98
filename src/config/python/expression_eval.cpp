#include <fmt/format.h>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "src/config/python/evaluator.h"
#include "src/config/suggest.h"

namespace xp::config::python {
namespace {

constexpr int kMaxEvalDepth = 700;

}  // namespace

struct Evaluator::DepthGuard {
  DepthGuard(Evaluator& evaluator, const Ast& at) : evaluator_(evaluator) {
    if (++evaluator_.depth_ > kMaxEvalDepth) evaluator_.Fail(at, "evaluation nests too deeply");
  }
  ~DepthGuard() { --evaluator_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  Evaluator& evaluator_;
};

void Evaluator::Fail(const Ast& at, const std::string& what, const std::string& next) const {
  throw UsageError({.what = what, .where = At(at).Text(), .expected = "", .next = next});
}

void Evaluator::Step(const Ast& at) {
  if (--budget_.steps < 0) Fail(at, "the config takes more than five million steps to evaluate");
}

void Evaluator::Charge(const Ast& at, size_t bytes) {
  budget_.bytes -= static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX / 4));
  if (budget_.bytes < 0) Fail(at, "the config takes more than 256 MiB to evaluate");
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
      return Place(Value::Int(ast.integer), ast);
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
      return path.empty() ? value : Place(Derived(std::move(value), path), ast);
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
    case AstKind::kLambda: {
      FunctionObject function;
      function.name = "<lambda>";
      function.code = &ast;
      for (size_t i = 1; i < ast.kids.size(); ++i) function.defaults.push_back(Eval(*ast.kids[i]));
      for (size_t i = visible_from_; i < scopes_.size(); ++i) {
        for (const auto& [name, value] : scopes_[i]) function.captured[name] = value;
      }
      return Place(arena_.Function(std::move(function)), ast);
    }
    case AstKind::kStarred:
      Fail(ast, "`*` stands where it can't unpack anything");
    default:
      Fail(ast, "this can't stand in an expression");
  }
}

Value* Evaluator::Local(const std::string& name) {
  for (size_t i = scopes_.size(); i > visible_from_; --i) {
    auto it = scopes_[i - 1].find(name);
    if (it != scopes_[i - 1].end()) return &it->second;
  }
  return nullptr;
}

Value Evaluator::EvalName(const Ast& ast) {
  const std::string& name = ast.text;
  if (Value* local = Local(name)) return *local;
  if (const DictObject::Pair* pair = globals_.dict->Find("s" + name)) return pair->value;
  if (name == "_base_" && base_.type == Type::kDict) return base_;
  if (name == "__name__") return Value::String("builtins");
  if (name == "__file__") return Value::String(source_ == nullptr ? "" : *source_);
  if (IsBuiltin(name)) {
    FunctionObject function;
    function.name = name;
    return arena_.Function(std::move(function));
  }
  std::vector<std::string> names;
  for (const DictObject::Pair& pair : globals_.dict->pairs) names.push_back(Str(pair.key));
  std::string next = DidYouMean(Nearest(name, names));
  Fail(ast, fmt::format("the name `{}` isn't defined", name), next);
}

// Names, attributes and subscripts without noting what was read: the outermost of the chain does
// that.
Value Evaluator::EvalChain(const Ast& ast) {
  if (ast.kind == AstKind::kName) return EvalName(ast);
  DepthGuard guard(*this, ast);
  Step(ast);
  const Ast& inner = *ast.kids[0];
  bool chain = inner.kind == AstKind::kName || inner.kind == AstKind::kAttribute ||
               inner.kind == AstKind::kSubscript;
  Value object = chain ? EvalChain(inner) : Eval(inner);
  Value value = ast.kind == AstKind::kAttribute ? Attribute(ast, object, ast.text)
                                                : Subscript(ast, object, *ast.kids[1]);
  // A piece of a string or list is derived from what the whole was.
  value.from = Join(value.from, object.from);
  return value;
}

// "a.b.0" for a.b[0] when `a` is one of the file's keys, or _base_.a.b[0]; "" for anything else.
std::string Evaluator::ChainPath(const Ast& ast) const {
  if (ast.kind == AstKind::kName) {
    for (size_t i = scopes_.size(); i > visible_from_; --i) {
      if (scopes_[i - 1].count(ast.text) > 0) return "";
    }
    const DictObject::Pair* pair = globals_.dict->Find("s" + ast.text);
    if (pair == nullptr) return "";
    bool plain = pair->value.type != Type::kFunction && pair->value.type != Type::kLazy &&
                 pair->value.type != Type::kModule;
    return plain ? JoinPath("", ast.text) : "";
  }
  const Ast& inner = *ast.kids[0];
  if (inner.kind != AstKind::kName && inner.kind != AstKind::kAttribute &&
      inner.kind != AstKind::kSubscript) {
    return "";
  }
  bool root = inner.kind == AstKind::kName && inner.text == "_base_";
  std::string path = root ? "" : ChainPath(inner);
  if (path.empty() && !root) return "";
  if (ast.kind == AstKind::kAttribute) return JoinPath(path, ast.text);
  const Ast& index = *ast.kids[1];
  if (index.kind == AstKind::kString) return JoinPath(path, index.text);
  if (index.kind == AstKind::kInt) return JoinPath(path, std::to_string(index.integer));
  return "";
}

Value Evaluator::Derived(Value value, const std::string& path) {
  Source source;
  source.path = path;
  switch (value.type) {
    case Type::kFunction:
    case Type::kLazy:
    case Type::kModule:
      return value;
    case Type::kNone:
      source.value = std::make_shared<Node>();
      break;
    case Type::kBool:
      source.value = std::make_shared<Node>(value.boolean);
      break;
    case Type::kInt:
      source.value = std::make_shared<Node>(value.integer);
      break;
    case Type::kFloat:
      source.value = std::make_shared<Node>(value.number);
      break;
    case Type::kString:
      source.value = std::make_shared<Node>(value.Text());
      break;
    default:
      break;
  }
  auto sources = std::make_shared<std::vector<Source>>();
  sources->push_back(std::move(source));
  value.from = Join(sources, value.from);
  return value;
}

// {{_base_.a.b}}
Value Evaluator::EvalPlaceholder(const Ast& ast) {
  Value value = base_;
  std::string path;
  for (const std::string& key : SplitPath(ast.text, At(ast).Text())) {
    const DictObject::Pair* pair = nullptr;
    if (value.type == Type::kDict) pair = value.dict->Find("s" + key);
    if (pair == nullptr) {
      std::vector<std::string> names;
      if (value.type == Type::kDict) {
        for (const DictObject::Pair& known : value.dict->pairs) names.push_back(Str(known.key));
      }
      Fail(ast, fmt::format("the bases have no key `{}`", JoinPath(path, key)),
           DidYouMean(Nearest(key, names)));
    }
    path = JoinPath(path, key);
    value = pair->value;
  }
  return Place(Derived(std::move(value), path), ast);
}

Value Evaluator::EvalDisplay(const Ast& ast) {
  std::vector<Value> items;
  for (const AstPtr& kid : ast.kids) {
    if (kid->kind == AstKind::kStarred) {
      for (Value& item : Iterate(*kid, Eval(*kid->kids[0]))) items.push_back(std::move(item));
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
        Fail(*ast.kids[i + 1], fmt::format("`**` needs a dict, this is a {}", TypeName(from.type)));
      UpdateDict(ast, *dict.dict, from, false);
    } else {
      Value key = Eval(*ast.kids[i]);
      SetKey(*ast.kids[i], *dict.dict, key, Eval(*ast.kids[i + 1]));
    }
  }
  return dict;
}

void Evaluator::Clause(const Ast& ast, size_t clause, const std::function<void()>& body) {
  if (clause == ast.kids.size()) return body();
  const Ast& loop = *ast.kids[clause];
  for (Value& item : Iterate(*loop.kids[1], Eval(*loop.kids[1]))) {
    Step(loop);
    Assign(*loop.kids[0], std::move(item));
    bool passes = true;
    for (size_t i = 2; i < loop.kids.size() && passes; ++i) passes = Truthy(Eval(*loop.kids[i]));
    if (passes) Clause(ast, clause + 1, body);
  }
}

Value Evaluator::EvalComprehension(const Ast& ast) {
  bool dict = ast.kind == AstKind::kDictComp;
  Value result = dict                            ? arena_.Dict()
                 : ast.kind == AstKind::kSetComp ? arena_.Set()
                                                 : arena_.List();
  scopes_.emplace_back();
  try {
    Clause(ast, dict ? 2 : 1, [&] {
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
  return result;
}

Value Evaluator::EvalFString(const Ast& ast) {
  std::string out;
  Sources from;
  for (const AstPtr& kid : ast.kids) {
    if (kid->kind == AstKind::kString) {
      out += kid->text;
      continue;
    }
    Value value = Eval(*kid->kids[0]);
    from = Join(from, value.from);
    std::string spec = kid->kids[1] == nullptr ? "" : EvalFString(*kid->kids[1]).Text();
    if (!kid->text.empty()) value = Value::String(kid->text == "s" ? Str(value) : Repr(value));
    out += Format(*kid, value, spec);
    Charge(ast, out.size());
  }
  Value value = Value::String(std::move(out));
  value.from = from;
  return value;
}

bool Evaluator::Contains(const Ast& at, const Value& container, const Value& item) {
  if (container.type == Type::kString && item.type == Type::kString) {
    return container.Text().find(item.Text()) != std::string::npos;
  }
  if (container.type == Type::kDict || container.type == Type::kSet) {
    return container.dict->Find(Id(at, item)) != nullptr;
  }
  for (const Value& candidate : Iterate(at, container)) {
    if (Equal(candidate, item)) return true;
  }
  return false;
}

Value Evaluator::EvalCompare(const Ast& ast) {
  Value left = Eval(*ast.kids[0]);
  Sources from = left.from;
  bool holds = true;
  for (size_t i = 0; i < ast.names.size() && holds; ++i) {
    Value right = Eval(*ast.kids[i + 1]);
    from = Join(from, right.from);
    const std::string& op = ast.names[i];
    try {
      if (op == "==" || op == "!=") {
        holds = Equal(left, right) == (op == "==");
      } else if (op == "is" || op == "is not") {
        bool same = left.type == right.type &&
                    (left.IsSequence() ? left.list == right.list : Equal(left, right));
        holds = same == (op == "is");
      } else if (op == "in" || op == "not in") {
        holds = Contains(ast, right, left) == (op == "in");
      } else {
        int order = Compare(left, right);
        holds = op == "<"    ? order < 0
                : op == ">"  ? order > 0
                : op == "<=" ? order <= 0
                             : order >= 0;
      }
    } catch (const std::string& message) {
      Fail(ast, message);
    }
    left = std::move(right);
  }
  Value value = Value::Bool(holds);
  value.from = from;
  return value;
}

Value Evaluator::Attribute(const Ast& at, const Value& object, const std::string& name) {
  if (object.type == Type::kLazy) {
    const LazyObject& lazy = *object.lazy;
    return arena_.Lazy({lazy.name.empty() ? lazy.module : lazy.Text(), name});
  }
  if (object.type == Type::kModule) {
    if (object.Text() == "math" && name == "pi") return Value::Float(3.141592653589793);
    if (object.Text() == "math" && name == "inf") return Value::Float(HUGE_VAL);
    if (object.Text() == "os" && name == "path") {
      Value value = Value::String("os.path");
      value.type = Type::kModule;
      return value;
    }
    if (!IsModuleMember(object.Text(), name)) {
      Fail(at, fmt::format("`{}.{}` can't be used in a config", object.Text(), name),
           "configs are evaluated without running Python; write the value out");
    }
    FunctionObject function;
    function.name = object.Text() + "." + name;
    return arena_.Function(std::move(function));
  }
  if (HasMethod(object, name)) {
    FunctionObject method;
    method.name = name;
    method.self = object;
    return arena_.Function(std::move(method));
  }
  if (object.type == Type::kDict) {
    if (const DictObject::Pair* pair = object.dict->Find("s" + name)) return pair->value;
    std::vector<std::string> names;
    for (const DictObject::Pair& pair : object.dict->pairs) names.push_back(Str(pair.key));
    Fail(at, fmt::format("the dict has no key `{}`", name), DidYouMean(Nearest(name, names)));
  }
  Fail(at, fmt::format("a {} has no attribute `{}` that a config can use", TypeName(object.type),
                       name));
}

size_t Evaluator::Position(const Ast& at, int64_t index, size_t size) const {
  auto count = static_cast<int64_t>(size);
  int64_t position = index < 0 ? index + count : index;
  if (position < 0 || position >= count)
    Fail(at, fmt::format("the index {} is outside a list of {}", index, count));
  return static_cast<size_t>(position);
}

Value Evaluator::Subscript(const Ast& at, const Value& object, const Ast& index_ast) {
  if (index_ast.kind == AstKind::kSlice) return Slice(at, object, index_ast);
  Value index = Eval(index_ast);
  if (object.type == Type::kDict) {
    if (const DictObject::Pair* pair = object.dict->Find(Id(index_ast, index))) return pair->value;
    std::vector<std::string> names;
    for (const DictObject::Pair& pair : object.dict->pairs) names.push_back(Str(pair.key));
    Fail(at, fmt::format("the dict has no key {}", Repr(index)),
         DidYouMean(Nearest(Str(index), names)));
  }
  if (!object.IsSequence() && object.type != Type::kString) {
    Fail(at, fmt::format("a {} can't be indexed", TypeName(object.type)));
  }
  if (!index.IsIntegral())
    Fail(index_ast, fmt::format("an index is an int, this is a {}", TypeName(index.type)));
  if (object.IsSequence())
    return object.list->items[Position(at, index.AsInt(), object.list->items.size())];
  for (char c : object.Text()) {
    if ((static_cast<unsigned char>(c) & 0x80) != 0) Fail(at, "only ASCII strings can be indexed");
  }
  Value value = Value::String(
      std::string(1, object.Text()[Position(at, index.AsInt(), object.Text().size())]));
  value.from = object.from;
  return value;
}

bool Evaluator::SliceBounds(const Ast& at, const Ast& slice, size_t size, int64_t* from,
                            int64_t* to, int64_t* step) {
  auto count = static_cast<int64_t>(size);
  auto part = [&](size_t which, int64_t missing, bool clamp) {
    if (slice.kids[which] == nullptr) return missing;
    Value value = Eval(*slice.kids[which]);
    if (value.type == Type::kNone) return missing;
    if (!value.IsIntegral()) Fail(at, "a slice needs ints");
    int64_t index = value.AsInt();
    if (!clamp) return index;
    if (index < 0) index += count;
    int64_t low = *step < 0 ? -1 : 0;
    return std::min(std::max(index, low), *step < 0 ? count - 1 : count);
  };
  *step = part(2, 1, false);
  if (*step == 0) Fail(at, "a slice's step can't be 0");
  *from = part(0, *step < 0 ? count - 1 : 0, true);
  *to = part(1, *step < 0 ? -1 : count, true);
  return true;
}

Value Evaluator::Slice(const Ast& at, const Value& object, const Ast& slice) {
  bool text = object.type == Type::kString;
  if (!object.IsSequence() && !text)
    Fail(at, fmt::format("a {} can't be sliced", TypeName(object.type)));
  size_t size = text ? object.Text().size() : object.list->items.size();
  int64_t from = 0;
  int64_t to = 0;
  int64_t step = 1;
  SliceBounds(at, slice, size, &from, &to, &step);
  std::string characters;
  std::vector<Value> items;
  // The step may be huge: compare before adding it.
  for (int64_t i = from; step > 0 ? i < to : i > to;) {
    if (text) {
      characters += object.Text()[static_cast<size_t>(i)];
    } else {
      items.push_back(object.list->items[static_cast<size_t>(i)]);
    }
    int64_t left = step > 0 ? to - i : i - to;
    if (step > 0 ? step >= left : step <= -left) break;
    i += step;
  }
  Charge(at, characters.size() + items.size() * sizeof(Value));
  Value value =
      text ? Value::String(std::move(characters)) : arena_.List(std::move(items), object.type);
  value.from = object.from;
  return value;
}

}  // namespace xp::config::python
