#include <fmt/format.h>

#include <algorithm>

#include "exp/base/error.h"
#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

constexpr int kMaxHook = 150;

}  // namespace

void Evaluator::Run(const Ast& module) {
  // What the bases define is there before the first statement runs, as in mmengine, wherever the
  // imports stand: an assignment above `with read_base():` wins.
  for (const AstPtr& statement : module.kids) {
    if (statement->kind == AstKind::kWith) ImportBase(*statement);
  }
  auto names_base = [this](const Ast& statement) {
    return statement.kind == AstKind::kImportFrom && bases_.count(statement.text) > 0;
  };
  for (const AstPtr& statement : module.kids) {
    if (names_base(*statement)) BindBase(*statement);
  }
  for (const AstPtr& statement : module.kids) {
    if (statement->kind == AstKind::kWith || names_base(*statement)) continue;
    if (Execute(*statement) != Flow::kNext)
      Fail(*statement, "`break`, `continue` or `return` outside of a loop or function");
  }
}

Evaluator::Flow Evaluator::Execute(const Ast& statement) {
  Step(statement);
  switch (statement.kind) {
    case AstKind::kAssign: {
      Value value = Eval(*statement.kids[0]);
      Look(statement, statement.kids.size());
      for (size_t i = 1; i < statement.kids.size(); ++i) Assign(*statement.kids[i], value);
      return Flow::kNext;
    }
    case AstKind::kAugAssign:
      AugAssign(statement);
      return Flow::kNext;
    case AstKind::kExpression:
      Eval(*statement.kids[0]);
      return Flow::kNext;
    case AstKind::kDelete:
      Delete(*statement.kids[0]);
      return Flow::kNext;
    case AstKind::kIf: {
      for (size_t i = 0; i + 1 < statement.kids.size(); i += 2) {
        if (Truthy(Eval(*statement.kids[i]))) return Block(*statement.kids[i + 1]);
      }
      const Ast* otherwise = statement.kids.back().get();
      return otherwise == nullptr ? Flow::kNext : Block(*otherwise);
    }
    case AstKind::kFor:
      return For(statement);
    case AstKind::kWhile:
      return While(statement);
    case AstKind::kFunction:
      Bind(statement.text, EvalFunction(statement));
      return Flow::kNext;
    case AstKind::kGlobal:
      if (scopes_.size() > visible_from_) {
        const bool global = statement.text == "global";
        for (const std::string& name : statement.names) {
          Step(statement);
          if (!global && !Encloses(name))
            Fail(statement, fmt::format("no function around this one has a `{}`", name),
                 "write `global` for a name of the file");
          scopes_.back()->outer[name] = global;
        }
      }
      return Flow::kNext;
    case AstKind::kReturn:
      returned_ = statement.kids[0] == nullptr ? Value::None() : Eval(*statement.kids[0]);
      return Flow::kReturn;
    case AstKind::kPass:
      return Flow::kNext;
    case AstKind::kBreak:
      return Flow::kBreak;
    case AstKind::kContinue:
      return Flow::kContinue;
    case AstKind::kAssert:
      if (!Truthy(Eval(*statement.kids[0]))) {
        Fail(statement, "an assertion fails" +
                            (statement.kids[1] == nullptr
                                 ? ""
                                 : ": " + Converted(statement, Eval(*statement.kids[1]), "s")));
      }
      return Flow::kNext;
    case AstKind::kRaise:
      Raise(statement);
    case AstKind::kImport:
      Import(statement);
      return Flow::kNext;
    case AstKind::kImportFrom:
      ImportFrom(statement);
      return Flow::kNext;
    case AstKind::kWith:
      ImportBase(statement);
      return Flow::kNext;
    default:
      Fail(statement, "this statement can't be used in a config");
  }
}

// Whether a function around the one that runs has the name.
bool Evaluator::Encloses(const std::string& name) const {
  for (size_t i = scopes_.size() - 1; i > visible_from_; --i) {
    const Scope& scope = *scopes_[i - 1];
    if (scope.names.count(name) > 0 || (scope.own != nullptr && scope.own->count(name) > 0))
      return true;
  }
  return false;
}

