#include "exp/record/maintain.h"

#include <fmt/format.h>

#include <filesystem>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/hash.h"
#include "src/record/sqlite.h"
#include "src/record/state.h"

namespace xp::record {
namespace {

const char* const kUnusedObjects =
    "FROM object WHERE NOT EXISTS (SELECT 1 FROM run_object o WHERE o.object=hash) AND NOT EXISTS "
    "(SELECT 1 FROM config_source c WHERE c.object=hash) AND NOT EXISTS "
    "(SELECT 1 FROM dataset d WHERE d.image_list=hash)";
const char* const kUnusedDocuments =
    "FROM document WHERE hash NOT IN (SELECT config_document FROM run WHERE config_document NOT "
    "NULL "
    "UNION SELECT environment_document FROM run WHERE environment_document NOT NULL "
    "UNION SELECT code_document FROM run WHERE code_document NOT NULL "
    "UNION SELECT environment_document FROM attempt WHERE environment_document NOT NULL "
    "UNION SELECT code_document FROM attempt WHERE code_document NOT NULL "
    "UNION SELECT environment_document FROM doctor WHERE environment_document NOT NULL "
    "UNION SELECT environment_document FROM bench WHERE environment_document NOT NULL)";

int64_t CloseKilled(Database& db) {
  Statement open(db, "SELECT DISTINCT run FROM attempt WHERE state IS NULL");
  std::vector<int64_t> runs;
  while (open.Step()) runs.push_back(open.Int(0));
  int64_t closed = 0;
  for (int64_t run : runs) {
    RunStatus status = CurrentStatus(db, run);
    if (status.state != "killed") continue;
    Statement s(db,
                "UPDATE attempt SET state='killed', reason=?2, ended_ns=heartbeat_ns WHERE run=?1 "
                "AND state IS NULL");
    s.Bind(1, run).Bind(2, status.reason).Run();
    closed += db.Changes();
  }
  return closed;
}

void VerifyDatabase(const Database& db, VerifyReport& report) {
  Statement integrity(db, "PRAGMA integrity_check");
  while (integrity.Step()) {
    if (integrity.Text(0) != "ok") report.problems.push_back("database: " + integrity.Text(0));
  }
  Statement keys(db, "PRAGMA foreign_key_check");
  while (keys.Step()) {
    report.problems.push_back(fmt::format("table {}, row {}: names a row of {} that isn't there",
                                          keys.Text(0), keys.Text(1), keys.Text(2)));
  }
}

void VerifyCheckpoints(const Database& db,
                       const std::function<void(int64_t done, int64_t total)>& progress,
                       VerifyReport& report) {
  Statement all(db, "SELECT count(*) FROM (SELECT DISTINCT path,hash FROM checkpoint)");
  all.Step();
  Statement s(db, "SELECT DISTINCT path,hash FROM checkpoint");
  while (s.Step()) {
    if (progress) progress(report.checkpoints, all.Int(0));
    ++report.checkpoints;
    std::filesystem::path file = s.Text(0);
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) {
      report.notes.push_back("checkpoint " + file.string() + " is not there any more");
      continue;
    }
    try {
      if (HashFile(file).Hex() != s.Text(1)) {
        report.notes.push_back("checkpoint " + file.string() + " has other content than recorded");
      }
    } catch (const Error& e) {
      report.notes.push_back(e.what());
    }
  }
}

}  // namespace

void RemoveRuns(const Store& store, const std::vector<int64_t>& runs) {
  store.RequireWritable();
  Database& db = store.db();
  Transaction t(db);
  for (int64_t run : runs) {
    RunStatus status = CurrentStatus(db, run);
    if (status.state == "running") {
      Statement id(db, "SELECT id FROM run WHERE seq=?1");
      id.Bind(1, run).Step();
      throw UsageError({.what = fmt::format("run {} is running (process {} on {})", id.Text(0),
                                            status.pid, status.host),
                        .next = "stop it first"});
    }
    Statement s(db, "DELETE FROM run WHERE seq=?1");
    s.Bind(1, run).Run();
  }
  t.Commit();
}

GarbageReport CollectGarbage(const Store& store, bool dry_run) {
  store.RequireWritable();
  Database& db = store.db();
  GarbageReport report;
  {
    Transaction t(db);
    Statement objects(db, std::string("SELECT count(*), coalesce(sum(bytes),0) ") + kUnusedObjects);
    objects.Step();
    report.objects = objects.Int(0);
    report.bytes = objects.Int(1);
    objects.Reset();
    Statement documents(
        db, std::string("SELECT count(*), coalesce(sum(length(json)),0) ") + kUnusedDocuments);
    documents.Step();
    report.documents = documents.Int(0);
    report.bytes += documents.Int(1);
    documents.Reset();
    Abandoned files = RemoveAbandoned(
        store.folder(), [](const std::string&) { return true; }, dry_run);
    report.unfinished = files.files;
    report.bytes += files.bytes;
    if (dry_run) return report;
    report.closed = CloseKilled(db);
    db.Exec(std::string("DELETE ") + kUnusedObjects);
    db.Exec(std::string("DELETE ") + kUnusedDocuments);
    t.Commit();
  }
  db.Exec("PRAGMA incremental_vacuum");
  // Other readers may keep the log busy; then it shrinks the next time.
  sqlite3_wal_checkpoint_v2(db.handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  return report;
}

VerifyReport VerifyStore(const Store& store, bool checkpoints,
                         const std::function<void(int64_t done, int64_t total)>& progress) {
  const Database& db = store.db();
  VerifyReport report;
  VerifyDatabase(db, report);
  Statement o(db, "SELECT hash,data,bytes FROM object");
  while (o.Step()) {
    ++report.objects;
    std::string bytes = o.Blob(1);
    if (HashBytes(bytes).Hex() != o.Text(0) || static_cast<int64_t>(bytes.size()) != o.Int(2)) {
      report.problems.push_back("object " + o.Text(0) + " has other content than its hash says");
    }
  }
  Statement d(db, "SELECT hash,json FROM document");
  while (d.Step()) {
    ++report.documents;
    if (HashBytes(d.Text(1)).Hex() != d.Text(0)) {
      report.problems.push_back("document " + d.Text(0) + " has other content than its hash says");
    }
  }
  if (checkpoints) VerifyCheckpoints(db, progress, report);
  return report;
}

}  // namespace xp::record
