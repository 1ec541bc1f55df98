// Runs a config's statements: a Python without input and output, bounded in steps, depth and
// memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exp/config/load.h"
#include "src/config/python/ast.h"
#include "src/config/python/cursor.h"
#include "src/config/python/format_spec.h"
#include "src/config/python/value.h"

namespace xp::config::python {

// What a base imported by read_base() holds.
struct Namespace {
  Value globals;                             // a dict
  std::unordered_set<std::string> imported;  // names that aren't part of the result
};

// The names of a function's call or of a comprehension. Functions made in it share it, so that they
// see later assignments.
struct Scope {
  std::unordered_map<std::string, Value> names;
  std::unordered_map<std::string, bool> outer;  // `global x` (true), `nonlocal x` (false)
  std::shared_ptr<const std::unordered_set<std::string>> own;  // what the function assigns anywhere
  bool comprehension = false;
};

class Evaluator {
 public:
  Evaluator(Arena& arena, const std::string* source)
      : arena_(arena), budget_(arena.budget()), source_(source), globals_(arena.Dict()) {}

  // Everything the file may see besides its own names; `base` may be None.
  void SetBase(Value base) { base_ = std::move(base); }
  // Reads a module named in `with read_base():`; null when the file isn't of the new style.
  void SetImporter(std::function<Namespace(const std::string& module, const Origin& at)> importer) {
    importer_ = std::move(importer);
  }

  void Run(const Ast& module);
  Value Evaluate(const Ast& expression) { return Eval(expression); }

  // What a ConfigDict makes of a value.
  Value AsConfig(const Value& value) { return Hook(Ast(), value); }

  Value& globals() { return globals_; }
  std::unordered_set<std::string>& imported() { return imported_; }

 private:
  enum class Flow { kNext, kBreak, kContinue, kReturn };
  struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> keywords;
  };
  static constexpr int kMaxEvalDepth = 700;
  struct SliceParts {  // as written; None: left out
    Value from, to, step;
  };
  struct SliceBounds {  // within a sequence, so that none is counted from its end
    int64_t from, to, step;
  };
  struct DepthGuard {
    DepthGuard(Evaluator& evaluator, const Ast& at) : evaluator_(evaluator) {
      if (++evaluator_.depth_ > kMaxEvalDepth) evaluator_.Fail(at, "evaluation nests too deeply");
    }
    ~DepthGuard() { --evaluator_.depth_; }
    DepthGuard(const DepthGuard&) = delete;
    DepthGuard& operator=(const DepthGuard&) = delete;
    Evaluator& evaluator_;
  };

  [[noreturn]] void Fail(const Ast& at, const std::string& what,
                         const std::string& next = {}) const;
  void Step(const Ast& at);
  void Charge(const Ast& at, size_t bytes);
  void Look(const Ast& at, const Value& whole);  // before all of it is gone through
  void Look(const Ast& at, size_t count);
  // Before `what` is searched for in all of `text`, or each of its characters in `what`.
  void LookFor(const Ast& at, std::string_view what, std::string_view text);
  Looked looked() const { return {&budget_.looked}; }
  Origin At(const Ast& ast) const { return {source_, ast.line, ast.column}; }
  Value Place(Value value, const Ast& ast) const;

  // statement_eval.cpp
  Flow Execute(const Ast& statement);
  [[noreturn]] void Raise(const Ast& statement);
  Flow Block(const Ast& block);
  bool Encloses(const std::string& name) const;
  Flow For(const Ast& statement);
  Flow While(const Ast& statement);
  void Assign(const Ast& target, Value value);
  void Unpack(const Ast& target, const Value& value);
  void RequireSettable(const Ast& target, const Value& object) const;
  void SetItem(const Ast& at, const Value& object, const Value& index, Value value);
  void AugAssign(const Ast& statement);
  bool InPlace(const Ast& at, const std::string& op, const Value& left, const Value& right);
  void Delete(const Ast& target);
  void Bind(const std::string& name, Value value);
  void BindOutsideComprehension(const std::string& name, Value value);
  void SetSlice(const Ast& target, const Value& object, const SliceParts& slice,
                const Value& value);
  void DeleteSlice(const Ast& target, const Value& object);
  Value Hook(const Ast& at, const Value& value, int depth = 0);

  // imports.cpp
  void Import(const Ast& statement);
  void ImportFrom(const Ast& statement);
  void ImportBase(const Ast& statement);
  void BindBase(const Ast& line);

  // expression_eval.cpp
  Value Eval(const Ast& ast);
  Value EvalFunction(const Ast& ast);
  Value EvalDisplay(const Ast& ast);
  Value EvalDict(const Ast& ast);
  Value EvalComprehension(const Ast& ast);
  // *unordered: whether a set was gone through.
  void Clause(const Ast& ast, size_t clause, bool* unordered, const std::function<void()>& body);
  Value EvalFString(const Ast& ast);
  Value EvalCompare(const Ast& ast);
  bool Holds(const Ast& at, const std::string& op, const Value& left, const Value& right);
  bool Contains(const Ast& at, const Value& container, const Value& item);
  bool Same(const Ast& at, const Value& left, const Value& right);

