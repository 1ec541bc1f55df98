#include "src/record/begin.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "exp/base/hash.h"
#include "exp/base/utf8.h"
#include "exp/record/process.h"
#include "src/record/state.h"

namespace xp::record {
namespace {

using nlohmann::json;

std::string DumpArray(const std::vector<std::string>& texts) {
  return json(texts).dump(-1, ' ', false, json::error_handler_t::replace);
}

int64_t InsertAttempt(Database& db, int64_t run, const ResumePoint& from, const std::string& env,
                      const std::string& code) {
  ProcessIdentity self = ThisProcess();
  std::optional<int64_t> kills = OutOfMemoryKills();
  int64_t now = WallClockNs();
  Statement s(
      db,
      "INSERT INTO attempt(run,number,started_ns,heartbeat_ns,pid,pid_start,pid_namespace,"
      "boot_id,host,start_epoch,start_step,checkpoint,oom_kills,environment_document,"
      "code_document) VALUES(?1,(SELECT count(*)+1 FROM attempt WHERE run=?1),?2,?2,?3,?4,?5,"
      "?6,?7,?8,?9,?10,?11,?12,?13)");
  s.Bind(1, run).Bind(2, now).Bind(3, self.pid).Bind(4, self.start).Bind(5, self.pid_namespace);
  s.Bind(6, self.boot_id).Bind(7, self.host).Bind(8, from.epoch).Bind(9, from.step);
  s.BindOptional(10, from.checkpoint_hash);
  kills ? s.Bind(11, *kills) : s.BindNull(11);
  s.BindOptional(12, env).BindOptional(13, code);
  s.Run();
  return db.LastRowId();
}

int64_t InsertRunRow(Database& db, const RunInfo& info, const std::string& id,
                     const std::string& env, const std::string& code) {
  Statement s(
      db,
      "INSERT INTO run(id,name,kind,created_ns,command,cwd,work_dir,seed,threads,device,"
      "config_file,config_hash,config_document,environment_document,code_document,parent,"
      "parent_id,relation,redactions) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,"
      "?15,(SELECT seq FROM run WHERE id=?16),?16,?17,?18)");
  s.Bind(1, id).Bind(2, ValidUtf8(info.name)).Bind(3, info.kind).Bind(4, WallClockNs());
  s.Bind(5, DumpArray(info.command)).Bind(6, ValidUtf8(info.cwd)).Bind(7, ValidUtf8(info.work_dir));
  s.BindOptional(8, info.seed ? std::to_string(*info.seed) : "");
  info.threads > 0 ? s.Bind(9, info.threads) : s.BindNull(9);
  s.BindOptional(10, info.device).BindOptional(11, ValidUtf8(info.config_file));
  s.BindOptional(12, info.config_hash);
  s.BindOptional(13, PutDocument(db, "config", info.config_json));
  s.BindOptional(14, env).BindOptional(15, code);
  s.BindOptional(16, info.parent_id).BindOptional(17, info.relation).Bind(18, info.redactions_json);
  s.Run();
  return db.LastRowId();
}

void InsertConfig(Database& db, int64_t run, const RunInfo& info) {
  Statement value(db, "INSERT OR REPLACE INTO config_value VALUES(?1,?2,?3,?4,?5,?6)");
  for (const ConfigValue& v : info.config) {
    value.Bind(1, run).Bind(2, ValidUtf8(v.path)).Bind(3, ValidUtf8(v.value));
    json parsed = json::parse(v.value, nullptr, false);
    double number = parsed.is_number() ? parsed.get<double>() : std::nan("");
    std::isfinite(number) ? value.BindReal(4, number) : value.BindNull(4);
    value.Bind(5, ValidUtf8(v.origin)).Bind(6, ValidUtf8(v.history)).Run();
  }
  Statement source(db, "INSERT OR REPLACE INTO config_source VALUES(?1,?2,?3)");
  for (const StoredObject& o : info.sources) {
    source.Bind(1, run).Bind(2, ValidUtf8(o.path)).Bind(3, PutObject(db, o.bytes)).Run();
  }
  Statement override_row(db, "INSERT INTO override VALUES(?1,?2,?3)");
  int position = 0;
  for (const std::string& text : info.overrides) {
    override_row.Bind(1, run).Bind(2, ++position).Bind(3, ValidUtf8(text)).Run();
  }
}

void LinkObject(Database& db, int64_t run, const std::string& hash, const std::string& role) {
  Statement s(db, "INSERT OR IGNORE INTO run_object VALUES(?1,?2,?3)");
  s.Bind(1, run).Bind(2, hash).Bind(3, role).Run();
}

void InsertDatasets(Database& db, int64_t run, const RunInfo& info) {
  for (const DatasetRow& d : info.datasets) {
    std::string list = d.image_list.empty() ? "" : PutObject(db, d.image_list);
    if (!list.empty()) LinkObject(db, run, list, "images");
    Statement s(db, "INSERT OR REPLACE INTO dataset VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)");
    s.Bind(1, run).Bind(2, d.role).Bind(3, ValidUtf8(d.ann_file)).Bind(4, d.ann_hash);
    s.Bind(5, ValidUtf8(d.img_prefix)).Bind(6, d.images).Bind(7, d.bytes).Bind(8, d.missing);
    s.Bind(9, d.mode).Bind(10, d.fingerprint).BindOptional(11, list).Run();
  }
}

// A run that lives, other than `own`, for which `condition` holds with ?1 and ?2; `seen`: whose
// process is seen to, where a heartbeat could be that of a container that was ended a moment ago.
std::optional<std::pair<std::string, RunStatus>> Living(Database& db, const std::string& condition,
                                                        const std::string& first,
                                                        const std::string& second, int64_t own,
                                                        bool seen) {
  Statement s(
      db,
      "SELECT DISTINCT r.seq,r.id FROM run r JOIN attempt a ON a.run=r.seq WHERE a.state IS "
      "NULL AND r.seq<>?3 AND " +
          condition);
  for (s.Bind(1, first).Bind(2, second).Bind(3, own); s.Step();) {
    RunStatus status = CurrentStatus(db, s.Int(0));
    if (status.state == "running" && (status.seen || !seen))
      return std::pair{s.Text(1), std::move(status)};
  }
  return std::nullopt;
}

std::string WaitAdvice(const std::string& run) {
  return "wait for it or stop it; `exp log --follow " + run + "` shows it";
}

void RequireSoleConfig(Database& db, const RunInfo& info) {
  const auto other =
      Living(db, "r.config_hash=?1 AND r.kind=?2 AND coalesce(r.relation,'')<>'reproduces'",
             info.config_hash, info.kind, 0, false);
  if (!other) return;
  throw UsageError({.what = fmt::format("run {} of this config is owned by process {} on {}, which "
                                        "still runs",
                                        other->first, other->second.pid, other->second.host),
                    .expected = "one run of the config at a time, as --resume auto has it",
                    .next = WaitAdvice(other->first)});
}

// Two trainings would write over each other's checkpoints.
void RequireSoleWorkDir(Database& db, const std::string& work_dir, int64_t own) {
  const auto other =
      Living(db, "r.work_dir=?1 AND a.host=?2", work_dir, ThisProcess().host, own, true);
  if (!other) return;
  throw UsageError({.what = fmt::format("run {} writes its checkpoints there, and still runs "
                                        "(process {})",
                                        other->first, other->second.pid),
                    .where = work_dir,
                    .expected = "a folder of its own for each run",
                    .next = "name another one with --work-dir; or " + WaitAdvice(other->first)});
}

}  // namespace

std::string NewRunId() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {
    bits = HashBytes(fmt::format("{} {}", WallClockNs(), ThisProcess().pid)).low;
  }
  return fmt::format("{:012x}", bits & 0xffffffffffffull);
}

