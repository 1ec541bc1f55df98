#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "exp/base/error.h"
#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

constexpr int kMaxCalls = 40;

}  // namespace

Evaluator::Arguments Evaluator::EvalArguments(const Ast& call) {
  Arguments arguments;
  bool unpacked = false;
  for (size_t i = 1; i < call.kids.size(); ++i) {
    const Ast& kid = *call.kids[i];
    if (kid.kind == AstKind::kStarred) {
      for (Value& item : Iterate(kid, Eval(*kid.kids[0])))
        arguments.positional.push_back(std::move(item));
    } else if (kid.kind == AstKind::kKeyword && kid.text.empty()) {
      Value from = Eval(*kid.kids[0]);
      if (from.type != Type::kDict)
        Fail(kid, fmt::format("`**` needs a dict, this is {}", WithArticle(from.type)));
      for (const DictObject::Pair& pair : from.dict->pairs) {
        if (pair.key.type != Type::kString) Fail(kid, "`**` needs string keys");
        Look(kid, pair.key);
        arguments.keywords.emplace_back(pair.key.Text(), pair.value);
      }
      unpacked = true;
    } else if (kid.kind == AstKind::kKeyword) {
      arguments.keywords.emplace_back(kid.text, Eval(*kid.kids[0]));
    } else {
      arguments.positional.push_back(Eval(kid));
    }
    Charge(call, sizeof(Value));
  }
  if (unpacked) {
    std::unordered_set<std::string> names;
    for (const auto& [name, value] : arguments.keywords) {
      if (!names.insert(name).second)
        Fail(call, fmt::format("the argument `{}` is given twice", name),
             "write {**a, 'key': value} to let the later value win");
    }
  }
  return arguments;
}

Value Evaluator::Call(const Ast& ast) {
  const Ast& callee = *ast.kids[0];
  // `dict(...)` is most of a config: don't make a function object for it.
  bool plain_dict = callee.kind == AstKind::kName && callee.text == "dict" &&
                    Local("dict") == nullptr && !Unassigned("dict") &&
                    globals_.dict->Find("sdict") == nullptr;
  if (plain_dict) {
    Arguments arguments = EvalArguments(ast);
    return Place(MakeDict(ast, "dict", arguments), ast);
  }
  Value function = EvalChain(callee);
  if (function.type == Type::kLazy) {
    Fail(ast,
         fmt::format("`{}` would be called, but configs are evaluated without running Python",
                     function.lazy->Text()),
         LazyAdvice(*function.lazy, "write type=" + function.lazy->name + " in a dict instead"));
  }
  if (function.type == Type::kModule) {
    Fail(ast, fmt::format("`{}` can't be used in a config", function.Text()),
         "configs are evaluated without running Python; write the value out");
  }
  if (function.type != Type::kFunction)
    Fail(ast, fmt::format("{} can't be called", WithArticle(function.type)));
  Arguments arguments = EvalArguments(ast);
  Sources from = function.function->self.from;
  for (const Value& value : arguments.positional) from = Join(from, value.from);
  for (const auto& [name, value] : arguments.keywords) from = Join(from, value.from);
  Value value = Invoke(ast, function, std::move(arguments));
  // What a function returns is made here, whatever it is made of.
  value.origin = At(ast);
  value.history = nullptr;
  const bool scalar = !value.IsList() && !value.IsDict();
  if (scalar) value.from = Join(value.from, from);
  return value;
}

Value Evaluator::Invoke(const Ast& at, const Value& function, Arguments arguments) {
  if (function.type != Type::kFunction)
    Fail(at, fmt::format("{} can't be called", WithArticle(function.type)));
  if (++calls_ > kMaxCalls)
    Fail(at, fmt::format("functions call each other more than {} deep", kMaxCalls));
  const FunctionObject& object = *function.function;
  Value result;
  try {
    result = object.code != nullptr ? InvokeUser(at, object, std::move(arguments))
                                    : InvokeBuiltin(at, object, arguments);
  } catch (const std::string& message) {
    Fail(at, message);
  }
  --calls_;
  return result;
}

Value Evaluator::InvokeBuiltin(const Ast& at, const FunctionObject& function,
                               Arguments& arguments) {
  // What goes through a list, dict or set says so itself.
  if (function.self.type == Type::kString) Look(at, function.self);
  for (const Value& value : arguments.positional) {
    if (value.type == Type::kString) Look(at, value);
  }
  const bool method = function.self.type != Type::kNone || HasMethod(function.self, function.name);
  Value result = method ? Method(at, function, arguments)
                 : function.name.find('.') != std::string::npos
                     ? Module(at, function.name, arguments)
                     : Builtin(at, function.name, arguments);
  if (result.type == Type::kString) Charge(at, result.Text().size());
  return result;
}

