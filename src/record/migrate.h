// Brings a database from any earlier version to the newest; private to src/record.
#pragma once

#include <string>
#include <vector>

#include "src/record/sqlite.h"

namespace xp::record {

struct Migration {
  std::string name;  // "001_initial.sql"
  std::string sql;
};

// schema/*.sql, in order; the version of a store is how many of them it has seen.
const std::vector<Migration>& EmbeddedMigrations();

// The version of the database: PRAGMA user_version. 0: empty.
int SchemaVersion(const Database& db);

// Throws where the file isn't a store or is newer than this program.
void CheckVersion(const Database& db, int newest);

enum class KeepCopy { kYes, kNo };
// Applies what is missing, each migration in its own transaction. A store that holds something is
// first copied to `<file>.before-v<newest>`, unless the file is a copy itself. The caller holds the
// store's lock.
void Migrate(Database& db, const std::vector<Migration>& migrations,
             KeepCopy keep = KeepCopy::kYes);

}  // namespace xp::record
