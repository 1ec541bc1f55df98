#include "exp/config/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "src/config/interpolate.h"
#include "src/config/json.h"
#include "src/config/loader.h"
#include "src/config/merge.h"
#include "src/config/override.h"
#include "src/config/package.h"
#include "src/config/placeholder.h"
#include "src/config/stale.h"
#include "src/config/suggest.h"
#include "src/config/toml.h"
#include "src/config/yaml.h"

namespace xp::config {
namespace {

namespace fs = std::filesystem;

// How many files may inherit from each other; each is a few calls deep on a stack of 8 MB.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMaxChain = 300;  // whose frames are several times as large
#else
constexpr size_t kMaxChain = 1100;
#endif

// The names of the folder's configs that are near to one that doesn't exist.
std::string NearFiles(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::path folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
    if (names.size() > 5000) break;
  }
  const std::string name = path.filename().string();
  std::erase(names, name);  // a folder's
  std::string guess = DidYouMean(Nearest(name, names));
  return guess.empty() ? "check the path" : guess;
}

// As mmengine finds it: `link/../base.py` beside the link. Where nothing is, as the system does
// (and with it detectron2 and PaddleDetection): beside the folder that the link leads to.
fs::path Beside(const fs::path& path, const fs::path& name, const Node& base) {
  fs::path as_given = path.parent_path() / name, normal = as_given.lexically_normal();
  std::error_code error;
  if (fs::exists(normal, error)) return normal;
  if (fs::exists(as_given, error)) return as_given;
  const fs::path real = fs::is_symlink(path, error) ? fs::canonical(path, error) : path;
  if (real != path && fs::exists(real.parent_path() / name, error)) {
    throw UsageError(
        {.what = fmt::format("the config {} doesn't exist", normal.string()),
         .where = base.Where(),
         .expected = "a base beside the file as it was named, which is a link",
         .next = fmt::format("name the file itself, beside which it is: {}", real.string())});
  }
  return normal;
}

// What git leaves in a file whose two versions it couldn't join.
void RequireMerged(const std::string& text, const fs::path& path) {
  int line = 1;
  for (size_t at = 0; at < text.size(); ++line) {
    if (text.compare(at, 8, "<<<<<<< ") == 0) {
      throw UsageError({.what = "git's mark of a conflict stands here",
                        .where = Origin{InternName(path.string()), line, 1}.Text(),
                        .next = "choose one of the two versions, and remove the marks"});
    }
    at = text.find('\n', at);
    at = at == std::string::npos ? text.size() : at + 1;
  }
}

void Finish(Resolved& result, const std::vector<std::string>& overrides,
            const LoadOptions& options) {
  StripDelete(result.root);
  std::vector<Override> changes;
  for (size_t i = 0; i < overrides.size(); ++i) {
    changes.push_back(ParseOverride(overrides[i], OverridePlace(options, i), &result.warnings));
    Apply(changes.back(), result.root, options, &result.warnings, &result.dropped);
  }
  NoteOverridden(changes, &result.warnings);
  StripDelete(result.root);
  for (Notice& notice : StaleValues(result.root)) result.warnings.push_back(std::move(notice));
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
  // What only one file inherits from isn't kept: its dicts are then merged into, not copied, and a
  // chain of bases takes time in proportion to its length.
  auto [seen, first] = seen_.emplace(id, result_.sources.size());
  if (first) result_.sources.push_back({path.string(), ReadFile(path)});
  const std::string text = result_.sources[seen->second].content;
  if (text.find("<<<<<<< ") != std::string::npos) RequireMerged(text, path);
  const size_t warnings = result_.warnings.size();
  const size_t dropped = result_.dropped.size();
  open_.push_back(id);
  open_set_.insert(id);
  Node node = path.extension() == ".py" ? Python(text, path) : WithBases(Parse(text, path), path);
  open_set_.erase(id);
  open_.pop_back();
  if (!first) {
    done_[id] = node;
    result_.warnings.erase(result_.warnings.begin() + static_cast<long>(warnings),
                           result_.warnings.end());
    result_.dropped.erase(result_.dropped.begin() + static_cast<long>(dropped),
                          result_.dropped.end());
  }
  return node;
}

Node Loader::Text(const std::string& text, const fs::path& name) {
  result_.sources.push_back({name.string(), text});
  return WithBases(Parse(text, name), name);
}

Node Loader::Parse(const std::string& text, const fs::path& path) {
  std::string ending = path.extension().string();
  Node node;
  Places places;
  const std::string substituted = SubstituteFile(text, path, &places);
  if (ending == ".json") {
    node = ParseJson(substituted, path.string(), places);
  } else if (ending == ".toml") {
    node = ParseToml(substituted, path.string(), places);
  } else if (ending == ".yaml" || ending == ".yml" || ending.empty()) {
    YamlOptions yaml;
    yaml.warnings = &result_.warnings;
    yaml.allow_duplicate_keys = options_.allow_duplicate_keys;
    yaml.eval = EvaluateExpression;
    yaml.places = places;
    node = ParseYaml(substituted, path.string(), yaml);
  } else {
    throw UsageError({.what = fmt::format("a config can't end in `{}`", ending),
                      .where = path.string(),
                      .expected = "a .yaml, .yml, .json, .toml or .py file",
                      .next = "rename it by the language that it is written in"});
  }
  if (node.IsNull()) {
    node = Node::Dict();
    node.set_origin({InternName(path.string()), 1, 1});
  }
  const bool marked = text.find("{{") != std::string::npos;
  if (marked && !node.Has("_base_") && !node.Has("_BASE_"))
    ResolveBaseMarks(node, Node::Dict());  // complains: there is no base to take from
  if (!node.IsDict()) {
    throw UsageError({.what = fmt::format("the config is {}", KindName(node.kind())),
                      .where = node.Where(),
                      .expected = "keys with values at the top level, such as `model: ...`",
                      .next = "check that this is the file you mean"});
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
                      .expected = "one of them",
                      .next = "keep `_base_` for mmengine's rules, `_BASE_` for detectron2's"});
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
  for (const Node& base : list)
    fits = fits && base.IsString() && !base.AsString().empty() &&
           base.AsString().find('\0') == std::string::npos;
  if (!fits) {
    throw UsageError({.what = fmt::format("`{}` is {}", key, Brief(bases)),
                      .where = bases.Where(),
                      .expected = "a path or a list of paths, relative to this file",
                      .next = fmt::format("write {}: base.yaml, or remove it", key)});
  }
  return list;
}