// `raise ValueError('why')` ends the config. Exceptions aren't values here: the name is read from
// the text, the reason evaluated.
void Evaluator::Raise(const Ast& statement) {
  const Ast* exception = statement.kids[0].get();
  const bool call = exception != nullptr && exception->kind == AstKind::kCall;
  const Ast* name = call ? exception->kids[0].get() : exception;
  const bool named = name != nullptr && name->kind == AstKind::kName;
  std::string what = "the config raises " + (named ? name->text : "an exception");
  if (call && exception->kids.size() == 2)
    what += ": " + Converted(statement, Eval(*exception->kids[1]), "s");
  Fail(statement, what);
}

Evaluator::Flow Evaluator::Block(const Ast& block) {
  for (const AstPtr& statement : block.kids) {
    Flow flow = Execute(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::For(const Ast& statement) {
  const Ast& at = *statement.kids[1];
  const Value whole = Eval(at);
  RequireOrder(at, whole);
  Cursor cursor = Begin(at, whole);
  for (Value item; Next(at, cursor, &item);) {
    Step(statement);
    Assign(*statement.kids[0], std::move(item));
    Flow flow = Block(*statement.kids[2]);
    if (flow == Flow::kReturn) return flow;
    if (flow == Flow::kBreak) return Flow::kNext;
  }
  return statement.kids[3] == nullptr ? Flow::kNext : Block(*statement.kids[3]);
}

Evaluator::Flow Evaluator::While(const Ast& statement) {
  while (Truthy(Eval(*statement.kids[0]))) {
    Flow flow = Block(*statement.kids[1]);
    if (flow == Flow::kReturn) return flow;
    if (flow == Flow::kBreak) return Flow::kNext;
  }
  return statement.kids[2] == nullptr ? Flow::kNext : Block(*statement.kids[2]);
}

void Evaluator::Bind(const std::string& name, Value value) {
  if (scopes_.size() > visible_from_) {
    Scope& scope = *scopes_.back();
    auto outer = scope.outer.find(name);
    if (outer == scope.outer.end()) {
      scope.names[name] = std::move(value);
      return;
    }
    for (size_t i = scopes_.size() - 1; !outer->second && i > visible_from_; --i) {
      auto it = scopes_[i - 1]->names.find(name);
      if (it == scopes_[i - 1]->names.end()) continue;
      it->second = std::move(value);
      return;
    }
  }
  globals_.dict->Set(Value::String(name), "s" + name, std::move(value));
}

// `:=` in a comprehension names something of the function around it (PEP 572).
void Evaluator::BindOutsideComprehension(const std::string& name, Value value) {
  std::vector<std::shared_ptr<Scope>> inner;
  while (scopes_.size() > visible_from_ && scopes_.back()->comprehension) {
    inner.push_back(std::move(scopes_.back()));
    scopes_.pop_back();
  }
  Bind(name, std::move(value));
  scopes_.insert(scopes_.end(), inner.rbegin(), inner.rend());
}

void Evaluator::Assign(const Ast& target, Value value) {
  switch (target.kind) {
    case AstKind::kName:
      if (target.text == "_base_" && scopes_.size() == visible_from_) {
        Fail(target, "`_base_` is assigned in a way that names no bases",
             "name all bases in one `_base_ = [...]` at the top of the file");
      }
      Bind(target.text, std::move(value));
      return;
    case AstKind::kTuple:
    case AstKind::kList:
      Unpack(target, value);
      return;
    case AstKind::kAttribute: {
      Value object = EvalChain(*target.kids[0]);
      RequireSettable(target, object);
      SetItem(target, object, Value::String(target.text), std::move(value));
      return;
    }
    case AstKind::kSubscript: {
      Value object = EvalChain(*target.kids[0]);
      const Ast& index = *target.kids[1];
      if (index.kind == AstKind::kSlice) return SetSlice(target, object, EvalSlice(index), value);
      SetItem(target, object, Eval(index), std::move(value));
      return;
    }
    default:
      Fail(target, "this can't be assigned to");
  }
}

// object.name = value: of ConfigDicts only.
void Evaluator::RequireSettable(const Ast& target, const Value& object) const {
  if (object.type == Type::kLazy) {
    Fail(target,
         fmt::format("`{}` isn't read, so that nothing in it can be set", object.lazy->Text()),
         LazyAdvice(*object.lazy, "write the value out"));
  }
  if (object.type != Type::kDict)
    Fail(target, fmt::format("{} has no attributes to set", WithArticle(object.type)));
  if (!object.dict->config)
    Fail(target, "a plain dict's keys aren't attributes",
         fmt::format("write ['{}'] = ...", target.text));
  if (HasMethod(object, target.text))
    Fail(target, fmt::format("`{}` is a method of the dict", target.text),
         fmt::format("write ['{}'] = ...", target.text));
}

void Evaluator::SetSlice(const Ast& target, const Value& object, const SliceParts& slice,
                         const Value& value) {
  if (object.type != Type::kList) Fail(target, "only a list's slice can be set");
  Look(target, object);
  RequireOrder(target, object);
  auto& list = object.list->items;
  std::vector<Value> items = Iterate(target, value);
  auto [from, to, step] = Bounds(target, slice, list.size());
  if (step != 1) {
    std::vector<size_t> positions = SlicePositions(target, slice, list.size());
    if (positions.size() != items.size()) {
      Fail(target,
           fmt::format("{} values for a slice of {} elements", items.size(), positions.size()));
    }
    for (size_t i = 0; i < positions.size(); ++i) list[positions[i]] = std::move(items[i]);
    return;
  }
  to = std::max(from, to);
  list.erase(list.begin() + from, list.begin() + to);
  list.insert(list.begin() + from, items.begin(), items.end());
}

void Evaluator::DeleteSlice(const Ast& target, const Value& object) {
  if (object.type != Type::kList) Fail(target, "only a list's slice can be deleted");
  Look(target, object);
  RequireOrder(target, object);
  auto& list = object.list->items;
  std::vector<bool> drop(list.size());
  for (size_t i : SlicePositions(target, EvalSlice(*target.kids[1]), list.size())) drop[i] = true;
  std::vector<Value> kept;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!drop[i]) kept.push_back(std::move(list[i]));
  }
  list = std::move(kept);
}

void Evaluator::Unpack(const Ast& target, const Value& value) {
  std::vector<Value> items = Iterate(target, value);
  size_t star = target.kids.size();
  for (size_t i = 0; i < target.kids.size(); ++i) {
    if (target.kids[i]->kind != AstKind::kStarred) continue;
    if (star < target.kids.size()) Fail(target, "two names with a * share the values");
    star = i;
  }
  bool starred = star < target.kids.size();
  size_t fixed = target.kids.size() - (starred ? 1 : 0);
  if (starred ? items.size() < fixed : items.size() != fixed) {
    Fail(target, fmt::format("{} values for {} names", items.size(), target.kids.size()));
  }
  size_t extra = items.size() - fixed;
  size_t at = 0;
  for (size_t i = 0; i < target.kids.size(); ++i) {
    if (i != star) {
      Assign(*target.kids[i], items[at++]);
      continue;
    }
    std::vector<Value> rest(items.begin() + static_cast<long>(at),
                            items.begin() + static_cast<long>(at + extra));
    Assign(*target.kids[i]->kids[0], arena_.List(std::move(rest)));
    at += extra;
  }
}

// What a ConfigDict makes of a value that is put into it: plain dicts become ConfigDicts, lists are
// copied.
Value Evaluator::Hook(const Ast& at, const Value& value, int depth) {
  if (depth > kMaxHook) Fail(at, "the value is nested too deeply, or holds itself");
  Step(at);
  Value out = value;
  if (value.IsSequence()) {
    std::vector<Value> items;
    for (const Value& item : value.list->items) items.push_back(Hook(at, item, depth + 1));
    Charge(at, items.size() * sizeof(Value));
    out.list = ListLike(value, std::move(items)).list;
  } else if (value.type == Type::kDict && !value.dict->config) {
    out.dict = arena_.Dict(true).dict;
    for (const DictObject::Pair& pair : value.dict->pairs) {
      out.dict->Set(pair.key, pair.id, Hook(at, pair.value, depth + 1));
    }
    Charge(at, value.dict->pairs.size() * sizeof(DictObject::Pair));
  }
  return out;
}

void Evaluator::SetItem(const Ast& at, const Value& object, const Value& index, Value value) {
  if (object.type == Type::kDict) {
    SetKey(at, *object.dict, index, object.dict->config ? Hook(at, value) : std::move(value));
    return;
  }
  if (object.type != Type::kList)
    Fail(at, fmt::format("{}'s elements can't be set", WithArticle(object.type)));
  if (!index.IsIntegral()) Fail(at, "a list's index is an int");
  RequireOrder(at, object);
  object.list->items[Position(at, index.AsInt(), object.list->items.size())] = std::move(value);
}

// Changes what `left` is, so that every name for it sees the change; false for what can't change.
bool Evaluator::InPlace(const Ast& at, const std::string& op, const Value& left,
                        const Value& right) {
  if (left.type == Type::kList && op == "+") {
    const bool unordered = NoOrder(right);
    std::vector<Value> items = Members(at, right);
    left.list->items.insert(left.list->items.end(), items.begin(), items.end());
    left.list->unordered = left.list->unordered || unordered;
    return true;
  }
  if (left.type == Type::kList && op == "*" && right.IsIntegral()) {
    left.list->items = Repeat(at, left, right.AsInt()).list->items;
    return true;
  }
  if (left.type == Type::kDict && op == "|") {
    UpdateDict(at, *left.dict, right, left.dict->config);
    return true;
  }
  const bool sets = op == "|" || op == "&" || op == "-" || op == "^";
  if (left.type == Type::kSet && sets && (right.type == Type::kSet || right.type == Type::kKeys)) {
    const Value result = Sets(at, op, left, right);
    left.dict->Clear();
    AddAll(at, left, result);
    return true;
  }
  return false;
}

// The target's object and index are evaluated once, before the value, as in Python.
void Evaluator::AugAssign(const Ast& statement) {
  const Ast& target = *statement.kids[0];
  const bool attribute = target.kind == AstKind::kAttribute;
  const bool inside = attribute || target.kind == AstKind::kSubscript;
  if (!inside && target.kind != AstKind::kName) Fail(target, "this can't be assigned to");
  const bool sliced = inside && !attribute && target.kids[1]->kind == AstKind::kSlice;
  Value object, index;
  SliceParts slice;
  Value left;
  if (inside) {
    const std::string path = ChainPath(target);
    object = EvalChain(*target.kids[0]);
    if (attribute) RequireSettable(target, object);
    if (sliced) {
      slice = EvalSlice(*target.kids[1]);
    } else {
      index = attribute ? Value::String(target.text) : Eval(*target.kids[1]);
    }
    left = sliced ? Slice(target, object, slice) : Element(target, object, index);
    left.from = Join(left.from, object.from);
    if (!path.empty()) left = Place(Derived(std::move(left), path), target);
  } else {
    left = Eval(target);
  }
  const Value right = Eval(*statement.kids[1]);
  Value value = left;
  if (!InPlace(statement, statement.text, left, right)) {
    value = Place(Binary(statement, statement.text, left, right), statement);
    value.from = Join(left.from, right.from);
  }
  if (sliced) {
    SetSlice(target, object, slice, value);
  } else if (inside) {
    SetItem(target, object, index, std::move(value));
  } else {
    Bind(target.text, std::move(value));
  }
}

void Evaluator::Delete(const Ast& target) {
  if (target.kind == AstKind::kTuple || target.kind == AstKind::kList) {
    for (const AstPtr& kid : target.kids) Delete(*kid);
    return;
  }
  if (target.kind == AstKind::kName) {
    if (Unassigned(target.text))
      Fail(target, fmt::format("`{}` is deleted before the function assigns it", target.text));
    bool local = scopes_.size() > visible_from_ && scopes_.back()->names.erase(target.text) > 0;
    if (!local && !EraseKey(target, globals_, "s" + target.text))
      Fail(target, fmt::format("the name `{}` isn't defined", target.text));
    return;
  }
  if (target.kind != AstKind::kAttribute && target.kind != AstKind::kSubscript)
    Fail(target, "this can't be deleted");
  Value object = EvalChain(*target.kids[0]);
  Value index;
  if (target.kind == AstKind::kAttribute) {
    index = Value::String(target.text);
  } else if (target.kids[1]->kind == AstKind::kSlice) {
    DeleteSlice(target, object);
    return;
  } else {
    index = Eval(*target.kids[1]);
  }
  RequireOrder(target, object);
  if (object.type == Type::kDict) {
    if (!EraseKey(target, object, Id(target, index)))
      Fail(target, fmt::format("the dict has no key {}", Shown(index)));
  } else if (object.type == Type::kList && index.IsIntegral()) {
    Look(target, object);
    object.list->items.erase(
        object.list->items.begin() +
        static_cast<long>(Position(target, index.AsInt(), object.list->items.size())));
  } else {
    Fail(target, fmt::format("{}'s elements can't be deleted", WithArticle(object.type)));
  }
}

}  // namespace xp::config::python