int64_t WallClockNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string PutObject(Database& db, std::string_view bytes) {
  std::string hash = HashBytes(bytes).Hex();
  Statement known(db, "SELECT 1 FROM object WHERE hash=?1");
  if (known.Bind(1, hash).Step()) return hash;
  Statement s(db, "INSERT OR IGNORE INTO object VALUES(?1,?2,?3)");
  s.Bind(1, hash).Bind(2, static_cast<int64_t>(bytes.size())).BindBlob(3, bytes).Run();
  return hash;
}

std::string PutDocument(Database& db, const std::string& kind, const std::string& text) {
  if (text.empty()) return "";
  std::string hash = HashBytes(text).Hex();
  Statement s(db, "INSERT OR IGNORE INTO document VALUES(?1,?2,?3)");
  s.Bind(1, hash).Bind(2, kind).Bind(3, text).Run();
  return hash;
}

void MergeRedactions(Database& db, int64_t run, const std::string& redactions_json) {
  Statement before(db, "SELECT redactions FROM run WHERE seq=?1");
  if (!before.Bind(1, run).Step()) return;
  json all = json::parse(before.Text(0), nullptr, false),
       more = json::parse(redactions_json, nullptr, false);
  if (!all.is_array()) all = json::array();
  size_t known = all.size();
  if (more.is_array()) {
    for (const json& item : more) {
      if (std::find(all.begin(), all.end(), item) == all.end()) all.push_back(item);
    }
  }
  if (all.size() == known) return;
  Statement s(db, "UPDATE run SET redactions=?2 WHERE seq=?1");
  s.Bind(1, run).Bind(2, all.dump(-1, ' ', false, json::error_handler_t::replace)).Run();
}

