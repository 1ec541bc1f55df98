// The linter behind `exp check`: everything that can be said about a config without training
// (docs/config.md lists the rules). It knows exp's own keys and those of mmengine's configs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exp/config/load.h"

namespace xp::config {

enum class Level { kInfo, kWarning, kError };
const char* LevelName(Level level);  // "info", "warning", "error"

struct Finding {
  std::string rule;  // stable name: "name-batch"
  Level level = Level::kWarning;
  std::string path;     // of the value; may be empty
  std::string where;    // "configs/a.yaml:3:7"
  std::string message;  // one line
  std::string next;     // what to do; may be empty
};

// What an annotation file, or a folder of a class each, says.
struct DataFacts {
  std::vector<std::string> classes;  // in label order
  int64_t images = 0;
};

struct CheckOptions {
  int64_t devices = 1;
  bool devices_given = false;  // otherwise mmengine's configs take the number from their name
  // Reads an annotation file or folder; nullopt when it isn't there. Without it, classes aren't
  // compared.
  std::function<std::optional<DataFacts>(const std::string& ann_file,
                                         const std::vector<std::string>& classes)>
      facts;
  // Further findings of the whole program about exp's own configs, such as keys that the model
  // builder never reads.
  std::function<void(const Resolved&, std::vector<Finding>&)> more;
};

// Whether the config has exp's keys, not those of mmengine, mmcv, detectron2 or PaddleDetection:
// only then schema, model and paths are looked at.
bool IsOwnConfig(const Node& root, const std::string& path);

// All findings in order of rule; those silenced by a comment `# exp: ignore[rule]` on the value's
// line (or
// `# exp: ignore-file[rule]` anywhere in the config itself) are left out. `path` is the config's
// own.
std::vector<Finding> Check(const Resolved& resolved, const std::string& path,
                           const CheckOptions& options);

}  // namespace xp::config
