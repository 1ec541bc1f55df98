// Reads a config with everything that it inherits from, applies overrides, and resolves it to one
// tree.
//
//   Resolved r = Load("configs/faster_rcnn.yaml", {"optimizer.lr=0.01"});
//   Reader config(r.root);
//   double lr = config.Double("optimizer.lr");
//
// The file's ending decides the language: .yaml, .yml, .json, .toml, .py (docs/config.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exp/config/node.h"

namespace xp::config {

struct LoadOptions {
  // Folders in which `pkg::path` bases are looked up, as PATH/pkg/.mim/path and PATH/pkg/path; then
  // those of EXP_CONFIG_PATH, then the site-packages folders of VIRTUAL_ENV and the system.
  std::vector<std::string> search_paths;
  // Whether `--set k=v` may also create a key that the schema knows (exp's own configs).
  bool schema_keys = true;
  // Whether `${a.b}` is replaced. mmengine's, detectron2's and PaddleDetection's files have none.
  bool interpolate = true;
  // Whether a YAML key that stands twice is a warning (the later one counts, as in PyYAML) instead
  // of an error.
  bool allow_duplicate_keys = false;
  // Where each override was given, for messages and origins; those beyond its end are "--set #1",
  // "--set #2", ...
  std::vector<std::string> override_places;
};

struct SourceFile {
  std::string path;     // as it appears in origins
  std::string content;  // as read, for the record
};

// Something worth saying that isn't an error.
struct Notice {
  std::string code;     // stable: "override-no-change", "stale-value", ...
  std::string message;  // one line
  std::string where;    // "configs/a.yaml:3:7" or ""
};

// A value that was dropped on the way: `_delete_`, `~key`.
struct Dropped {
  std::string path;
  Node value;
  Origin by;
};

struct Resolved {
  Node root;                        // a dict
  std::vector<SourceFile> sources;  // the config itself first, then its bases in order of reading
  std::vector<std::string> overrides;  // as given
  std::vector<Notice> warnings;
  std::vector<Dropped> dropped;
};

// Throws UsageError for whatever is wrong with the files or the overrides.
Resolved Load(const std::string& path, const std::vector<std::string>& overrides = {},
              const LoadOptions& options = {});

// As Load, for a YAML text that is not in a file. Bases are relative to the working directory.
Resolved LoadText(const std::string& yaml, const std::string& name,
                  const std::vector<std::string>& overrides = {}, const LoadOptions& options = {});

// Applies further overrides ("--set #1", ...) to a resolved tree, for instance one read from the
// record.
void ApplyOverrides(Node& root, const std::vector<std::string>& overrides,
                    const LoadOptions& options, std::vector<Notice>* warnings);

struct GivenOverrides {
  std::vector<std::string> texts;
  std::vector<std::string> places;  // "changes.txt:3" of each
};

// The overrides in files, one a line, in order; empty lines and lines that begin with # are left
// out.
GivenOverrides OverridesFromFiles(const std::vector<std::string>& paths);

}  // namespace xp::config
