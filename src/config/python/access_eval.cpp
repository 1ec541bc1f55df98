// Names, attributes, subscripts and slices, and which of the file's keys a value was read from.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "exp/config/canonical.h"
#include "src/config/python/evaluator.h"
#include "src/config/python/names.h"
#include "src/config/python/text_search.h"
#include "src/config/suggest.h"

namespace xp::config::python {
namespace {

constexpr size_t kMaxNoted = 4096;

// Python's builtins that reach outside of the config, or make what it can't hold.
constexpr std::string_view kRefused[] = {
    "open",        "eval",         "exec",     "compile",    "__import__", "input",
    "globals",     "locals",       "vars",     "dir",        "setattr",    "delattr",
    "object",      "super",        "bytes",    "complex",    "id",         "hash",
    "iter",        "next",         "slice",    "memoryview", "bytearray",  "frozenset",
    "classmethod", "staticmethod", "property", "breakpoint"};

}  // namespace

Value* Evaluator::Local(const std::string& name) {
  for (size_t i = scopes_.size(); i > visible_from_; --i) {
    Scope& scope = *scopes_[i - 1];
    auto outer = scope.outer.find(name);
    if (outer != scope.outer.end() && outer->second) return nullptr;
    auto it = scope.names.find(name);
    if (it != scope.names.end()) return &it->second;
    if (scope.own != nullptr && scope.own->count(name) > 0) return nullptr;
  }
  return nullptr;
}

bool Evaluator::Unassigned(const std::string& name) const {
  for (size_t i = scopes_.size(); i > visible_from_; --i) {
    const Scope& scope = *scopes_[i - 1];
    auto outer = scope.outer.find(name);
    if ((outer != scope.outer.end() && outer->second) || scope.names.count(name) > 0) return false;
    if (scope.own != nullptr && scope.own->count(name) > 0) return true;
  }
  return false;
}

std::shared_ptr<const std::unordered_set<std::string>> Evaluator::Own(const Ast& function) {
  auto& known = own_[&function];
  if (known == nullptr)
    known = std::make_shared<const std::unordered_set<std::string>>(AssignedNames(function));
  return known;
}

// A builtin or a module's function; one object a name.
Value Evaluator::NamedFunction(const std::string& name) {
  Value& known = builtins_[name];
  if (known.type == Type::kNone) {
    FunctionObject function;
    function.name = name;
    known = arena_.Function(std::move(function));
  }
  return known;
}

Value Evaluator::EvalName(const Ast& ast) {
  const std::string& name = ast.text;
  if (Value* local = Local(name)) return *local;
  if (Unassigned(name)) {
    Fail(ast, fmt::format("`{}` is read before the function assigns it", name),
         fmt::format("for a name of the file, write `global {}` in the function", name));
  }
  if (const DictObject::Pair* pair = globals_.dict->Find("s" + name)) return pair->value;
  if (name == "_base_" && base_.type == Type::kDict) return base_;
  if (name == "__name__") return Value::String("builtins");
  if (name == "__file__") return Value::String(source_ == nullptr ? "" : *source_);
  if (IsBuiltin(name)) return NamedFunction(name);
  if (std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused)) {
    Fail(ast, fmt::format("`{}` can't be used in a config", name),
         "configs are evaluated without running Python; write the value out");
  }
  std::vector<std::string> names;
  for (const DictObject::Pair& pair : globals_.dict->pairs) names.push_back(KeyText(pair.key));
  std::string next = DidYouMean(Nearest(name, names));
  Fail(ast, fmt::format("the name `{}` isn't defined", name), next);
}

// Names, attributes and subscripts without noting what was read: the outermost of the chain does
// that.
Value Evaluator::EvalChain(const Ast& ast) {
  if (ast.kind == AstKind::kName) return EvalName(ast);
  if (ast.kind != AstKind::kAttribute && ast.kind != AstKind::kSubscript) return Eval(ast);
  DepthGuard guard(*this, ast);
  Step(ast);
  Value object = EvalChain(*ast.kids[0]);
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
      if (scopes_[i - 1]->names.count(ast.text) > 0) return "";
    }
    const DictObject::Pair* pair = globals_.dict->Find("s" + ast.text);
    if (pair == nullptr) return "";
    bool plain = pair->value.type != Type::kFunction && pair->value.type != Type::kLazy &&
                 pair->value.type != Type::kModule;
    return plain ? JoinPath("", ast.text) : "";
  }
  if (ast.kind != AstKind::kAttribute && ast.kind != AstKind::kSubscript) return "";
  const Ast& inner = *ast.kids[0];
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
    case Type::kBig:  // long ones aren't noted: each reading would copy them
      if (value.Text().size() > kMaxNoted) return value;
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
        for (const DictObject::Pair& known : value.dict->pairs) names.push_back(KeyText(known.key));
      }
      Fail(ast, fmt::format("the bases have no key `{}`", JoinPath(path, key)),
           DidYouMean(Nearest(key, names)));
    }
    path = JoinPath(path, key);
    value = pair->value;
  }
  return Place(Derived(std::move(value), path), ast);
}

