#include "src/record/batch.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "exp/base/utf8.h"
#include "src/record/begin.h"

namespace xp::record {
namespace {

template <class T>
void MoveBehind(std::vector<T>& all, std::vector<T>&& more) {
  if (all.empty()) {
    all.swap(more);
  } else {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  }
}

}  // namespace

void Batch::Append(Batch&& later) {
  // All memory first: where there is none, nothing was moved.
  points.reserve(points.size() + later.points.size());
  epochs.reserve(epochs.size() + later.epochs.size());
  checkpoints.reserve(checkpoints.size() + later.checkpoints.size());
  warnings.reserve(warnings.size() + later.warnings.size());
  MoveBehind(points, std::move(later.points));
  MoveBehind(epochs, std::move(later.epochs));
  MoveBehind(checkpoints, std::move(later.checkpoints));
  MoveBehind(warnings, std::move(later.warnings));
  if (later.start) start = std::move(later.start);
  if (!later.device.empty()) device = std::move(later.device);
  if (!later.redactions.empty()) redactions = std::move(later.redactions);
  if (later.end) end = std::move(later.end);
  flush = flush || later.flush;
}

BatchWriter::BatchWriter(Database& db, int64_t run, int64_t attempt)
    : db_(db),
      run_(run),
      attempt_(attempt),
      insert_series_(db, "INSERT INTO series(attempt,name) VALUES(?1,?2)"),
      insert_point_(db, "INSERT INTO point(series,n,step,at_ms,value) VALUES(?1,?2,?3,?4,?5)") {
  Statement own(db_, "SELECT number,start_step,start_epoch FROM attempt WHERE id=?1");
  if (!own.Bind(1, attempt_).Step() || own.Int(0) == 1) return;
  start_step_ = own.Int(1);
  start_epoch_ = own.Int(2);
  own.Reset();
  Transaction t(db_);
  RestartSummaries();
  t.Commit();
}

void BatchWriter::AddSeries(const std::string& name) { series_.push_back({.name = name}); }

void BatchWriter::Summary::Add(int64_t at_step, const Value& value) {
  step = at_step;
  last = value;
  ++count;
  changed = true;
  double number = AsDouble(value);
  if (!std::isfinite(number)) return;
  low = has_range ? std::min(low, number) : number;
  high = has_range ? std::max(high, number) : number;
  has_range = true;
}

// What is still current of this and earlier attempts.
BatchWriter::Summaries BatchWriter::CurrentSummaries() const {
  Summaries out;
  auto add = [&](const Statement& row) {
    std::string kind = row.Text(0), name = row.Text(1);
    Summary& s = out[kind + '/' + name];
    s.kind = kind;
    s.name = name;
    s.Add(row.Int(2), row.GetValue(3));
  };
  Statement points(db_,
                   "SELECT 'step', l.name, p.step, p.value FROM live_series l JOIN point p ON "
                   "p.series=l.id WHERE l.run=?1 AND (l.before IS NULL OR p.step<l.before) "
                   "ORDER BY l.number, p.series, p.n");
  for (points.Bind(1, run_); points.Step();) add(points);
  Statement epochs(db_,
                   "SELECT v.kind, v.name, e.step, v.value FROM live_epoch e JOIN epoch_value v "
                   "ON v.epoch=e.id WHERE e.run=?1 ORDER BY e.epoch, v.position");
  for (epochs.Bind(1, run_); epochs.Step();) add(epochs);
  return out;
}

void BatchWriter::RestartSummaries() {
  summaries_ = CurrentSummaries();
  Statement clear(db_, "DELETE FROM summary WHERE run=?1");
  clear.Bind(1, run_).Run();
  WriteSummaries(summaries_);
}

// A trainer that begins before the point it was resumed from, perhaps at the very start: what it
// writes again supersedes what was there, so that no step counts twice.
bool BatchWriter::LowerStart(const Batch& batch) {
  int64_t step = start_step_, epoch = start_epoch_;
  for (const QueuedPoint& p : batch.points) {
    size_t number = static_cast<size_t>(p.series);
    bool telemetry = number < series_.size() && series_[number].name.rfind("gpu/", 0) == 0;
    if (!telemetry) step = std::min(step, p.step);
  }
  for (const auto& [at, row] : batch.epochs) {
    epoch = std::min<int64_t>(epoch, row.epoch);
  }
  if (step == start_step_ && epoch == start_epoch_) return false;
  Statement s(db_, "UPDATE attempt SET start_step=?2, start_epoch=?3 WHERE id=?1");
  s.Bind(1, attempt_).Bind(2, step).Bind(3, epoch).Run();
  start_step_ = step;
  start_epoch_ = epoch;
  return true;
}

void BatchWriter::Write(const Batch& batch, int64_t) {
  // Counters and summaries change in copies, so that a failed batch leaves them as they were.
  std::vector<Series> series = series_;
  Summaries touched, before;
  int64_t step = start_step_, epoch = start_epoch_;
  bool lowered = false;
  try {
    Transaction t(db_);
    lowered = LowerStart(batch);
    if (lowered) {
      before = summaries_;
      RestartSummaries();
    }
    WriteAll(batch, series, touched);
    t.Commit();
  } catch (...) {
    start_step_ = step;
    start_epoch_ = epoch;
    if (lowered) summaries_ = std::move(before);
    throw;
  }
  series_ = std::move(series);
  for (auto& [key, summary] : touched) summaries_[key] = std::move(summary);
  points_written_ += static_cast<int64_t>(batch.points.size());
}

void BatchWriter::WriteAll(const Batch& batch, std::vector<Series>& series, Summaries& touched) {
  WritePoints(batch, series, touched);
  WriteEpochs(batch, touched);
  WriteSummaries(touched);
  WriteRest(batch);
}

void BatchWriter::WritePoints(const Batch& batch, std::vector<Series>& series, Summaries& touched) {
  std::vector<Summary*> by_number(series.size(), nullptr);
  for (const QueuedPoint& p : batch.points) {
    size_t number = static_cast<size_t>(p.series);
    if (number >= series.size()) continue;  // not a number that Series() gave
    Series& s = series[number];
    if (s.id == 0) {
      insert_series_.Bind(1, attempt_).Bind(2, s.name).Run();
      s.id = db_.LastRowId();
    }
    insert_point_.Bind(1, s.id).Bind(2, s.n).Bind(3, p.step).Bind(4, p.at_ms).BindValue(5, p.value);
    insert_point_.Step();
    sqlite3_reset(insert_point_.handle());
    ++s.n;
    Summary*& summary = by_number[number];
    if (!summary) {
      std::string key = "step/" + s.name;
      auto known = summaries_.find(key);
      summary = &touched.emplace(key, known != summaries_.end() ? known->second : Summary{})
                     .first->second;
      summary->kind = "step";
      summary->name = s.name;
    }
    summary->Add(p.step, p.value);
  }
}

void BatchWriter::WriteEpochs(const Batch& batch, Summaries& touched) {
  if (batch.epochs.empty()) return;
  Statement epoch(db_,
                  "INSERT OR REPLACE INTO epoch(attempt,epoch,step,ended_ns,train_seconds,"
                  "eval_seconds,data_seconds,images_per_second,weights_hash,optimizer_hash) "
                  "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)");
  Statement value(db_, "INSERT OR REPLACE INTO epoch_value VALUES(?1,?2,?3,?4,?5)");
  for (const auto& [ended, epoch_row] : batch.epochs) {
    const EpochRow& row = epoch_row;
    epoch.Bind(1, attempt_).Bind(2, row.epoch).Bind(3, row.step).Bind(4, ended);
    epoch.BindReal(5, row.train_seconds)
        .BindReal(6, row.eval_seconds)
        .BindReal(7, row.data_seconds);
    epoch.BindReal(8, row.images_per_second);
    epoch.BindOptional(9, row.weights_hash).BindOptional(10, row.optimizer_hash).Run();
    int64_t id = db_.LastRowId();
    auto put = [&](const char* kind, const std::vector<std::pair<std::string, Value>>& values) {
      int position = 0;
      for (const auto& [raw_name, v] : values) {
        std::string name = ValidUtf8(raw_name), key = std::string(kind) + '/' + name;
        value.Bind(1, id).Bind(2, kind).Bind(3, position++).Bind(4, name).BindValue(5, v).Run();
        auto known = summaries_.find(key);
        auto [it, fresh] = touched.emplace(key, Summary{});
        if (fresh && known != summaries_.end()) it->second = known->second;
        it->second.kind = kind;
        it->second.name = name;
        it->second.Add(row.step, v);
      }
    };
    put("loss", row.losses);
    put("metric", row.metrics);
    put("gpu", row.gpu);
  }
}

void BatchWriter::WriteRest(const Batch& batch) {
  for (const auto& [at, row] : batch.checkpoints) {
    Statement s(db_,
                "INSERT INTO checkpoint(attempt,path,hash,epoch,step,bytes,at_ns) "
                "VALUES(?1,?2,?3,?4,?5,?6,?7)");
    s.Bind(1, attempt_).Bind(2, ValidUtf8(row.path)).Bind(3, row.hash).Bind(4, row.epoch);
    s.Bind(5, row.step).Bind(6, row.bytes).Bind(7, at).Run();
  }
  for (const WarningRow& row : batch.warnings) {
    Statement s(db_, "INSERT INTO warning(attempt,code,message,step,at_ns) VALUES(?1,?2,?3,?4,?5)");
    s.Bind(1, attempt_).Bind(2, ValidUtf8(row.code)).Bind(3, ValidUtf8(row.message));
    s.Bind(4, row.step).Bind(5, row.at_ns).Run();
  }
  if (batch.start) {
    Statement s(db_, "UPDATE attempt SET start=?2 WHERE id=?1");
    s.Bind(1, attempt_).Bind(2, ValidUtf8(*batch.start)).Run();
  }
  if (!batch.device.empty()) {
    Statement s(db_, "UPDATE run SET device=?2 WHERE seq=?1");
    s.Bind(1, run_).Bind(2, ValidUtf8(batch.device)).Run();
  }
  if (!batch.redactions.empty()) MergeRedactions(db_, run_, batch.redactions);
  int64_t now = WallClockNs();
  Statement beat(db_, "UPDATE attempt SET heartbeat_ns=?2 WHERE id=?1");
  beat.Bind(1, attempt_).Bind(2, now).Run();
  if (batch.end) {
    Statement s(db_,
                "UPDATE attempt SET state=?2, reason=?3, ended_ns=?4, lost_points=?5 WHERE id=?1");
    s.Bind(1, attempt_).Bind(2, batch.end->state).Bind(3, ValidUtf8(batch.end->reason));
    s.Bind(4, now).Bind(5, batch.end->lost).Run();
  }
}

void BatchWriter::WriteSummaries(Summaries& summaries) {
  Statement s(db_, "INSERT OR REPLACE INTO summary VALUES(?1,?2,?3,?4,?5,?6,?7,?8)");
  for (auto& [key, summary] : summaries) {
    s.Bind(1, run_).Bind(2, summary.kind).Bind(3, summary.name).Bind(4, summary.step);
    s.BindValue(5, summary.last);
    summary.has_range ? s.BindReal(6, summary.low).BindReal(7, summary.high)
                      : s.BindNull(6).BindNull(7);
    s.Bind(8, summary.count).Run();
  }
}

}  // namespace xp::record
