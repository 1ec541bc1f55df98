// Python values while a config is evaluated. Containers are shared by reference, as in Python; an
// Arena owns them, so that cycles and deep nesting are freed in one go.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exp/config/node.h"
#include "src/config/python/ast.h"

namespace xp::config::python {

enum class Type : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kSet,
  kFunction,
  kLazy,
  kModule,
  kEllipsis,
  kRange,
  kIterator,  // of zip, map, a generator: gone through once
  kKeys,      // of a dict, whose changes they see
  kValues,
  kItems,
  kBig  // an int of 2^63 to 2^64 - 1, such as a seed: kept as its digits, not to be calculated with
};

const char* TypeName(Type type);
std::string WithArticle(Type type);  // "a list", "an int", "None"

struct ListObject;
struct DictObject;
struct FunctionObject;
struct LazyObject;
struct Scope;

// One value with its origin, the layers that it brought along from a base, and the keys that it was
// derived from.
struct Value {
  Type type = Type::kNone;
  union {
    bool boolean;
    int64_t integer = 0;
    double number;
    ListObject* list;  // also tuples, ranges and iterators
    DictObject* dict;  // also sets, whose values are unused, and views of a dict
    FunctionObject* function;
    LazyObject* lazy;
  };
  std::shared_ptr<const std::string> string;  // kString; a kModule's name, a kBig's digits
  const std::string* tag = nullptr;
  Origin origin;
  std::shared_ptr<const Layer> history;
  Sources from;

  static Value None() { return {}; }
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  static Value String(std::string value);
  static Value Big(std::string digits);
  static Value Module(std::string name);

  bool IsNumber() const {
    return type == Type::kBool || type == Type::kInt || type == Type::kFloat;
  }
  bool IsIntegral() const { return type == Type::kBool || type == Type::kInt; }
  bool IsReal() const { return IsNumber() || type == Type::kBig; }
  bool IsSequence() const { return type == Type::kList || type == Type::kTuple; }
  bool IsList() const { return IsSequence() || type == Type::kRange || type == Type::kIterator; }
  bool IsView() const {
    return type == Type::kKeys || type == Type::kValues || type == Type::kItems;
  }
  bool IsDict() const { return type == Type::kDict || type == Type::kSet || IsView(); }
  int64_t AsInt() const { return type == Type::kBool ? static_cast<int64_t>(boolean) : integer; }
  double AsDouble() const { return type == Type::kFloat ? number : static_cast<double>(AsInt()); }
  const std::string& Text() const { return *string; }
};

struct ListObject {
  std::vector<Value> items;
  size_t next = 0;         // of an iterator: what comes next
  bool unordered = false;  // made of a set: its order isn't the same each time
};

// Keys in order of insertion; equal as Python's are (1 == 1.0 == True).
struct DictObject {
  struct Pair {
    Value key;
    std::string id;  // text that is equal for equal keys
    Value value;
  };
  std::vector<Pair> pairs;
  std::unordered_map<std::string, size_t> index;  // used from kIndexFrom pairs on
  bool config = false;   // mmengine's ConfigDict: update is recursive, attributes are keys
  bool ordered = false;  // an OrderedDict, for == and text
  bool changed = false;  // by the file being evaluated

  Pair* Find(const std::string& id);
  const Pair* Find(const std::string& id) const;
  Value& Set(const Value& key, const std::string& id, Value value);
  bool Erase(const std::string& id);
  void Clear();
};

// A function of the file, a lambda, a builtin or a bound method.
struct FunctionObject {
  std::string name;
  Value self;                   // a bound method's object
  const Ast* code = nullptr;    // of the file; null for builtins
  std::vector<Value> defaults;  // one a parameter; unused where code's is null
  std::vector<std::shared_ptr<Scope>> captured;
  // Of the file that defines it, which another may call: its names, and its path for messages.
  DictObject* globals = nullptr;
  const std::string* source = nullptr;
};

// mmengine's LazyObject and LazyAttr: a name imported from a package that isn't there at this time.
struct LazyObject {
  std::string module;  // "torch.optim"
  std::string name;    // "SGD"; empty for a module
  std::string Text() const { return module + "." + (name.empty() ? module : name); }
};

// What to do where more than its name is needed: detectron2's LazyConfigs are known by what they
// import; for others `otherwise`.
std::string LazyAdvice(const LazyObject& lazy, const std::string& otherwise);

// What one evaluation may use, over all files that it reads.
struct Budget {
  int64_t steps = 5'000'000;     // expressions and statements evaluated
  int64_t bytes = 256 << 20;     // strings and elements made
  int64_t looked = 200'000'000;  // elements, and bytes of long strings, gone through by builtins
};

// Takes the objects that it makes, not what they hold, off its budget.
class Arena {
 public:
  Budget& budget() { return budget_; }
  Value List(std::vector<Value> items = {}, Type type = Type::kList);
  Value Dict(bool config = false);
  Value Set();
  Value Function(FunctionObject function);
  Value Lazy(LazyObject lazy);

 private:
  Budget budget_;
  std::deque<ListObject> lists_;
  std::deque<DictObject> dicts_;
  std::deque<FunctionObject> functions_;
  std::deque<LazyObject> lazies_;
};

// The text by which a dict finds its key; false when the type isn't hashable, for NaN, and for
// tuples whose text would be longer than a MiB.
bool KeyId(const Value& key, std::string* id, int depth = 0);

// Python's str(), repr() and ascii(). They throw a std::string, a message, for what has no text
// that is the same each time: functions (an address), sets of several elements (an order).
std::string Str(const Value& value);
std::string Repr(const Value& value);
std::string Ascii(const Value& value);
std::string FloatRepr(double value);

// For messages and keys: str() of a dict's key, repr() of any value, cut short. They throw nothing.
std::string KeyText(const Value& key);
std::string Shown(const Value& value);

// Why a set's elements can't be gone through one by one.
inline constexpr char kNoOrder[] =
    "a set, or what is made of one, has no order that is the same each time";
inline constexpr char kSortIt[] = "sort it: sorted(...)";
// A set, or what is made of one, with several elements.
bool NoOrder(const Value& value);

// The number of the character that a string is.
uint32_t CodePoint(std::string_view character);

// Of an int of either kind, without its sign.
uint64_t Magnitude(const Value& value);

bool Truthy(const Value& value);
// What it costs to go through a value once, in elements: a short string is one.
size_t Weight(const Value& value);

// What comparisons may still look at, in elements, and how deep they are.
struct Looked {
  int64_t* left;
  int depth = 0;
};

// ==. Throws a std::string, a message, when nothing is left.
bool Equal(const Value& a, const Value& b, Looked looked);
// As containers compare their elements, which are equal too when they are one object: of two NaN
// that isn't known, which throws.
bool EqualElements(const Value& a, const Value& b, Looked looked);
// Unordered with NaN; also throws for values that Python doesn't order.
std::partial_ordering Compare(const Value& a, const Value& b, Looked looked);

// Union of what two values were derived from, at most kMostSources.
Sources Join(const Sources& a, const Sources& b);

}  // namespace xp::config::python
