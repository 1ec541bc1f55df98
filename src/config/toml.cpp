#include "src/config/toml.h"

#include <toml++/toml.h>
#include <sstream>

#include "exp/base/error.h"
#include "src/config/yaml.h"

namespace xp::config {
namespace {

Node Convert(const toml::node& from, const std::string* source) {
  Node node;
  if (const toml::table* table = from.as_table()) {
    node = Node::Dict();
    for (const auto& [key, value] : *table) node.Set(key.str(), Convert(value, source));
  } else if (const toml::array* array = from.as_array()) {
    node = Node::List();
    for (const toml::node& item : *array) node.Append(Convert(item, source));
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
  toml::source_position at = from.source().begin;
  node.set_origin({source, static_cast<int>(at.line), static_cast<int>(at.column)});
  return node;
}

}  // namespace

Node ParseToml(std::string_view text, const std::string& name) {
  RequireUtf8(text, name);
  const std::string* source = InternName(name);
  try {
    return Convert(toml::parse(text, name), source);
  } catch (const toml::parse_error& error) {
    toml::source_position at = error.source().begin;
    throw UsageError(
        {.what = "not valid TOML: " + std::string(error.description()),
         .where = Origin{source, static_cast<int>(at.line), static_cast<int>(at.column)}.Text()});
  }
}

}  // namespace xp::config