  // access_eval.cpp
  Value EvalName(const Ast& ast);
  Value NamedFunction(const std::string& name);
  Value EvalChain(const Ast& ast);
  Value EvalPlaceholder(const Ast& ast);
  Value Attribute(const Ast& at, const Value& object, const std::string& name);
  Value Subscript(const Ast& at, const Value& object, const Ast& index);
  Value Element(const Ast& at, const Value& object, const Value& index);
  Value Slice(const Ast& at, const Value& object, const SliceParts& slice);
  Value SliceText(const Ast& at, const Value& object, const SliceParts& slice);
  size_t Position(const Ast& at, int64_t index, size_t size, const char* whole = "a list") const;
  SliceParts EvalSlice(const Ast& slice);
  std::vector<size_t> SlicePositions(const Ast& at, const SliceParts& slice, size_t size) const;
  SliceBounds Bounds(const Ast& at, const SliceParts& slice, size_t size) const;
  std::string ChainPath(const Ast& ast) const;
  Value Derived(Value value, const std::string& path);
  Value* Local(const std::string& name);
  // Whether a function assigns the name, but hasn't yet: it isn't looked for elsewhere then.
  bool Unassigned(const std::string& name) const;
  std::shared_ptr<const std::unordered_set<std::string>> Own(const Ast& function);

  // operators.cpp
  // An int of a float without fraction; refuses what 64 bits can't hold.
  Value WholeNumber(const Ast& at, double value) const;
  Value Unary(const Ast& at, const std::string& op, const Value& operand);
  Value Binary(const Ast& at, const std::string& op, const Value& left, const Value& right);
  Value Integers(const Ast& at, const std::string& op, int64_t a, int64_t b);
  Value Floats(const Ast& at, const std::string& op, double a, double b);
  Value Repeat(const Ast& at, const Value& value, int64_t count);
  Value Merged(const Ast& at, const Value& left, const Value& right);
  Value Sets(const Ast& at, const std::string& op, const Value& left, const Value& right);

  // builtins.cpp, builtins_sequence.cpp, builtins_text.cpp
  Value AnyAll(const Ast& at, const std::string& name, Arguments& arguments);
  Value Attributes(const Ast& at, const std::string& name, Arguments& arguments);
  Value Calculate(const Ast& at, const std::string& name, Arguments& arguments);
  Value Collect(const Ast& at, const std::string& name, Arguments& arguments);
  Value Convert(const Ast& at, const std::string& name, Arguments& arguments);
  Value Enumerate(const Ast& at, const std::string& name, Arguments& arguments);
  Value Extreme(const Ast& at, const std::string& name, Arguments& arguments);
  Value IsInstance(const Ast& at, const std::string& name, Arguments& arguments);
  Value Kind(const Ast& at, const std::string& name, Arguments& arguments);
  Value Length(const Ast& at, const std::string& name, Arguments& arguments);
  Value Map(const Ast& at, const std::string& name, Arguments& arguments);
  Value Filter(const Ast& at, const std::string& name, Arguments& arguments);
  std::optional<std::vector<Value>> Row(const Ast& at, std::vector<Cursor>& columns);
  Value Print(const Ast& at, const std::string& name, Arguments& arguments);
  Value Range(const Ast& at, const std::string& name, Arguments& arguments);
  Value Reversed(const Ast& at, const std::string& name, Arguments& arguments);
  Value Round(const Ast& at, const std::string& name, Arguments& arguments);
  Value Sorted(const Ast& at, const std::string& name, Arguments& arguments);
  Value Sum(const Ast& at, const std::string& name, Arguments& arguments);
  Value Text(const Ast& at, const std::string& name, Arguments& arguments);
  Value Zip(const Ast& at, const std::string& name, Arguments& arguments);