Value Evaluator::Attribute(const Ast& at, const Value& object, const std::string& name) {
  if (object.type == Type::kLazy) {
    const LazyObject& lazy = *object.lazy;
    return arena_.Lazy({lazy.name.empty() ? lazy.module : lazy.Text(), name});
  }
  if (object.type == Type::kModule) {
    const std::string full = object.Text() + "." + name;
    if (full == "math.pi") return Value::Float(3.141592653589793);
    if (full == "math.e") return Value::Float(2.718281828459045);
    if (full == "math.tau") return Value::Float(6.283185307179586);
    if (full == "math.inf") return Value::Float(HUGE_VAL);
    if (full == "math.nan") return Value::Float(std::nan(""));
    if (full == "os.sep" || full == "os.path.sep") return Value::String("/");
    if (full == "os.path" || full == "os.environ") return Value::Module(full);
    if (!IsModuleMember(full)) {
      Fail(at, fmt::format("`{}` can't be used in a config", full),
           "configs are evaluated without running Python; write the value out");
    }
    return NamedFunction(full);
  }
  if (object.type == Type::kFunction && object.function->code == nullptr &&
      object.function->self.type == Type::kNone) {
    const std::string full = object.function->name + "." + name;
    if (name == "__name__") return Value::String(object.function->name);
    if (IsModuleMember(full)) return NamedFunction(full);  // dict.fromkeys, str.lower
  }
  if (HasMethod(object, name)) {
    FunctionObject method;
    method.name = name;
    method.self = object;
    return arena_.Function(std::move(method));
  }
  if (object.type == Type::kDict) {
    const DictObject::Pair* pair = object.dict->Find("s" + name);
    if (pair != nullptr && object.dict->config) return pair->value;
    if (pair != nullptr)
      Fail(at, fmt::format("a plain dict's key `{}` isn't an attribute", name),
           fmt::format("write ['{}']", name));
    std::vector<std::string> names;
    for (const DictObject::Pair& known : object.dict->pairs) names.push_back(KeyText(known.key));
    Fail(at, fmt::format("the dict has no key `{}`", name), DidYouMean(Nearest(name, names)));
  }
  Fail(at, fmt::format("{} has no attribute `{}` that a config can use", WithArticle(object.type),
                       name));
}

size_t Evaluator::Position(const Ast& at, int64_t index, size_t size, const char* whole) const {
  auto count = static_cast<int64_t>(size);
  int64_t position = index < 0 ? index + count : index;
  if (position < 0 || position >= count)
    Fail(at, fmt::format("the index {} is outside {} of {}", index, whole, count));
  return static_cast<size_t>(position);
}

Value Evaluator::Subscript(const Ast& at, const Value& object, const Ast& index) {
  if (index.kind == AstKind::kSlice) return Slice(at, object, EvalSlice(index));
  return Element(at, object, Eval(index));
}

Value Evaluator::Element(const Ast& at, const Value& object, const Value& index) {
  if (object.type == Type::kModule && object.Text() == "os.environ") {
    if (index.type != Type::kString) Fail(at, "os.environ is indexed by strings");
    const char* value = std::getenv(index.Text().c_str());
    if (value != nullptr) return Value::String(value);
    Fail(at, fmt::format("the environment variable {} isn't set", index.Text()),
         "set it, or give a default with os.environ.get()");
  }
  if (object.type == Type::kDict) {
    if (const DictObject::Pair* pair = object.dict->Find(Id(at, index))) return pair->value;
    std::vector<std::string> names;
    for (const DictObject::Pair& pair : object.dict->pairs) names.push_back(KeyText(pair.key));
    Fail(at, fmt::format("the dict has no key {}", Shown(index)),
         DidYouMean(Nearest(KeyText(index), names)));
  }
  const bool range = object.type == Type::kRange;
  if (!object.IsSequence() && !range && object.type != Type::kString)
    Fail(at, fmt::format("{} can't be indexed", WithArticle(object.type)),
         object.type == Type::kIterator || object.IsView() ? "make it a list: list(...)" : "");
  if (!index.IsIntegral())
    Fail(at, fmt::format("an index is an int, this is {}", WithArticle(index.type)));
  if (object.type != Type::kString) {
    RequireOrder(at, object);
    return object.list->items[Position(at, index.AsInt(), object.list->items.size())];
  }
  Look(at, object);
  const std::string& text = object.Text();
  const auto place =
      static_cast<int64_t>(Position(at, index.AsInt(), CountCharacters(text), "a string"));
  const Window window = WindowOf(text, place, place + 1);
  Value value = Value::String(text.substr(window.from, window.to - window.from));
  value.from = object.from;
  return value;
}