fs::path Loader::BasePath(const Node& base, const fs::path& path, std::string* scope) const {
  const std::string& text = base.AsString();
  size_t colons = text.find("::");
  if (colons != std::string::npos) {
    *scope = text.substr(0, colons);
    fs::path found =
        FindPackageConfig(*scope, text.substr(colons + 2), path, options_.search_paths);
    if (!found.empty()) return found;
    throw UsageError(
        {.what = fmt::format("the base {} isn't found in any installed package", text),
         .where = base.Where(),
         .expected =
             fmt::format("{0}/.mim/configs/{1} in a search path", *scope, text.substr(colons + 2)),
         .next = fmt::format(
             "install {}, or name the folder that holds it with --search-path or EXP_CONFIG_PATH",
             *scope)});
  }
  fs::path name = text;
  if (text.rfind("~/", 0) == 0 && std::getenv("HOME") != nullptr)
    name = fs::path(std::getenv("HOME")) / text.substr(2);
  if (name.is_absolute()) return name;
  if (text.find("://") != text.npos) {
    throw UsageError({.what = fmt::format("the base {} is no file", text),
                      .where = base.Where(),
                      .expected = "a path, relative to this file",
                      .next = "download it first"});
  }
  return Beside(path, name, base);
}

// mmengine: the bases may not share top-level keys, unless they agree on them.
Node Loader::MmBases(const Node& bases, const fs::path& path) {
  Node merged = Node::Dict();
  merged.set_origin(bases.origin());
  for (const Node& base : BaseList(bases, "_base_")) {
    std::string scope;
    Node loaded = File(BasePath(base, path, &scope), base.origin());
    if (!scope.empty()) SetScope(loaded, scope);
    if (merged.size() == 0) {
      merged = std::move(loaded);
    } else {
      AddBase(merged, loaded);
    }
  }
  return merged;
}

Node Loader::WithMmBases(Node own, const Node& bases, const fs::path& path) {
  Node merged = MmBases(bases, path);
  merged.set_origin(own.origin());
  ResolveBaseMarks(own, merged);
  Deprecated(own);
  MergeInto(merged, own, "", &result_.dropped);
  return merged;
}

