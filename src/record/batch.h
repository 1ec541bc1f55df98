// What the writer commits in one transaction; private to src/record.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exp/record/writer.h"
#include "src/record/sqlite.h"

namespace xp::record {

struct QueuedPoint {
  int series;
  int64_t step;
  int64_t at_ms;
  Value value;
};

struct WarningRow {
  std::string code, message;
  int64_t step;
  int64_t at_ns;
};

struct EndRow {
  std::string state, reason;
  int64_t lost = 0;
};

struct Batch {
  std::vector<QueuedPoint> points;
  std::vector<std::pair<int64_t, EpochRow>> epochs;  // with the wall clock at their end
  std::vector<std::pair<int64_t, CheckpointRow>> checkpoints;
  std::vector<WarningRow> warnings;
  std::optional<std::string> start;
  std::string device;
  std::string redactions;  // JSON; empty: as before
  std::optional<EndRow> end;
  bool flush = false;  // someone waits
  uint64_t mark = 0;   // how many queued things are done when this batch is

  bool HasRows() const {
    return flush || start || !redactions.empty() || !epochs.empty() || !checkpoints.empty() ||
           !warnings.empty();
  }
  bool Empty() const { return points.empty() && !HasRows() && !end; }
  void Append(Batch&& later);
};

// Turns batches into rows of one attempt. A batch that fails leaves no trace, here or in the store,
// and may be tried again.
class BatchWriter {
 public:
  BatchWriter(Database& db, int64_t run, int64_t attempt);

  // The next series, in order of their numbers.
  void AddSeries(const std::string& name);
  void Write(const Batch& batch, int64_t now_ms);
  int64_t points_written() const { return points_written_; }

 private:
  struct Series {
    std::string name;
    int64_t id = 0;  // 0: no row yet
    int64_t n = 0;   // points written
  };
  // The newest value and the range of a name: table `summary`.
  struct Summary {
    std::string kind, name;
    int64_t step = 0;
    Value last;
    double low = 0, high = 0;
    bool has_range = false;
    int64_t count = 0;
    bool changed = false;
    void Add(int64_t at_step, const Value& value);
  };
  using Summaries = std::unordered_map<std::string, Summary>;  // by kind + '/' + name

  Summaries CurrentSummaries() const;
  void RestartSummaries();
  bool LowerStart(const Batch& batch);
  void WriteAll(const Batch& batch, std::vector<Series>& series, Summaries& touched);
  void WritePoints(const Batch& batch, std::vector<Series>& series, Summaries& summaries);
  void WriteEpochs(const Batch& batch, Summaries& summaries);
  void WriteRest(const Batch& batch);
  void WriteSummaries(Summaries& summaries);

  Database& db_;
  int64_t run_, attempt_;
  std::vector<Series> series_;
  Summaries summaries_;
  Statement insert_series_, insert_point_;
  int64_t points_written_ = 0;
  int64_t start_step_ = 0, start_epoch_ = 0;
};

}  // namespace xp::record
