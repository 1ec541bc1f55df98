// YAML text into a Node, through libyaml's events: every value keeps its line and column.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exp/config/load.h"
#include "exp/config/node.h"
#include "src/config/places.h"

namespace xp::config {

struct YamlOptions {
  bool allow_duplicate_keys = false;  // the last one wins, with a notice; else an error
  std::vector<Notice>* warnings = nullptr;
  Places places;  // of the text in the file, where placeholders were replaced
  // What `!!python/object/apply:eval ["..."]` stands for (detectron2); refused when empty.
  std::function<Node(std::string_view expression, const Origin& at)> eval;
};

// The one document in `text`; a null when it is empty. `name` is the source of the origins. Throws
// UsageError with name:line:column for anything that isn't YAML 1.2, for duplicate keys, unknown
// aliases, more than 100 levels, or aliases that multiply to more than ten million values.
Node ParseYaml(std::string_view text, const std::string& name, const YamlOptions& options = {});

// Throws UsageError with name:line:column where `text` isn't UTF-8.
void RequireUtf8(std::string_view text, const std::string& name);

}  // namespace xp::config
