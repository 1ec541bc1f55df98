// The canonical form of a config and its identity, and the forms that people read.
//
// Canonical JSON: no spaces, keys sorted by their bytes, each string with the shortest escapes,
// each number the shortest text that reads back to the same value; a float always has a point or an
// exponent ("1.0", "1e-05"), so int and float stay apart. A tagged value is {"!Tag":value}; a float
// that JSON can't hold is {"!!float":".nan"} (or ".inf", "-.inf"). The identity is the xxh128 of
// that text.
#pragma once

#include <string>
#include <string_view>

#include "exp/base/hash.h"
#include "exp/config/node.h"

namespace xp::config {

std::string CanonicalJson(const Node& node);
Hash128 Identity(const Node& node);  // HashBytes(CanonicalJson(node))

// Reads canonical or any other JSON; the tags of the canonical form come back as tags. `name` is
// for messages and origins. Throws UsageError with line and column. FromJson(CanonicalJson(n)) has
// n's identity.
Node FromJson(std::string_view text, const std::string& name = "json");

// For people; keys keep their order. Re-read by Load, each gives the same identity (a literal "${"
// is written
// "\${").
std::string PrettyJson(const Node& node);
std::string PrettyYaml(const Node& node);

// One line for messages: JSON-like, cut after `limit` characters.
std::string Brief(const Node& node, size_t limit = 60);

}  // namespace xp::config
