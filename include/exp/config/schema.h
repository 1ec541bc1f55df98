// The JSON Schema of exp's own configs (schema/config.schema.json, built into the program):
// validation with file:line:column, and what names it knows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exp/config/node.h"

namespace xp::config {

struct Problem {
  std::string path;      // dotted path of the value
  std::string where;     // its place
  std::string what;      // "`optimizer.lr` is a string"
  std::string expected;  // "a number > 0"
  std::string next;      // "did you mean `optimizer.lr`?"
};

// The schema's text as built in.
std::string_view SchemaText();

// Everything that breaks the schema, in order of place. Empty when valid.
std::vector<Problem> Validate(const Node& root);
// Throws one UsageError with all problems; of a `part` ("data") with those below that path alone.
void RequireValid(const Node& root, const std::string& part = "");

// Whether the schema describes this dotted path, and the names that it knows in the dict at `path`.
bool SchemaKnows(const std::vector<std::string>& path);
std::vector<std::string> SchemaNames(const std::vector<std::string>& path);

}  // namespace xp::config
