#include "src/config/interpolate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "src/config/scalar.h"
#include "src/config/suggest.h"

namespace xp::config {
namespace {

constexpr size_t kMaxValues = 10'000'000;
constexpr size_t kMaxText = 1 << 20;
constexpr size_t kMaxSteps = 100;  // references that lead to references
constexpr int kMaxNested = 20;     // references inside each other's names

bool Mentions(const Node& node) {
  if (node.IsString()) return node.AsString().find("${") != std::string::npos;
  if (node.IsList()) return std::any_of(node.items().begin(), node.items().end(), Mentions);
  if (!node.IsDict()) return false;
  return std::any_of(node.entries().begin(), node.entries().end(),
                     [](const Entry& entry) { return Mentions(entry.value); });
}

class Interpolator {
 public:
  explicit Interpolator(const Node& root) : root_(root) {}

  Node Resolve(const Node& node, std::vector<std::string>& path) {
    if (!Mentions(node)) return node;
    if (node.IsString()) return ResolveText(node, path);
    Node out = node;
    if (node.IsList()) {
      for (size_t i = 0; i < node.size(); ++i) {
        path.push_back(std::to_string(i));
        out.mutable_items()[i] = Resolve(node[i], path);
        path.pop_back();
      }
      return out;
    }
    for (const Entry& entry : node.entries()) {
      path.push_back(entry.key);
      *out.FindMutable(entry.key) = Resolve(entry.value, path);
      path.pop_back();
    }
    return out;
  }

 private:
  // The value of a string with references, in its place.
  Node ResolveText(const Node& node, const std::vector<std::string>& path) {
    std::string note;
    Node value = Expand(node, path, &note);
    if (note.empty()) {  // only escapes
      value.set_origin(node.origin());
      value.set_history(node.history());
      return value;
    }
    value.set_origin(node.origin());
    value.set_history(nullptr);
    Supersede(node, Action::kInterpolated, value, note);
    return value;
  }

  Node Expand(const Node& node, const std::vector<std::string>& path, std::string* note) {
    const std::string& text = node.AsString();
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (text.compare(at, 3, "\\${") == 0) {
        out += "${";
        at += 3;
        continue;
      }
      if (text.compare(at, 2, "${") != 0) {
        out += text[at++];
        continue;
      }
      size_t close = Close(text, at, node);
      std::string name = text.substr(at + 2, close - at - 2);
      if (name.find("${") != std::string::npos) name = Inner(name, node, path, note);
      Node value = Lookup(name, node, path, note);
      if (at == 0 && close + 1 == text.size()) return value;
      if (value.IsContainer()) {
        Fail(node,
             fmt::format("${{{}}} is {} and can't stand inside text", name, KindName(value.kind())),
             "let the reference be the whole value");
      }
      out += value.IsString() ? value.AsString() : CanonicalJson(value);
      if (out.size() > kMaxText) Fail(node, "references multiply to more than 1 MiB of text", "");
      at = close + 1;
    }
    return Node(std::move(out));
  }

  // Where the `}` of the `${` at `at` is; others may stand inside: ${a.${b}}.
  static size_t Close(const std::string& text, size_t at, const Node& node) {
    int open = 0;
    for (size_t i = at; i < text.size(); ++i) {
      if (text.compare(i, 2, "${") == 0) ++open;
      if (open > kMaxNested) Fail(node, "references nested more than 20 levels deep", "");
      if (text[i] == '}' && --open == 0) return i;
    }
    Fail(node, "`${` isn't closed by `}` in " + Brief(node), "write \\${ for a literal ${");
  }

  // The name that a reference's text makes, whose parts are references themselves.
  std::string Inner(const std::string& name, const Node& node, const std::vector<std::string>& path,
                    std::string* note) {
    Node text(name);
    text.set_origin(node.origin());
    Node value = Expand(text, path, note);
    if (value.IsContainer())
      Fail(node, fmt::format("{} in a reference is {}", name, KindName(value.kind())), "");
    return value.IsString() ? value.AsString() : CanonicalJson(value);
  }

  Node Lookup(const std::string& name, const Node& node, const std::vector<std::string>& path,
              std::string* note) {
    if (name.rfind("env:", 0) == 0 || name.rfind("oc.env:", 0) == 0) {
      return Environment(name.substr(name.find(':') + 1), node, note);
    }
    std::vector<std::string> keys = Absolute(name, node, path);
    std::string full;
    for (const std::string& key : keys) full = JoinPath(full, key);
    const Node& value = Target(keys, full, name, node);
    *note += fmt::format("{}{}{}", note->empty() ? "from " : ", ", full,
                         value.Where().empty() ? "" : " (" + value.Where() + ")");
    return value;
  }

