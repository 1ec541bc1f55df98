#include "exp/config/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/canonical.h"
#include "src/config/interpolate.h"
#include "src/config/json.h"
#include "src/config/loader.h"
#include "src/config/merge.h"
#include "src/config/override.h"
#include "src/config/suggest.h"
#include "src/config/yaml.h"

namespace xp::config {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxChain = 2000;

// The names of the folder's configs that are near to one that doesn't exist.
std::string NearFiles(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::path folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
    if (names.size() > 5000) break;
  }
  std::string guess = DidYouMean(Nearest(path.filename().string(), names));
  return guess.empty() ? "check the path" : guess;
}

void Finish(Resolved& result, const std::vector<std::string>& overrides,
            const LoadOptions& options) {
  StripDelete(result.root);
  std::vector<Override> changes;
  for (size_t i = 0; i < overrides.size(); ++i) {
    changes.push_back(
        ParseOverride(overrides[i], fmt::format("--set #{}", i + 1), &result.warnings));
    Apply(changes.back(), result.root, options, &result.warnings, &result.dropped);
  }
  NoteOverridden(changes, &result.warnings);
  StripDelete(result.root);
  if (options.interpolate) Interpolate(result.root);
  result.overrides = overrides;
}

}  // namespace

Node Loader::File(const fs::path& path, const Origin& from) {
  std::error_code error;
  fs::path canonical = fs::canonical(path, error);
  if (error || !fs::is_regular_file(canonical)) {
    throw UsageError({.what = fmt::format("the config {} {}", path.string(),
                                          error ? "doesn't exist" : "isn't a file"),
                      .where = from.Text(),
                      .expected = "a .yaml, .yml, .json, .toml or .py file",
                      .next = NearFiles(path)});
  }
  std::string id = canonical.string();
  if (open_set_.count(id) > 0 || open_.size() > kMaxChain) Cycle(id, from);
  auto done = done_.find(id);
  if (done != done_.end()) return done->second;
  std::string text = ReadFile(path);
  result_.sources.push_back({path.string(), text});
  open_.push_back(id);
  open_set_.insert(id);
  Node node = WithBases(Parse(text, path), path);
  open_set_.erase(id);
  open_.pop_back();
  done_[id] = node;
  return node;
}

Node Loader::Text(const std::string& text, const fs::path& name) {
  result_.sources.push_back({name.string(), text});
  return WithBases(Parse(text, name), name);
}

Node Loader::Parse(const std::string& text, const fs::path& path) {
  std::string ending = path.extension().string();
  Node node;
  if (ending == ".json") {
    node = ParseJson(text, path.string());
  } else if (ending == ".yaml" || ending == ".yml" || ending.empty()) {
    YamlOptions yaml;
    yaml.warnings = &result_.warnings;
    node = ParseYaml(text, path.string(), yaml);
  } else {
    throw UsageError({.what = fmt::format("a config can't end in `{}`", ending),
                      .where = path.string(),
                      .expected = "a .yaml, .yml, .json, .toml or .py file"});
  }
  if (node.IsNull()) {
    node = Node::Dict();
    node.set_origin({InternName(path.string()), 1, 1});
  }
  if (!node.IsDict()) {
    throw UsageError({.what = fmt::format("the config is {}", KindName(node.kind())),
                      .where = node.Where(),
                      .expected = "keys with values at the top level, such as `model: ...`"});
  }
  return node;
}

void Loader::Cycle(const std::string& name, const Origin& from) const {
  std::string chain;
  auto first = std::find(open_.begin(), open_.end(), name);
  bool circle = first != open_.end();
  if (!circle) first = open_.end() - 3;
  for (auto it = first; it != open_.end(); ++it) chain += fmt::format("\n    {} ->", *it);
  throw UsageError(
      {.what = circle ? fmt::format("the config inherits from itself:{}\n    {}", chain, name)
                      : fmt::format("more than {} files inherit from each other:{} ...", kMaxChain,
                                    chain),
       .where = from.Text(),
       .next = circle ? "remove one of these bases" : ""});
}

Node Loader::WithBases(Node own, const fs::path& path) {
  const Node* mm = own.Find("_base_");
  const Node* plain = own.Find("_BASE_");
  if (mm != nullptr && plain != nullptr) {
    throw UsageError({.what = "both `_base_` and `_BASE_` are given",
                      .where = plain->Where(),
                      .expected = "one of them"});
  }
  if (mm != nullptr) {
    Node bases = *mm;
    own.Erase("_base_");
    return WithMmBases(std::move(own), bases, path);
  }
  if (plain != nullptr) {
    Node bases = *plain;
    own.Erase("_BASE_");
    return WithPlainBases(std::move(own), bases, path);
  }
  return own;
}

std::vector<Node> Loader::BaseList(const Node& bases, const char* key) const {
  std::vector<Node> list;
  if (bases.IsString()) {
    list.push_back(bases);
  } else if (bases.IsList()) {
    list = bases.items();
  }
  bool fits = bases.IsString() || bases.IsList();
  for (const Node& base : list) fits = fits && base.IsString() && !base.AsString().empty();
  if (!fits) {
    throw UsageError({.what = fmt::format("`{}` is {}", key, Brief(bases)),
                      .where = bases.Where(),
                      .expected = "a path or a list of paths, relative to this file"});
  }
  return list;
}

fs::path Loader::BasePath(const Node& base, const fs::path& path) const {
  fs::path name = base.AsString();
  if (name.is_absolute()) return name;
  return (path.parent_path() / name).lexically_normal();
}

// mmengine: the bases may not share top-level keys; this file is merged over them.
Node Loader::WithMmBases(Node own, const Node& bases, const fs::path& path) {
  Node merged = Node::Dict();
  merged.set_origin(own.origin());
  for (const Node& base : BaseList(bases, "_base_")) {
    AddBase(merged, File(BasePath(base, path), base.origin()));
  }
  MergeInto(merged, own, "", &result_.dropped);
  return merged;
}

// detectron2 (fvcore) and PaddleDetection: later bases win over earlier ones, this file over all.
Node Loader::WithPlainBases(Node own, const Node& bases, const fs::path& path) {
  Node merged = Node::Dict();
  merged.set_origin(own.origin());
  for (const Node& base : BaseList(bases, "_BASE_")) {
    MergeInto(merged, File(BasePath(base, path), base.origin()), "", &result_.dropped);
  }
  MergeInto(merged, own, "", &result_.dropped);
  return merged;
}

Resolved Load(const std::string& path, const std::vector<std::string>& overrides,
              const LoadOptions& options) {
  Resolved result;
  result.root = Loader(options, result).File(path, Origin());
  Finish(result, overrides, options);
  return result;
}

Resolved LoadText(const std::string& yaml, const std::string& name,
                  const std::vector<std::string>& overrides, const LoadOptions& options) {
  Resolved result;
  result.root = Loader(options, result).Text(yaml, name);
  Finish(result, overrides, options);
  return result;
}

std::vector<std::string> OverridesFromFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> overrides;
  for (const std::string& path : paths) {
    std::string text = ReadFile(path);
    RequireUtf8(text, path);
    for (size_t at = text.rfind("\xef\xbb\xbf", 0) == 0 ? 3 : 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      at = end + 1;
      size_t first = line.find_first_not_of(" \t\r");
      if (first == std::string::npos || line[first] == '#') continue;
      overrides.push_back(line.substr(first, line.find_last_not_of(" \t\r") + 1 - first));
    }
  }
  return overrides;
}

}  // namespace xp::config
