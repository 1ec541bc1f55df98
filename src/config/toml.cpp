#include "src/config/toml.h"

#include <toml++/toml.h>
#include <algorithm>
#include <sstream>

#include "exp/base/error.h"
#include "src/config/yaml.h"

namespace xp::config {
namespace {

constexpr int kMaxDepth = 100;  // as in YAML and JSON; dotted keys nest too

Origin At(const toml::source_region& region, const std::string* source, const Places& places) {
  const toml::source_position at = region.begin;
  return places.InFile({source, static_cast<int>(at.line), static_cast<int>(at.column)});
}

Node Convert(const toml::node& from, const std::string* source, const Places& places,
             int depth = 0) {
  const Origin origin = At(from.source(), source, places);
  if (depth > kMaxDepth)
    throw UsageError({.what = "nested more than 100 levels deep", .where = origin.Text()});
  Node node;
  if (const toml::table* table = from.as_table()) {
    node = Node::Dict();
    for (const auto& [key, value] : *table)
      node.Set(key.str(), Convert(value, source, places, depth + 1));
  } else if (const toml::array* array = from.as_array()) {
    node = Node::List();
    for (const toml::node& item : *array) node.Append(Convert(item, source, places, depth + 1));
  } else if (const auto* text = from.as_string()) {
    node = Node(text->get());
  } else if (const auto* integer = from.as_integer()) {
    node = Node(integer->get());
  } else if (const auto* number = from.as_floating_point()) {
    node = Node(number->get());
  } else if (const auto* flag = from.as_boolean()) {
    node = Node(flag->get());
  } else {
    std::ostringstream out;
    if (const auto* date = from.as_date()) out << *date;
    if (const auto* time = from.as_time()) out << *time;
    if (const auto* both = from.as_date_time()) out << *both;
    node = Node(out.str());
  }
  node.set_origin(origin);
  return node;
}

// Where the string that opens at `at` ends.
size_t StringEnd(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view triple = text.substr(at, 3);
  const bool lines = triple == "\"\"\"" || triple == "'''";
  size_t i = at + (lines ? 3 : 1);
  for (; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (lines ? text.substr(i, 3) == triple : text[i] == quote || text[i] == '\n') {
      return i + (lines ? 3 : 1);
    }
  }
  return text.size();
}

// toml++ makes a table of each part of a dotted key and frees them recursively, which overflows the
// stack: refuses long ones before.
void BoundDottedKeys(std::string_view text, const std::string* source) {
  int line = 1;
  int dots = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const size_t end = std::min(StringEnd(text, i), text.size());
      line += static_cast<int>(std::count(text.begin() + static_cast<long>(i),
                                          text.begin() + static_cast<long>(end), '\n'));
      i = end;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '\n') ++line;
    if (c == '.' && ++dots > kMaxDepth) {
      throw UsageError({.what = "a key nested more than 100 levels deep",
                        .where = Origin{source, line, 1}.Text()});
    }
    if (std::string_view(",=\n[]{}").find(c) != std::string_view::npos) dots = 0;
    ++i;
  }
}

}  // namespace

Node ParseToml(std::string_view text, const std::string& name, const Places& places) {
  RequireUtf8(text, name);
  const std::string* source = InternName(name);
  BoundDottedKeys(text, source);
  try {
    return Convert(toml::parse(text, name), source, places);
  } catch (const toml::parse_error& error) {
    throw UsageError({.what = "not valid TOML: " + std::string(error.description()),
                      .where = At(error.source(), source, places).Text()});
  }
}

}  // namespace xp::config
