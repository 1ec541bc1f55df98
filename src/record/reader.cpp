#include "exp/record/reader.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "src/record/documents.h"
#include "src/record/sqlite.h"
#include "src/record/state.h"

namespace xp::record {
namespace {

std::vector<std::string> StringList(const std::string& json) {
  nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  std::vector<std::string> out;
  if (!parsed.is_array()) return out;
  for (const auto& item : parsed)
    out.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  return out;
}

void LoadRow(const Database& db, int64_t seq, Run& run) {
  auto document = [&](const char* column) {
    return std::string("(SELECT json FROM document WHERE hash=r.") + column + ")";
  };
  Statement s(db,
              "SELECT id,name,kind,created_ns,command,cwd,work_dir,seed,threads,device,config_file,"
              "config_hash,parent_id,relation,redactions,verdict," +
                  document("config_document") + "," + document("environment_document") + "," +
                  document("code_document") + " FROM run r WHERE seq=?1");
  if (!s.Bind(1, seq).Step())
    throw UsageError({.what = "the run was removed meanwhile",
                      .where = db.file().string(),
                      .next = "`exp ls` lists those that are there"});
  run.seq = seq;
  std::string command;
  s.Read(run.id, run.name, run.kind, run.created_ns, command, run.cwd, run.work_dir, run.seed,
         run.threads, run.device, run.config_file, run.config_hash, run.parent_id, run.relation,
         run.redactions_json);
  run.command = StringList(command);
  if (UsableDocument("verdict", s.Text(15))) run.verdict_json = s.Text(15);
  if (!UsableRedactions(run.redactions_json)) run.redactions_json = "[]";
  // A document that isn't what it should be (`exp verify` says so) is as good as none.
  auto usable = [&](const char* kind, int column) {
    std::string text = s.Text(column);
    return UsableDocument(kind, text) ? text : std::string();
  };
  run.config_json = usable("config", 16);
  run.environment_json = usable("environment", 17);
  run.code_json = usable("code", 18);
  RunStatus status = CurrentStatus(db, seq);
  run.state = status.state;
  run.reason = status.reason;
  run.pid = status.pid;
  run.host = status.host;
  run.ended_ns = status.ended_ns;
}

void LoadConfig(const Database& db, Run& run) {
  Statement v(db, "SELECT path,value,origin,history FROM config_value WHERE run=?1 ORDER BY path");
  for (v.Bind(1, run.seq); v.Step();)
    run.config.push_back({v.Text(0), v.Text(1), v.Text(2), v.Text(3)});
  Statement src(db, "SELECT path,object FROM config_source WHERE run=?1");
  for (src.Bind(1, run.seq); src.Step();) run.sources.emplace_back(src.Text(0), src.Text(1));
  Statement o(db, "SELECT text FROM override WHERE run=?1 ORDER BY position");
  for (o.Bind(1, run.seq); o.Step();) run.overrides.push_back(o.Text(0));
  Statement t(db, "SELECT tag FROM tag WHERE run=?1 ORDER BY tag");
  for (t.Bind(1, run.seq); t.Step();) run.tags.push_back(t.Text(0));
  Statement d(db,
              "SELECT role,ann_file,ann_hash,img_prefix,images,bytes,missing,mode,fingerprint,"
              "image_list FROM dataset WHERE run=?1 ORDER BY role");
  for (d.Bind(1, run.seq); d.Step();) {
    DatasetRecord r;
    d.Read(r.role, r.ann_file, r.ann_hash, r.img_prefix, r.images, r.bytes, r.missing, r.mode,
           r.fingerprint, r.image_list_object);
    run.datasets.push_back(std::move(r));
  }
}

void LoadAttempts(const Database& db, Run& run) {
  Statement s(
      db,
      "SELECT id,number,started_ns,ended_ns,state,reason,host,checkpoint,start,pid,start_step,"
      "lost_points,start_epoch FROM attempt WHERE run=?1 ORDER BY number");
  for (s.Bind(1, run.seq); s.Step();) {
    Attempt a;
    s.Read(a.id, a.number, a.started_ns, a.ended_ns, a.state, a.reason, a.host, a.checkpoint,
           a.start, a.pid, a.start_step, a.lost_points, a.start_epoch);
    run.attempts.push_back(std::move(a));
  }
  if (!run.attempts.empty() && run.attempts.back().state.empty()) {
    run.attempts.back().state = run.state;
    run.attempts.back().reason = run.reason;
  }
}

void LoadEpochs(const Database& db, Run& run) {
  Statement e(db,
              "SELECT id,epoch,step,ended_ns,train_seconds,eval_seconds,data_seconds,"
              "images_per_second,weights_hash,optimizer_hash,number FROM live_epoch WHERE run=?1 "
              "ORDER BY epoch");
  Statement v(db, "SELECT kind,name,value FROM epoch_value WHERE epoch=?1 ORDER BY kind,position");
  for (e.Bind(1, run.seq); e.Step();) {
    EpochRecord r;
    e.ReadFrom(1, r.epoch, r.step, r.ended_ns, r.train_seconds, r.eval_seconds, r.data_seconds,
               r.images_per_second, r.weights_hash, r.optimizer_hash, r.attempt);
    for (v.Bind(1, e.Int(0)); v.Step();) {
      std::string kind = v.Text(0);
      Named& list = kind == "loss" ? r.losses : kind == "metric" ? r.metrics : r.gpu;
      list.emplace_back(v.Text(1), v.GetValue(2));
    }
    v.Reset();
    run.epochs.push_back(std::move(r));
  }
}

void LoadRest(const Database& db, Run& run) {
  Statement c(
      db,
      "SELECT path,hash,c.epoch,c.step,bytes,at_ns,number FROM checkpoint c JOIN attempt a ON "
      "a.id=c.attempt WHERE a.run=?1 ORDER BY c.id");
  for (c.Bind(1, run.seq); c.Step();) {
    CheckpointRecord r;
    c.Read(r.path, r.hash, r.epoch, r.step, r.bytes, r.at_ns, r.attempt);
    run.checkpoints.push_back(std::move(r));
  }
  Statement w(
      db,
      "SELECT code,message,step,at_ns FROM warning w JOIN attempt a ON a.id=w.attempt WHERE "
      "a.run=?1 ORDER BY w.id");
  for (w.Bind(1, run.seq); w.Step();) {
    run.warnings.push_back({w.Text(0), w.Text(1), w.Int(2), w.Int(3)});
  }
  Statement m(
      db, "SELECT kind,name,step,count,last,low,high FROM summary WHERE run=?1 ORDER BY kind,name");
  for (m.Bind(1, run.seq); m.Step();) {
    SummaryRecord r;
    m.Read(r.kind, r.name, r.step, r.count, r.last, r.low, r.high);
    run.summaries.push_back(std::move(r));
  }
}

}  // namespace

Run LoadRun(const Store& store, int64_t seq) {
  Database& db = store.db();
  Run run;
  // One snapshot of the database, so that a run that is being written is seen at one moment.
  db.Exec("BEGIN");
  try {
    LoadRow(db, seq, run);
    LoadConfig(db, run);
    LoadAttempts(db, run);
    LoadEpochs(db, run);
    LoadRest(db, run);
  } catch (...) {
    sqlite3_exec(db.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
  db.Exec("COMMIT");
  return run;
}

std::vector<CurvePoint> LoadCurve(const Store& store, int64_t seq, const std::string& name,
                                  bool all, int64_t skip) {
  Statement s(
      store.db(),
      "SELECT p.step,p.at_ms,l.number,p.value FROM live_series l JOIN point p ON p.series=l.id "
      "WHERE l.run=?1 AND l.name=?2 AND (?3 OR l.before IS NULL OR p.step<l.before) ORDER BY "
      "l.number,p.n LIMIT -1 OFFSET ?4");
  std::vector<CurvePoint> out;
  for (s.Bind(1, seq).Bind(2, name).Bind(3, all ? 1 : 0).Bind(4, skip); s.Step();) {
    out.push_back({s.Int(0), s.Int(1), static_cast<int>(s.Int(2)), s.GetValue(3)});
  }
  return out;
}

std::vector<std::string> CurveNames(const Store& store, int64_t seq) {
  Statement s(store.db(),
              "SELECT s.name FROM series s JOIN attempt a ON a.id=s.attempt WHERE a.run=?1 "
              "GROUP BY s.name ORDER BY min(s.id)");
  std::vector<std::string> out;
  for (s.Bind(1, seq); s.Step();) out.push_back(s.Text(0));
  return out;
}

void LoadImageLists(const Store& store, Run& run) {
  for (DatasetRecord& d : run.datasets) {
    if (!d.image_list.empty() || d.image_list_object.empty()) continue;
    try {
      d.image_list = LoadObject(store, d.image_list_object);
    } catch (const Error&) {  // damaged or gone: then names can't be told
    }
  }
}

std::string LoadObject(const Store& store, const std::string& hash) {
  Statement s(store.db(), "SELECT data FROM object WHERE hash=?1");
  if (!s.Bind(1, hash).Step()) {
    throw UsageError({.what = "the store has no object " + hash,
                      .where = store.folder().string(),
                      .next = "`exp verify` lists what else is missing or damaged"});
  }
  std::string bytes = s.Blob(0);
  if (HashBytes(bytes).Hex() != hash) {
    throw JobError({.what = "object " + hash + " is damaged: its content has another hash",
                    .where = store.folder().string(),
                    .next = "`exp verify` lists all such objects"});
  }
  return bytes;
}

std::string ShowTime(int64_t ns) {
  std::time_t seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm local{};
  if (!localtime_r(&seconds, &local)) return "?";
  char text[32];
  size_t n = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  return std::string(text, n);
}

std::string ShowDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  int64_t whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
}

}  // namespace xp::record
