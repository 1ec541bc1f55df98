// What an exported run is made of; private to src/record.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace xp::record {

// What belongs to one run; "run", "attempt" and "epoch" in it are numbers of this store.
struct ExportTable {
  const char *name, *where;
  bool newer = false;  // exports of older programs lack it
};
inline constexpr ExportTable kExportTables[] = {
    {"run", "seq=?1"},
    {"tag", "run=?1"},
    {"attempt", "run=?1"},
    {"config_value", "run=?1"},
    {"config_source", "run=?1"},
    {"override", "run=?1"},
    {"run_object", "run=?1"},
    {"dataset", "run=?1"},
    {"epoch", "attempt IN (SELECT id FROM attempt WHERE run=?1)"},
    {"epoch_value",
     "epoch IN (SELECT e.id FROM epoch e JOIN attempt a ON a.id=e.attempt WHERE a.run=?1)"},
    {"checkpoint", "attempt IN (SELECT id FROM attempt WHERE run=?1)"},
    {"warning", "attempt IN (SELECT id FROM attempt WHERE run=?1)"},
    {"summary", "run=?1"},
    {"evaluation", "run=?1", true},
};

// xxh128 of the JSON text of all but "checksum": any change shows.
std::string ExportChecksum(const nlohmann::json& exported);

}  // namespace xp::record
