// The JSON of one run: what `exp show --json` and `exp export` write. docs/record.md lists the
// keys.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "exp/record/reader.h"

namespace xp::cli {

nlohmann::json RunToJson(const record::Run& run);
// Always valid JSON: bytes that are no UTF-8 are replaced.
std::string DumpJson(const nlohmann::json& json);

}  // namespace xp::cli