// The function's parameters with what the call gives them.
std::shared_ptr<Scope> Evaluator::Parameters(const Ast& at, const FunctionObject& function,
                                             Arguments arguments) {
  const Ast& code = *function.code;
  const std::vector<std::string>& names = code.names;
  size_t slots = 0;  // parameters that positional arguments can fill
  while (slots < names.size() && names[slots][0] != '*') ++slots;
  auto scope = std::make_shared<Scope>();
  std::vector<bool> given(names.size());
  std::vector<Value> extra;
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i >= slots) {
      extra.push_back(std::move(arguments.positional[i]));
      continue;
    }
    scope->names[names[i]] = std::move(arguments.positional[i]);
    given[i] = true;
  }
  const bool takes_rest = !names.empty() && names.back().starts_with("**");
  Value rest = takes_rest ? arena_.Dict() : Value::None();
  for (auto& [name, value] : arguments.keywords) {
    auto it = name.starts_with('*') ? names.end() : std::find(names.begin(), names.end(), name);
    if (it == names.end() && takes_rest) {
      SetKey(at, *rest.dict, Value::String(name), std::move(value));
      continue;
    }
    if (it == names.end() || given[static_cast<size_t>(it - names.begin())])
      Fail(at, fmt::format("{}() can't take the argument `{}`", function.name, name));
    given[static_cast<size_t>(it - names.begin())] = true;
    scope->names[name] = std::move(value);
  }
  bool takes_extra = false;
  for (size_t i = 0; i < names.size(); ++i) {
    Step(at);
    if (names[i].rfind("**", 0) == 0) {
      scope->names[names[i].substr(2)] = rest;
    } else if (names[i][0] == '*' && names[i].size() > 1) {
      takes_extra = true;
      scope->names[names[i].substr(1)] = arena_.List(extra, Type::kTuple);
    } else if (names[i] != "*" && !given[i]) {
      if (code.kids[i + 1] == nullptr)
        Fail(at, fmt::format("{}() misses the argument `{}`", function.name, names[i]));
      scope->names[names[i]] = function.defaults[i];
    }
  }
  if (!extra.empty() && !takes_extra)
    Fail(at, fmt::format("{}() takes {} arguments", function.name, slots));
  return scope;
}

Value Evaluator::InvokeUser(const Ast& at, const FunctionObject& function, Arguments arguments) {
  const Ast& code = *function.code;
  std::shared_ptr<Scope> scope = Parameters(at, function, std::move(arguments));
  scope->own = Own(code);
  DictObject* const callers_globals = std::exchange(globals_.dict, function.globals);
  const std::string* const callers_source = std::exchange(source_, function.source);
  const size_t before = visible_from_;
  const size_t depth = scopes_.size();
  visible_from_ = depth;
  scopes_.insert(scopes_.end(), function.captured.begin(), function.captured.end());
  scopes_.push_back(std::move(scope));
  Value result;
  if (code.kind == AstKind::kLambda) {
    result = Eval(*code.kids[0]);
  } else {
    const Flow flow = Block(*code.kids[0]);
    if (flow == Flow::kBreak || flow == Flow::kContinue)
      Fail(code, "`break` or `continue` outside of a loop");
    if (flow == Flow::kReturn) result = returned_;
  }
  scopes_.resize(depth);
  visible_from_ = before;
  globals_.dict = callers_globals;
  source_ = callers_source;
  return result;
}

void Evaluator::Need(const Ast& at, const Arguments& arguments, size_t least, size_t most,
                     const std::string& name) const {
  NeedCount(at, arguments, least, most, name);
  if (arguments.keywords.empty()) return;
  Fail(at, fmt::format("{}() can't take the argument `{}`", name, arguments.keywords[0].first));
}

void Evaluator::NeedCount(const Ast& at, const Arguments& arguments, size_t least, size_t most,
                          const std::string& name) const {
  const size_t count = arguments.positional.size();
  if (count >= least && count <= most) return;
  const std::string wanted = least == most      ? std::to_string(least)
                             : most == SIZE_MAX ? fmt::format("{} or more", least)
                                                : fmt::format("{} to {}", least, most);
  Fail(at,
       fmt::format("{}() takes {} argument{}, not {}", name, wanted, most == 1 ? "" : "s", count));
}

std::optional<Value> Evaluator::Keyword(Arguments& arguments, std::string_view name) {
  auto& keywords = arguments.keywords;
  auto it = std::find_if(keywords.begin(), keywords.end(),
                         [&](const auto& keyword) { return keyword.first == name; });
  if (it == keywords.end()) return std::nullopt;
  Value value = std::move(it->second);
  keywords.erase(it);
  return value;
}

// The places before it that aren't given become None, which stands for the default.
void Evaluator::PutKeyword(Arguments& arguments, std::string_view name, size_t place) {
  if (arguments.positional.size() > place) return;  // then it is given twice: Need() refuses it
  std::optional<Value> value = Keyword(arguments, name);
  if (!value) return;
  arguments.positional.resize(place);
  arguments.positional.push_back(*std::move(value));
}

std::string Evaluator::Id(const Ast& at, const Value& key) {
  std::string id;
  if (!KeyId(key, &id)) Fail(at, fmt::format("{} can't be a key", WithArticle(key.type)));
  constexpr size_t kShort = 256;
  Look(at, id.size() <= kShort ? 1 : id.size());
  return id;
}

bool Evaluator::EraseKey(const Ast& at, const Value& dict, const std::string& id) {
  for (int i = 0; i < 8; ++i) Look(at, dict);  // what stands behind it moves up, index and all
  return dict.dict->Erase(id);
}

void Evaluator::SetKey(const Ast& at, DictObject& dict, const Value& key, Value value) {
  Charge(at, sizeof(DictObject::Pair));
  dict.Set(key, Id(at, key), std::move(value));
}

}  // namespace xp::config::python
