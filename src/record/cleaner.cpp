#include "src/record/cleaner.h"

#include <nlohmann/json.hpp>

namespace xp::record {
namespace {

using nlohmann::json;

// Calls `clean(text, key)` for each string, names of members included.
template <class Clean>
void Walk(json& value, const std::string& key, Clean clean, int depth) {
  constexpr int kDeepest = 200;
  if (depth > kDeepest) {
    value = "(nested too deeply)";
  } else if (value.is_string()) {
    value = clean(value.get<std::string>(), key);
  } else if (value.is_array()) {
    for (json& item : value) Walk(item, key, clean, depth + 1);
  } else if (value.is_object()) {
    json out = json::object();
    for (auto& [name, member] : value.items()) {
      Walk(member, name, clean, depth + 1);
      out[clean(name, "")] = std::move(member);
    }
    value = std::move(out);
  }
}

}  // namespace

void Cleaner::Text(std::string& text, const std::string& key, const std::string& place) {
  if (!active() || text.empty()) return;
  std::string clean = options_.clean(text, key, place);
  if (clean == text) return;
  text = std::move(clean);
  changed_ = true;
}

void Cleaner::Json(std::string& text, const std::string& key, const std::string& place) {
  if (!active()) return;
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return Text(text, key, place);
  bool before = changed_;
  changed_ = false;
  Walk(
      parsed, key,
      [&](std::string inner, const std::string& name) {
        Text(inner, name, place);
        return inner;
      },
      0);
  if (changed_) text = parsed.dump(-1, ' ', false, json::error_handler_t::replace);
  changed_ = changed_ || before;
}

void Cleaner::Point(const std::string& name, Value& value) {
  if (JsonText* text = std::get_if<JsonText>(&value)) Json(text->text, name, "metric " + name);
}

void Cleaner::Values(std::vector<std::pair<std::string, Value>>& values, const std::string& place) {
  if (!active()) return;
  for (auto& [name, value] : values) {
    Text(name, place + " (a name)");
    if (JsonText* text = std::get_if<JsonText>(&value)) Json(text->text, name, place + " " + name);
  }
}

}  // namespace xp::record