  Node Environment(const std::string& text, const Node& node, std::string* note) {
    size_t comma = text.find(',');
    std::string name = text.substr(0, comma);
    const char* value = std::getenv(name.c_str());
    *note +=
        (note->empty() ? "from the environment variable " : ", the environment variable ") + name;
    if (value != nullptr) return Node(value);
    if (comma == std::string::npos) {
      Fail(node, "the environment variable " + name + " isn't set",
           "set it, or give a default: ${env:" + name + ",default}");
    }
    std::string fallback = text.substr(comma + 1);
    fallback.erase(0, fallback.find_first_not_of(' '));
    return ResolveScalar(fallback, ScalarStyle::kOverride, nullptr);
  }

  std::vector<std::string> Absolute(const std::string& name, const Node& node,
                                    const std::vector<std::string>& path) {
    size_t dots = name.find_first_not_of('.');
    if (dots == std::string::npos) Fail(node, "`${" + name + "}` names no key", "");
    if (dots == 0) return SplitPath(name, node.Where());
    if (dots > path.size()) Fail(node, "`${" + name + "}` leads above the root", "");
    std::vector<std::string> keys(path.begin(), path.end() - static_cast<long>(dots));
    for (std::string& key : SplitPath(name.substr(dots), node.Where()))
      keys.push_back(std::move(key));
    return keys;
  }

  // The resolved value at `keys`.
  const Node& Target(const std::vector<std::string>& keys, const std::string& full,
                     const std::string& name, const Node& node) {
    auto done = done_.find(full);
    if (done != done_.end()) {
      Count(done->second.second, node);
      return done->second.first;
    }
    if (std::find(open_.begin(), open_.end(), full) != open_.end() || open_.size() > kMaxSteps) {
      std::string steps;
      for (const std::string& step : open_) steps += step + " -> ";
      Fail(node, "references form a circle: " + steps + full, "give one of them a value");
    }
    const Node* target = root_.At(full);
    if (target == nullptr) target = Through(keys, full, name, node);
    open_.push_back(full);
    std::vector<std::string> at = keys;
    Node value = Resolve(*target, at);
    open_.pop_back();
    size_t weight = Weigh(value, kMaxValues);
    Count(weight, node);
    return done_[full] = {std::move(value), weight}, done_[full].first;
  }

  // The path may lead through another reference: a: ${b}, c: ${a.x}.
  const Node* Through(const std::vector<std::string>& keys, const std::string& full,
                      const std::string& name, const Node& node) {
    std::string prefix;
    for (size_t i = 0; i + 1 < keys.size(); ++i) {
      prefix = JoinPath(prefix, keys[i]);
      const Node* part = root_.At(prefix);
      if (part == nullptr) break;
      if (!part->IsString() || !Mentions(*part)) continue;
      std::vector<std::string> at(keys.begin(), keys.begin() + static_cast<long>(i) + 1);
      const Node& resolved = Target(at, prefix, name, node);
      std::string rest;
      for (size_t k = i + 1; k < keys.size(); ++k) rest = JoinPath(rest, keys[k]);
      if (const Node* found = resolved.At(rest)) return found;
    }
    std::vector<std::string> names;
    Names(root_, "", names);
    Fail(node, fmt::format("`${{{}}}` names no key of the config", name),
         DidYouMean(Nearest(full, names)));
  }

  // Full paths in the config.
  static void Names(const Node& dict, const std::string& prefix, std::vector<std::string>& names) {
    if (!dict.IsDict() || names.size() > 1000) return;
    for (const Entry& entry : dict.entries()) {
      std::string path = JoinPath(prefix, entry.key);
      names.push_back(path);  // `path` stays where it is when the list grows
      Names(entry.value, path, names);
    }
  }

  static size_t Weigh(const Node& node, size_t left) {
    size_t weight = 1;
    if (node.IsList()) {
      for (const Node& item : node.items()) {
        if (weight > left) return weight;
        weight += Weigh(item, left - weight);
      }
    } else if (node.IsDict()) {
      for (const Entry& entry : node.entries()) {
        if (weight > left) return weight;
        weight += Weigh(entry.value, left - weight);
      }
    }
    return weight;
  }

  void Count(size_t weight, const Node& node) {
    total_ += weight;
    if (total_ > kMaxValues) {
      Fail(node, "references multiply to more than ten million values", "write the values out");
    }
  }

  [[noreturn]] static void Fail(const Node& node, const std::string& what,
                                const std::string& next) {
    throw UsageError({.what = what, .where = node.Where(), .next = next});
  }

  const Node& root_;
  std::unordered_map<std::string, std::pair<Node, size_t>> done_;  // nodes don't move when it grows
  std::vector<std::string> open_;
  size_t total_ = 0;
};

}  // namespace

void Interpolate(Node& root) {
  if (!Mentions(root)) return;
  Node before = root;
  std::vector<std::string> path;
  root = Interpolator(before).Resolve(before, path);
}

}  // namespace xp::config
