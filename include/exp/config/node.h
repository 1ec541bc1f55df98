// One value of a config: null, bool, int, float, string, list or dict, and where it came from.
//
// A Node is a value: copying it costs a reference count (containers are shared until one copy is
// changed), so trees are passed, kept and compared freely. Dicts keep the order in which keys were
// written. Int and float are different kinds: `1` and `1.0` differ in the config's identity.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace xp::config {

enum class Kind : uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kDict };

// "null", "a bool", "an int", "a float", "a string", "a list", "a dict": for messages.
const char* KindName(Kind kind);

// Where a value was written. `source` is a file's path or an override's name ("--set #2"); it
// points to a name that lives as long as the process (InternName). line and column count from 1; 0:
// unknown.
struct Origin {
  const std::string* source = nullptr;
  int line = 0;
  int column = 0;

  // "configs/a.yaml:3:7", "--set #2", or "" when unknown.
  std::string Text() const;
};

// The same pointer for equal names.
const std::string* InternName(std::string_view name);

// How a value came to be what it is.
enum class Action : uint8_t {
  kWritten,       // stood in a file
  kComputed,      // a Python config's expression
  kMerged,        // a dict of a later layer was merged into it
  kOverridden,    // --set
  kInterpolated,  // ${a.b}
  kDeleted,       // _delete_, or --set ~key, dropped what stood there before
};
const char* ActionName(Action action);

class Node;
struct Entry;  // a dict's key and value
struct Layer;  // one step of a value's history

class Node {
 public:
  Node() = default;  // null
  explicit Node(bool value) : value_(value) {}
  explicit Node(int value) : value_(static_cast<int64_t>(value)) {}
  explicit Node(int64_t value) : value_(value) {}
  explicit Node(double value) : value_(value) {}
  explicit Node(std::string value) : value_(std::move(value)) {}
  explicit Node(std::string_view value) : value_(std::string(value)) {}
  explicit Node(const char* value) : value_(std::string(value)) {}
  static Node List(std::vector<Node> items = {});
  static Node Dict();

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool IsNull() const { return kind() == Kind::kNull; }
  bool IsBool() const { return kind() == Kind::kBool; }
  bool IsInt() const { return kind() == Kind::kInt; }
  bool IsFloat() const { return kind() == Kind::kFloat; }
  bool IsNumber() const { return IsInt() || IsFloat(); }
  bool IsString() const { return kind() == Kind::kString; }
  bool IsList() const { return kind() == Kind::kList; }
  bool IsDict() const { return kind() == Kind::kDict; }
  bool IsContainer() const { return IsList() || IsDict(); }

  // The value. Calling one that doesn't fit the kind is a programmer's mistake
  // (std::bad_variant_access); code that reads what a user wrote uses Reader, whose errors say file
  // and line.
  bool AsBool() const { return std::get<bool>(value_); }
  int64_t AsInt() const { return std::get<int64_t>(value_); }
  double AsDouble() const {
    return IsInt() ? static_cast<double>(AsInt()) : std::get<double>(value_);
  }
  const std::string& AsString() const { return std::get<std::string>(value_); }

  // Elements or entries; 0 for a scalar.
  size_t size() const;

  // List.
  const std::vector<Node>& items() const;
  std::vector<Node>& mutable_items();
  const Node& operator[](size_t index) const { return items()[index]; }
  void Append(Node value) { mutable_items().push_back(std::move(value)); }

  // Dict, in the order of writing.
  const std::vector<Entry>& entries() const;
  const Node* Find(std::string_view key) const;  // nullptr when absent or not a dict
  Node* FindMutable(std::string_view key);
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  Node& Set(std::string_view key, Node value);  // replaces in place, or adds at the end
  bool Erase(std::string_view key);

  // By dotted path, list elements by index ("model.neck.in_channels.0", "a.-1"); nullptr when
  // absent. Keys that hold a dot are quoted: a."b.c".
  const Node* At(std::string_view path) const;

  // YAML tag such as "!AnchorGrid"; empty for most.
  std::string_view tag() const { return tag_ ? std::string_view(*tag_) : std::string_view(); }
  void set_tag(std::string_view tag) { tag_ = tag.empty() ? nullptr : InternName(tag); }

  const Origin& origin() const { return origin_; }
  void set_origin(const Origin& origin) { origin_ = origin; }
  // ": " suffix-free place for messages; "" when unknown.
  std::string Where() const { return origin_.Text(); }

  // Newest first, linked; nullptr when the value was simply written at origin(). The first layer is
  // the present value's.
  const std::shared_ptr<const Layer>& history() const { return history_; }
  void set_history(std::shared_ptr<const Layer> history) { history_ = std::move(history); }
  // The layers oldest first, the present one last. Never empty.
  std::vector<Layer> History() const;

 private:
  struct ListData;
  struct DictData;
  DictData& MutableDict();

  std::variant<std::monostate, bool, int64_t, double, std::string, std::shared_ptr<ListData>,
               std::shared_ptr<DictData>>
      value_;
  const std::string* tag_ = nullptr;
  Origin origin_;
  std::shared_ptr<const Layer> history_;
};

struct Entry {
  std::string key;
  Node value;
};

// A key that a computed value was derived from, and what that key's value was then.
struct Source {
  std::string path;
  std::shared_ptr<const Node>
      value;  // nullptr: the same as the derived value itself (a plain copy)
};
using Sources = std::shared_ptr<const std::vector<Source>>;

struct Layer {
  Action action = Action::kWritten;
  Origin at;
  Node value;        // what stood there then; null for kMerged, whose dict goes on
  Sources from;      // for kComputed; may be null
  std::string note;  // "from data_root (configs/a.yaml:1:12)"
  std::shared_ptr<const Layer> older;

  Layer() = default;
  Layer(const Layer&) = default;
  Layer(Layer&&) = default;
  Layer& operator=(const Layer&) = default;
  Layer& operator=(Layer&&) = default;
  ~Layer();  // without recursion, so that a long history can't exhaust the stack
};

// `next` took the place of `before`: gives it before's history plus its own layer.
void Supersede(const Node& before, Action action, Node& next, std::string note = {});

// Equal kinds, tags and values, in any order of keys; origins don't count. NaN equals NaN.
bool Equal(const Node& a, const Node& b);

// Splits "a.b.0.\"x.y\"" into its keys. Throws UsageError naming `where` on an empty key or an open
// quote.
std::vector<std::string> SplitPath(std::string_view path, const std::string& where = {});
// The opposite: joins, quoting keys that need it.
std::string JoinPath(std::string_view prefix, std::string_view key);

}  // namespace xp::config