Begun BeginRun(Database& db, const RunInfo& info) {
  Transaction t(db);
  Begun begun;
  begun.run_id = info.id;
  Statement taken(db, "SELECT 1 FROM run WHERE id=?1");
  while (begun.run_id.empty() || taken.Bind(1, begun.run_id).Step()) {
    if (!info.id.empty())
      throw UsageError({.what = "there is already a run " + info.id,
                        .where = db.file().string(),
                        .next = "leave RunInfo::id empty, or take one of NewRunId()"});
    begun.run_id = NewRunId();
    taken.Reset();
  }
  if (info.sole_config) RequireSoleConfig(db, info);
  if (info.sole_work_dir) RequireSoleWorkDir(db, ValidUtf8(info.work_dir), 0);
  std::string env = PutDocument(db, "environment", info.environment_json);
  std::string code = PutDocument(db, "code", info.code_json);
  begun.run = InsertRunRow(db, info, begun.run_id, env, code);
  begun.attempt = InsertAttempt(db, begun.run, ResumePoint{}, env, code);
  InsertConfig(db, begun.run, info);
  for (const StoredObject& o : info.objects) {
    LinkObject(db, begun.run, PutObject(db, o.bytes), o.role);
  }
  InsertDatasets(db, begun.run, info);
  Statement tag(db, "INSERT OR IGNORE INTO tag VALUES(?1,?2)");
  for (const std::string& name : info.tags) tag.Bind(1, begun.run).Bind(2, ValidUtf8(name)).Run();
  t.Commit();
  return begun;
}

Begun BeginAttempt(Database& db, const std::string& run_id, const ResumePoint& from) {
  // Whoever gets the write lock first becomes the owner; the other one then sees a living process.
  Transaction t(db);
  Begun begun{.run_id = run_id};
  Statement find(db, "SELECT seq FROM run WHERE id=?1");
  if (!find.Bind(1, run_id).Step()) {
    throw UsageError({.what = "there is no run " + run_id,
                      .where = db.file().string(),
                      .next = "it was removed meanwhile; `exp ls` lists those that are there"});
  }
  begun.run = find.Int(0);
  RunStatus status = CurrentStatus(db, begun.run);
  if (status.state == "running") {
    throw UsageError({.what = fmt::format("run {} is owned by process {} on {}, which still runs",
                                          run_id, status.pid, status.host),
                      .expected = "a run whose process has ended",
                      .next = WaitAdvice(run_id)});
  }
  Statement before(db,
                   "SELECT count(*),(SELECT work_dir FROM run WHERE seq=?1) FROM attempt WHERE "
                   "run=?1");
  before.Bind(1, begun.run).Step();
  if (from.attempts >= 0 && before.Int(0) != from.attempts) {
    throw UsageError({.what = "another process has gone on with run " + run_id + " meanwhile",
                      .expected = "the run as it was when its checkpoint was chosen",
                      .next = "try again: `exp show " + run_id + "` tells how far it is now"});
  }
  if (from.sole_work_dir) RequireSoleWorkDir(db, before.Text(1), begun.run);
  before.Reset();
  // What was only concluded from the missing process becomes part of the record.
  Statement close(db,
                  "UPDATE attempt SET state='killed', reason=?2, ended_ns=heartbeat_ns "
                  "WHERE run=?1 AND state IS NULL");
  close.Bind(1, begun.run).Bind(2, status.reason).Run();
  begun.attempt =
      InsertAttempt(db, begun.run, from, PutDocument(db, "environment", from.environment_json),
                    PutDocument(db, "code", from.code_json));
  for (const StoredObject& o : from.objects) {
    LinkObject(db, begun.run, PutObject(db, o.bytes), o.role);
  }
  MergeRedactions(db, begun.run, from.redactions_json);
  t.Commit();
  return begun;
}

}  // namespace xp::record
