#include "exp/base/json_text.h"

#include <nlohmann/json.hpp>

namespace xp {

using nlohmann::json;

std::string TextAt(const json& document, const char* pointer) {
  const json::json_pointer p(pointer);
  if (!document.is_object() || !document.contains(p)) return "";
  const json& found = document.at(p);
  return found.is_string() ? found.get<std::string>()
                           : found.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace xp