  // calls.cpp, builtins.cpp, modules.cpp, methods.cpp, string_methods.cpp
  Value Call(const Ast& ast);
  Arguments EvalArguments(const Ast& call);
  Value Invoke(const Ast& at, const Value& function, Arguments arguments);
  Value InvokeBuiltin(const Ast& at, const FunctionObject& function, Arguments& arguments);
  Value InvokeUser(const Ast& at, const FunctionObject& function, Arguments arguments);
  std::shared_ptr<Scope> Parameters(const Ast& at, const FunctionObject& function,
                                    Arguments arguments);
  Value Builtin(const Ast& at, const std::string& name, Arguments& arguments);
  using BuiltinFunction = Value (Evaluator::*)(const Ast& at, const std::string& name,
                                               Arguments& arguments);
  static const BuiltinFunction* FindBuiltin(const std::string& name);  // null: there is none
  Value Module(const Ast& at, const std::string& name, Arguments& arguments);
  Value Mathematics(const Ast& at, const std::string& name, Arguments& arguments);
  Value MathOfInts(const Ast& at, const std::string& name, Arguments& arguments);
  bool IsClose(const Ast& at, Arguments& arguments);
  Value Path(const Ast& at, const std::string& name, Arguments& arguments);
  Value Environment(const Ast& at, const std::string& name, Arguments& arguments);
  Value Method(const Ast& at, const FunctionObject& method, Arguments& arguments);
  Value StringMethod(const Ast& at, const std::string& name, const Value& self,
                     Arguments& arguments);
  Value Split(const Ast& at, const std::string& name, const Value& self, Arguments& arguments);
  Value Search(const Ast& at, const std::string& name, const Value& self, Arguments& arguments);
  Value Widen(const Ast& at, const std::string& name, const Value& self, Arguments& arguments);
  Value Replace(const Ast& at, const std::string& text, Arguments& arguments);
  Value Strings(const Ast& at, std::vector<std::string> parts, Type type);
  Value ListMethod(const Ast& at, const std::string& name, const Value& self, Arguments& arguments);
  Value SetMethod(const Ast& at, const std::string& name, const Value& self, Arguments& arguments);
  Value DictMethod(const Ast& at, const std::string& name, const Value& self, Arguments& arguments);
  Value MakeDict(const Ast& at, const std::string& name, Arguments& arguments);
  void UpdateDict(const Ast& at, DictObject& dict, const Value& from, bool recursive,
                  int depth = 0);
  void MergeConfig(const Ast& at, DictObject& dict, const Value& from, int depth = 0);
  // What is one object in the value is one in its copy. `done`: copies by their originals.
  using Copies = std::unordered_map<const void*, Value>;
  Value DeepCopy(const Ast& at, const Value& value, Copies& done, int depth = 0);
  Value PlainCopy(const Ast& at, const Value& value, int depth = 0);  // ConfigDict.to_dict()
  Value DictLike(const DictObject& other);                            // an empty one of its kind
  void AddAll(const Ast& at, const Value& set, const Value& from);

  // iterate.cpp
  Cursor Begin(const Ast& at, const Value& whole);
  bool Next(const Ast& at, Cursor& cursor, Value* item);
  void RequireOrder(const Ast& at, const Value& whole) const;
  std::vector<Value> Iterate(const Ast& at, const Value& whole);  // refuses what has no order
  std::vector<Value> Members(const Ast& at, const Value& whole);  // in any order
  Value Iterator(std::vector<Value> items, bool unordered = false);
  Value ListLike(const Value& other, std::vector<Value> items);  // of its type, ordered as it is
  // str(), repr() or ascii(), by conversion "s", "r" or "a".
  std::string Converted(const Ast& at, const Value& value, std::string_view conversion);
  std::string Format(const Ast& at, const Value& value, const std::string& spec);
  std::string FormatTemplate(const Ast& at, std::string_view text, const Arguments& arguments,
                             size_t* next, int depth = 0);
  Value FormatField(const Ast& at, const std::string& name, const Arguments& arguments,
                    size_t* next);
  struct PercentValues;
  std::string Percent(const Ast& at, const std::string& text, const Value& value);
  std::string PercentField(const Ast& at, const std::string& text, size_t* position,
                           PercentValues& values);
  std::string PercentNumber(const Ast& at, const Value& value, FormatSpec spec) const;
  int PercentCount(const Ast& at, const std::string& text, size_t* position,
                   PercentValues& values) const;
  const Value& NextOf(const Ast& at, PercentValues& values) const;
  static bool IsBuiltin(const std::string& name);
  static bool IsModuleMember(const std::string& name);
  static bool HasMethod(const Value& object, const std::string& name);
  // How many arguments a builtin takes. Those that may be named are moved to their places before
  // (PutKeyword) or taken out (Keyword): what is left by name is refused.
  void Need(const Ast& at, const Arguments& arguments, size_t least, size_t most,
            const std::string& name) const;
  void NeedCount(const Ast& at, const Arguments& arguments, size_t least, size_t most,
                 const std::string& name) const;
  static std::optional<Value> Keyword(Arguments& arguments, std::string_view name);
  static void PutKeyword(Arguments& arguments, std::string_view name, size_t place);
  void SetKey(const Ast& at, DictObject& dict, const Value& key, Value value);
  bool EraseKey(const Ast& at, const Value& dict, const std::string& id);  // false: has none such
  std::string Id(const Ast& at, const Value& key);

  Arena& arena_;
  Budget& budget_;
  const std::string* source_;
  Value globals_;
  Value base_;
  std::function<Namespace(const std::string&, const Origin&)> importer_;
  std::unordered_map<std::string, Namespace> bases_;  // by module, of read_base()
  std::unordered_set<std::string> imported_;
  std::vector<std::shared_ptr<Scope>> scopes_;  // of functions and comprehensions, innermost last
  size_t visible_from_ = 0;                     // scopes before it belong to callers
  Value returned_;
  std::unordered_map<const Ast*, std::shared_ptr<const std::unordered_set<std::string>>> own_;
  std::unordered_map<std::string, Value> builtins_;  // those that were named, by name
  int depth_ = 0;
  int calls_ = 0;
};

// Whether `module` ("os.path") belongs to Python's standard library.
bool IsStandardModule(const std::string& module);

// A Node as a value of the evaluator, ConfigDicts and all; and back. ToNode throws UsageError for
// what no config can hold.
Value FromNode(Arena& arena, const Node& node);
Node ToNode(const Value& value);

}  // namespace xp::config::python
