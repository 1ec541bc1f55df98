// Looking something up in a JSON document that may hold anything.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace xp {

// What `pointer` ("/gpu/driver") names, as text: strings as they are, everything else as JSON;
// bytes that are no UTF-8 become U+FFFD. Empty where nothing is there.
std::string TextAt(const nlohmann::json& document, const char* pointer);

}  // namespace xp