Evaluator::SliceParts Evaluator::EvalSlice(const Ast& slice) {
  auto part = [&](size_t i) {
    return slice.kids[i] == nullptr ? Value::None() : Eval(*slice.kids[i]);
  };
  SliceParts parts;
  parts.from = part(0);
  parts.to = part(1);
  parts.step = part(2);
  return parts;
}

Evaluator::SliceBounds Evaluator::Bounds(const Ast& at, const SliceParts& slice,
                                         size_t size) const {
  const auto count = static_cast<int64_t>(size);
  for (const Value* part : {&slice.from, &slice.to, &slice.step}) {
    if (part->type != Type::kNone && !part->IsIntegral()) Fail(at, "a slice needs ints");
  }
  const int64_t step = slice.step.type == Type::kNone ? 1 : slice.step.AsInt();
  if (step == 0) Fail(at, "a slice's step can't be 0");
  auto bound = [&](const Value& part, int64_t missing) {
    if (part.type == Type::kNone) return missing;
    const int64_t index = part.AsInt() < 0 ? part.AsInt() + count : part.AsInt();
    const int64_t low = step < 0 ? -1 : 0;
    return std::min(std::max(index, low), step < 0 ? count - 1 : count);
  };
  return {bound(slice.from, step < 0 ? count - 1 : 0), bound(slice.to, step < 0 ? -1 : count),
          step};
}

// The elements that the slice names, in its order.
std::vector<size_t> Evaluator::SlicePositions(const Ast& at, const SliceParts& slice,
                                              size_t size) const {
  const auto [from, to, step] = Bounds(at, slice, size);
  std::vector<size_t> positions;
  // The step may be huge: compare before adding it.
  for (int64_t i = from; step > 0 ? i < to : i > to;) {
    positions.push_back(static_cast<size_t>(i));
    int64_t left = step > 0 ? to - i : i - to;
    if (step > 0 ? step >= left : step <= -left) break;
    i += step;
  }
  return positions;
}

Value Evaluator::Slice(const Ast& at, const Value& object, const SliceParts& slice) {
  if (object.type == Type::kString) return SliceText(at, object, slice);
  if (!object.IsSequence() && object.type != Type::kRange)
    Fail(at, fmt::format("{} can't be sliced", WithArticle(object.type)));
  RequireOrder(at, object);
  Look(at, object);
  std::vector<Value> items;
  for (size_t i : SlicePositions(at, slice, object.list->items.size()))
    items.push_back(object.list->items[i]);
  Charge(at, items.size() * sizeof(Value));
  Value value = arena_.List(std::move(items), object.type);
  value.from = object.from;
  return value;
}

Value Evaluator::SliceText(const Ast& at, const Value& object, const SliceParts& slice) {
  Look(at, object);
  const std::string_view text = object.Text();
  const size_t count = CountCharacters(text);
  const auto [from, to, step] = Bounds(at, slice, count);
  std::string part;
  if (step == 1) {
    const Window window = WindowOf(text, from, std::max(from, to));
    part = text.substr(window.from, window.to - window.from);
  } else {
    Charge(at, 2 * count * sizeof(size_t));  // the characters' places, and those of the slice
    std::vector<size_t> places{0};
    while (places.back() < text.size())
      places.push_back(places.back() + FirstCharacter(text.substr(places.back())).size());
    for (size_t i : SlicePositions(at, slice, count))
      part += text.substr(places[i], places[i + 1] - places[i]);
  }
  Charge(at, part.size());
  Value value = Value::String(std::move(part));
  value.from = object.from;
  return value;
}

}  // namespace xp::config::python
