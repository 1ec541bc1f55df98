#include "exp/config/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "src/config/scalar.h"
#include "src/config/suggest.h"

namespace xp::config {

struct Reader::Memory {
  Node root;
  std::unordered_set<std::string> read;   // full paths of values that were asked for
  std::unordered_set<std::string> whole;  // and everything below
};

namespace {

std::string Join(const std::string& prefix, std::string_view path) {
  if (prefix.empty()) return std::string(path);
  return path.empty() ? prefix : prefix + "." + std::string(path);
}

}  // namespace

Reader::Reader(Node root) : node_(std::move(root)), memory_(std::make_shared<Memory>()) {
  memory_->root = node_;
}

Reader::Reader(Node node, std::string prefix, std::shared_ptr<Memory> memory)
    : node_(std::move(node)), prefix_(std::move(prefix)), memory_(std::move(memory)) {}

std::string Reader::Full(std::string_view path) const { return Join(prefix_, path); }

const Node* Reader::Get(std::string_view path) const {
  const Node* node = node_.At(path);
  if (node == nullptr) return nullptr;
  // Normalised, so that `a."b"` and `a.b` are the same.
  std::string full = prefix_;
  for (const std::string& key : SplitPath(path)) full = JoinPath(full, key);
  memory_->read.insert(std::move(full));
  return node->IsNull() ? nullptr : node;
}

std::string Reader::Where(std::string_view path) const {
  const Node* node = &node_;
  std::string where = node->Where();
  for (const std::string& key : SplitPath(path)) {
    node = node->At(JoinPath("", key));
    if (node == nullptr) break;
    if (!node->Where().empty()) where = node->Where();
  }
  return where;
}

const Node& Reader::Need(std::string_view path, const char* expected) const {
  if (const Node* node = Get(path)) return *node;
  const Node* present = node_.At(path);
  std::vector<std::string> keys = SplitPath(path);
  const Node* parent = &node_;
  for (size_t i = 0; i + 1 < keys.size() && parent != nullptr; ++i)
    parent = parent->At(JoinPath("", keys[i]));
  std::vector<std::string> names;
  if (parent != nullptr && parent->IsDict()) {
    for (const Entry& entry : parent->entries()) names.push_back(entry.key);
  }
  std::string guess =
      present == nullptr && !keys.empty() ? DidYouMean(Nearest(keys.back(), names)) : "";
  throw UsageError(
      {.what = fmt::format("`{}` is {}", Full(path), present == nullptr ? "missing" : "null"),
       .where = Where(path),
       .expected = expected,
       .next = guess.empty() ? fmt::format("add it to the config, or --set +{}=...", Full(path))
                             : guess});
}

void Reader::Bad(std::string_view path, const std::string& what, const std::string& expected,
                 const std::string& next) const {
  const Node* node = node_.At(path);
  throw UsageError({.what = fmt::format("`{}` {}{}", Full(path), what,
                                        node == nullptr ? "" : " (it is " + Brief(*node) + ")"),
                    .where = Where(path),
                    .expected = expected,
                    .next = next});
}

namespace {

[[noreturn]] void WrongKind(const Reader& reader, std::string_view path, const Node& node,
                            const char* expected) {
  std::string next;
  const bool big = node.tag() == kBigInt;
  if (node.IsString() && !big) next = "write it without quotes";
  throw UsageError(
      {.what = fmt::format("`{}` is {}: {}", reader.Full(path),
                           big ? "an int above 2^63-1" : KindName(node.kind()), Brief(node)),
       .where = node.Where().empty() ? reader.Where(path) : node.Where(),
       .expected = expected,
       .next = std::string(expected).find("string") == std::string::npos ? next : ""});
}

constexpr const char* kNumber = "a number";
constexpr const char* kInt = "an int";
constexpr const char* kBool = "true or false";
constexpr const char* kString = "a string";

double ToDouble(const Reader& reader, std::string_view path, const Node& node) {
  if (!node.IsNumber()) WrongKind(reader, path, node, kNumber);
  if (!std::isfinite(node.AsDouble())) WrongKind(reader, path, node, "a finite number");
  return node.AsDouble();
}

int64_t ToInt(const Reader& reader, std::string_view path, const Node& node) {
  if (!node.IsInt()) WrongKind(reader, path, node, kInt);
  return node.AsInt();
}

bool ToBool(const Reader& reader, std::string_view path, const Node& node) {
  if (!node.IsBool()) WrongKind(reader, path, node, kBool);
  return node.AsBool();
}

std::string ToString(const Reader& reader, std::string_view path, const Node& node) {
  if (!node.IsString()) WrongKind(reader, path, node, kString);
  return node.AsString();
}

template <typename T, typename Convert>
std::vector<T> ToList(const Reader& reader, std::string_view path, const Node& node,
                      Convert convert) {
  std::vector<T> values;
  if (!node.IsList()) {
    values.push_back(convert(reader, path, node));
    return values;
  }
  for (size_t i = 0; i < node.size(); ++i) {
    values.push_back(convert(reader, std::string(path) + "." + std::to_string(i), node[i]));
  }
  return values;
}

}  // namespace

double Reader::Double(std::string_view path) const {
  return ToDouble(*this, path, Need(path, kNumber));
}
double Reader::Double(std::string_view path, double fallback) const {
  const Node* node = Get(path);
  return node == nullptr ? fallback : ToDouble(*this, path, *node);
}
int64_t Reader::Int(std::string_view path) const { return ToInt(*this, path, Need(path, kInt)); }
int64_t Reader::Int(std::string_view path, int64_t fallback) const {
  const Node* node = Get(path);
  return node == nullptr ? fallback : ToInt(*this, path, *node);
}
int Reader::IntWithin(std::string_view path, int fallback, int least, int most) const {
  const int64_t value = Int(path, fallback);
  if (value < least || value > most)
    Bad(path, "is out of range", fmt::format("an int from {} to {}", least, most));
  return static_cast<int>(value);
}
double Reader::DoubleWithin(std::string_view path, double fallback, double least,
                            double most) const {
  const double value = Double(path, fallback);
  if (!(value >= least && value <= most))
    Bad(path, "is out of range", fmt::format("a number from {:g} to {:g}", least, most));
  return value;
}
bool Reader::Bool(std::string_view path) const { return ToBool(*this, path, Need(path, kBool)); }
bool Reader::Bool(std::string_view path, bool fallback) const {
  const Node* node = Get(path);
  return node == nullptr ? fallback : ToBool(*this, path, *node);
}
std::string Reader::String(std::string_view path) const {
  return ToString(*this, path, Need(path, kString));
}
std::string Reader::String(std::string_view path, std::string_view fallback) const {
  const Node* node = Get(path);
  return node == nullptr ? std::string(fallback) : ToString(*this, path, *node);
}

std::vector<double> Reader::Doubles(std::string_view path) const {
  return ToList<double>(*this, path, Need(path, "a list of numbers"), ToDouble);
}
std::vector<double> Reader::Doubles(std::string_view path, std::vector<double> fallback) const {
  const Node* node = Get(path);
  return node == nullptr ? std::move(fallback) : ToList<double>(*this, path, *node, ToDouble);
}
std::vector<int64_t> Reader::Ints(std::string_view path) const {
  return ToList<int64_t>(*this, path, Need(path, "a list of ints"), ToInt);
}
std::vector<int64_t> Reader::Ints(std::string_view path, std::vector<int64_t> fallback) const {
  const Node* node = Get(path);
  return node == nullptr ? std::move(fallback) : ToList<int64_t>(*this, path, *node, ToInt);
}
std::vector<std::string> Reader::Strings(std::string_view path) const {
  return ToList<std::string>(*this, path, Need(path, "a list of strings"), ToString);
}
std::vector<std::string> Reader::Strings(std::string_view path,
                                         std::vector<std::string> fallback) const {
  const Node* node = Get(path);
  return node == nullptr ? std::move(fallback) : ToList<std::string>(*this, path, *node, ToString);
}

std::string Reader::Choice(std::string_view path, const std::vector<std::string>& choices) const {
  std::string value = String(path);
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  Bad(path, "isn't one of the values it can have", fmt::format("{}", fmt::join(choices, ", ")),
      DidYouMean(Nearest(value, choices)));
}

std::string Reader::Choice(std::string_view path, const std::vector<std::string>& choices,
                           std::string_view fallback) const {
  return Get(path) == nullptr ? std::string(fallback) : Choice(path, choices);
}

bool Reader::Has(std::string_view path) const {
  const Node* node = node_.At(path);
  if (node == nullptr) return false;
  if (node->IsNull()) Get(path);
  return !node->IsNull();
}

Reader Reader::Child(std::string_view path) const {
  const Node& node = Need(path, "a dict");
  if (!node.IsDict()) WrongKind(*this, path, node, "a dict");
  return {node, Full(path), memory_};
}

std::vector<Reader> Reader::Children(std::string_view path) const {
  const Node& node = Need(path, "a list of dicts");
  std::vector<Reader> children;
  if (node.IsDict()) {
    children.push_back({node, Full(path), memory_});
    return children;
  }
  if (!node.IsList()) WrongKind(*this, path, node, "a list of dicts");
  for (size_t i = 0; i < node.size(); ++i) {
    std::string item = std::string(path) + "." + std::to_string(i);
    if (!node[i].IsDict()) WrongKind(*this, item, node[i], "a dict");
    children.push_back({node[i], Full(item), memory_});
  }
  return children;
}

const Node* Reader::Raw(std::string_view path) const {
  const Node* node = Get(path);
  if (node != nullptr) memory_->whole.insert(Full(path));
  return node;
}

std::vector<UnusedKey> Reader::UnusedKeys() const {
  // A container is used when it, or anything in it, was read; dicts' own keys are then looked at
  // one by one. A list or dict that was read by a list getter counts whole.
  struct Walker {
    const Memory& memory;
    std::vector<UnusedKey> unused;

    bool Touched(const Node& node, const std::string& path) const {
      if (memory.read.count(path) > 0 || memory.whole.count(path) > 0) return true;
      if (node.IsDict()) {
        return std::any_of(node.entries().begin(), node.entries().end(), [&](const Entry& entry) {
          return Touched(entry.value, JoinPath(path, entry.key));
        });
      }
      if (!node.IsList()) return false;
      for (size_t i = 0; i < node.size(); ++i) {
        if (Touched(node[i], JoinPath(path, std::to_string(i)))) return true;
      }
      return false;
    }

    void Walk(const Node& node, const std::string& path) {
      if (memory.whole.count(path) > 0) return;
      if (node.IsDict()) {
        for (const Entry& entry : node.entries()) {
          std::string full = JoinPath(path, entry.key);
          if (Touched(entry.value, full)) {
            Walk(entry.value, full);
          } else {
            unused.push_back({full, entry.value.Where()});
          }
        }
      } else if (node.IsList()) {
        for (size_t i = 0; i < node.size(); ++i) {
          if (node[i].IsContainer()) Walk(node[i], JoinPath(path, std::to_string(i)));
        }
      }
    }
  };
  Walker walker{*memory_, {}};
  walker.Walk(memory_->root, "");
  return walker.unused;
}

}  // namespace xp::config
