#include "src/record/migrate.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

namespace xp::record {
namespace {

// "exps" in ASCII: tells our files from other SQLite databases (PRAGMA application_id).
constexpr int64_t kApplicationId = 0x65787073;

int64_t Pragma(const Database& db, const char* name) {
  Statement s(db, fmt::format("PRAGMA {}", name));
  return s.Step() ? s.Int(0) : 0;
}

// What a process left that was killed while it made such a copy, for this version or another. The
// store is locked while it is migrated: nobody is making one now.
void RemoveUnfinishedCopies(const std::filesystem::path& db) {
  const std::string beginning = db.filename().string() + ".before-v";
  std::vector<std::filesystem::path> copies;
  std::error_code error;
  for (std::filesystem::directory_iterator at(db.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    std::string name = at->path().filename().string();
    if (name.starts_with(beginning) && name.find(".tmp") != std::string::npos)
      copies.push_back(at->path());
  }
  for (const std::filesystem::path& copy : copies) std::filesystem::remove(copy, error);
}

// SQLite's online backup: a consistent copy, WAL content included.
void CopyTo(const Database& db, const std::filesystem::path& target) {
  std::filesystem::path temporary = target;
  temporary += ".tmp";
  {
    Database copy(temporary, Database::Mode::kReadWrite);
    sqlite3_backup* backup = sqlite3_backup_init(copy.handle(), "main", db.handle(), "main");
    if (!backup) copy.Fail("copy before migration");
    int rc = sqlite3_backup_step(backup, -1);
    sqlite3_backup_finish(backup);
    if (rc != SQLITE_DONE) copy.Fail("copy before migration");
  }
  std::filesystem::rename(temporary, target);
}

}  // namespace

int SchemaVersion(const Database& db) { return static_cast<int>(Pragma(db, "user_version")); }

void CheckVersion(const Database& db, int newest) {
  int64_t id = Pragma(db, "application_id");
  int version = SchemaVersion(db);
  bool empty = Pragma(db, "schema_version") == 0;
  if (!empty && id != kApplicationId) {
    throw UsageError({.what = "this SQLite file is not a store of exp",
                      .where = db.file().string(),
                      .next = "name another folder with --store"});
  }
  if (version > newest) {
    throw UsageError({.what = fmt::format("the store has version {}, this program knows up to {}",
                                          version, newest),
                      .where = db.file().string(),
                      .expected = "a program as new as the one that wrote the store",
                      .next = "use that program, or another store with --store"});
  }
}

void Migrate(Database& db, const std::vector<Migration>& migrations, KeepCopy keep) {
  int newest = static_cast<int>(migrations.size());
  CheckVersion(db, newest);
  int version = SchemaVersion(db);
  if (version == newest) return;
  if (version > 0 && keep == KeepCopy::kYes) {
    std::filesystem::path copy = db.file();
    copy += fmt::format(".before-v{}", newest);
    RemoveUnfinishedCopies(db.file());
    if (!std::filesystem::exists(copy)) CopyTo(db, copy);
  }
  for (int v = version; v < newest; ++v) {
    Transaction t(db);
    db.Exec(migrations[static_cast<size_t>(v)].sql);
    db.Exec(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplicationId, v + 1));
    t.Commit();
  }
}

}  // namespace xp::record
