// JSON documents of the store, which may come from another program: whether readers can rely on
// their shape. Private to src/record.
#pragma once

#include <string>

namespace xp::record {

// `kind`: "config", "environment" or "code".
bool UsableDocument(const std::string& kind, const std::string& text);
// [{"kind": "...", "place": "..."}, ...]
bool UsableRedactions(const std::string& text);

}  // namespace xp::record