// detectron2 (fvcore) and PaddleDetection: later bases win over earlier ones, this file over all.
Node Loader::WithPlainBases(Node own, const Node& bases, const fs::path& path) {
  Node merged = Node::Dict();
  merged.set_origin(own.origin());
  std::string scope;
  for (const Node& base : BaseList(bases, "_BASE_")) {
    MergeInto(merged, File(BasePath(base, path, &scope), base.origin()), "", &result_.dropped);
  }
  ResolveBaseMarks(own, merged);
  MergeInto(merged, own, "", &result_.dropped);
  return merged;
}

// mmengine's `_deprecation_` says what to use instead and isn't part of the config.
void Loader::Deprecated(Node& own) {
  const Node* note = own.Find("_deprecation_");
  if (note == nullptr) return;
  std::string message = "this config is deprecated";
  for (const char* key : {"expected", "reference"}) {
    const Node* text = note->Find(key);
    if (text != nullptr && text->IsString()) {
      message += (std::string(key) == "expected" ? "; use " : "; see ") + text->AsString();
    }
  }
  result_.warnings.push_back({"deprecated", message, note->Where()});
  own.Erase("_deprecation_");
}

Node Loader::Python(const std::string& text, const fs::path& path) {
  auto file = std::make_unique<PythonFile>(text, path);
  if (file->new_style()) return NewStylePython(*file);
  Node merged = MmBases(file->Bases(), path);
  Node own = file->Run(merged);
  merged.set_origin(own.origin());
  Deprecated(own);
  MergeInto(merged, own, "", &result_.dropped);
  return merged;
}

Node Loader::NewStylePython(const PythonFile& file) {
  return file.RunNewStyle(
      [this](const std::string& module, const fs::path& from,
             const Origin& at) -> const PythonFile& { return Module(module, from, at); });
}

// The file of `from ..base.x import`, or of `from mmdet.configs.x import` in an installed package.
const PythonFile& Loader::Module(const std::string& module, const fs::path& from,
                                 const Origin& at) {
  size_t level = std::min(module.find_first_not_of('.'), module.size());
  std::string relative = module.substr(level);
  std::replace(relative.begin(), relative.end(), '.', '/');
  relative += ".py";
  fs::path path;
  if (level > 0) {
    path = from.parent_path();
    for (size_t i = 1; i < level; ++i) path /= "..";
    path = (path / relative).lexically_normal();
  } else {
    path = FindInPackages(relative, from, options_.search_paths);
  }
  if (relative == ".py") {
    throw UsageError({.what = fmt::format("`from {} import` names no file", module),
                      .where = at.Text(),
                      .expected = "the name of a file after the dots",
                      .next = "write `from .base import *` for base.py"});
  }
  std::error_code error;
  if (path.empty() || !fs::is_regular_file(path, error)) {
    throw UsageError(
        {.what = fmt::format("the config module {} isn't found", module),
         .where = at.Text(),
         .expected = path.empty() ? relative + " in a search path" : path.string(),
         .next = path.empty()
                     ? "name the folder that holds it with --search-path or EXP_CONFIG_PATH"
                     : NearFiles(path)});
  }
  auto& known = modules_[fs::canonical(path).string()];
  if (known == nullptr) {
    std::string text = ReadFile(path);
    if (text.find("<<<<<<< ") != std::string::npos) RequireMerged(text, path);
    result_.sources.push_back({path.string(), text});
    known = std::make_unique<PythonFile>(text, path);
  }
  return *known;
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

GivenOverrides OverridesFromFiles(const std::vector<std::string>& paths) {
  GivenOverrides given;
  for (const std::string& path : paths) {
    std::string text = ReadFile(path);
    RequireUtf8(text, path);
    int number = 0;
    for (size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
         at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      at = end + 1;
      ++number;
      size_t first = line.find_first_not_of(" \t\r");
      if (first == std::string::npos || line[first] == '#') continue;
      given.texts.push_back(line.substr(first, line.find_last_not_of(" \t\r") + 1 - first));
      given.places.push_back(fmt::format("{}:{}", path, number));
    }
  }
  return given;
}

}  // namespace xp::config
