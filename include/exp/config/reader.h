// How the program reads its config: typed getters by dotted path, and a memory of what was read.
//
//   Reader config(resolved.root);
//   double lr = config.Double("optimizer.lr");            // must be there
//   double momentum = config.Double("optimizer.momentum", 0.0);
//   Reader backbone = config.Child("model.backbone");     // shares the memory
//   for (const UnusedKey& key : config.UnusedKeys()) ...  // what nobody asked for
//
// A value of the wrong kind, or a missing one without default, throws UsageError with the value's
// place, what was expected and what to do. A null counts as absent where a default is given. Ints
// pass as floats, floats never as ints. Not for use from several threads at once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exp/config/node.h"

namespace xp::config {

struct UnusedKey {
  std::string path;
  std::string where;  // "configs/a.yaml:3:7"
};

class Reader {
 public:
  explicit Reader(Node root);

  double Double(std::string_view path) const;
  double Double(std::string_view path, double fallback) const;
  int64_t Int(std::string_view path) const;
  int64_t Int(std::string_view path, int64_t fallback) const;
  // From `least` to `most`; an error says that range.
  int IntWithin(std::string_view path, int fallback, int least, int most) const;
  double DoubleWithin(std::string_view path, double fallback, double least, double most) const;
  bool Bool(std::string_view path) const;
  bool Bool(std::string_view path, bool fallback) const;
  std::string String(std::string_view path) const;
  std::string String(std::string_view path, std::string_view fallback) const;

  // Lists. A single scalar counts as a list of one.
  std::vector<double> Doubles(std::string_view path) const;
  std::vector<double> Doubles(std::string_view path, std::vector<double> fallback) const;
  std::vector<int64_t> Ints(std::string_view path) const;
  std::vector<int64_t> Ints(std::string_view path, std::vector<int64_t> fallback) const;
  std::vector<std::string> Strings(std::string_view path) const;
  std::vector<std::string> Strings(std::string_view path, std::vector<std::string> fallback) const;

  // One of `choices`, else an error that lists them.
  std::string Choice(std::string_view path, const std::vector<std::string>& choices) const;
  std::string Choice(std::string_view path, const std::vector<std::string>& choices,
                     std::string_view fallback) const;

  // Present and not null. Asking counts as reading when the value is null or false to this question
  // only.
  bool Has(std::string_view path) const;

  // A dict below this one; it must be there. A child of an absent optional dict: check Has first.
  Reader Child(std::string_view path) const;
  // The dicts of a list; a single dict counts as a list of one.
  std::vector<Reader> Children(std::string_view path) const;

  // The value itself, nullptr when absent; it and everything below counts as read.
  const Node* Raw(std::string_view path) const;
  const Node& node() const { return node_; }
  // This reader's own path ("model.backbone"; "" for the root) and the full path of a key below it.
  const std::string& path() const { return prefix_; }
  std::string Full(std::string_view path) const;
  // The place of a key's value, or of the nearest dict around it.
  std::string Where(std::string_view path) const;

  // A UsageError about `path`'s value: throw config.Bad("num_classes", "must be positive", "an int
  // > 0"): "`model.head.num_classes` must be positive (it is -1)".
  [[noreturn]] void Bad(std::string_view path, const std::string& what, const std::string& expected,
                        const std::string& next = {}) const;

  // Keys of the whole tree that no reader of it has read, in order of writing; a dict of which
  // nothing was read is listed once, without its keys.
  std::vector<UnusedKey> UnusedKeys() const;

 private:
  struct Memory;
  Reader(Node node, std::string prefix, std::shared_ptr<Memory> memory);
  const Node* Get(std::string_view path) const;  // marks as read; nullptr when absent or null
  const Node& Need(std::string_view path, const char* expected) const;

  Node node_;
  std::string prefix_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace xp::config
