// Reads runs back: lists with filters, one whole record, curves, objects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exp/record/store.h"
#include "exp/record/value.h"
#include "exp/record/writer.h"

namespace xp::record {

using Named = std::vector<std::pair<std::string, Value>>;

// One line of a list.
struct RunLine {
  int64_t seq = 0;
  std::string id, name, kind;
  int64_t created_ns = 0;
  int64_t ended_ns = 0;       // 0: still running
  std::string state, reason;  // running, finished, failed, killed, interrupted
  int64_t pid = 0;
  std::string host, work_dir, config_file, config_hash, device, parent_id, relation;
  std::string seed;  // decimal, or empty
  int threads = 0;   // 0: not known
  std::vector<std::string> tags;
  std::map<std::string, Value> values;  // the keys asked for, where the run has them
};

// Names of a run's numbers: "optimizer.lr" (config), "metric.bbox_mAP", "loss.loss_cls" (mean over
// the last epoch), "step.loss" (newest point), "gpu.0.celsius.max"; and the run's own "id", "name",
// "state", "kind", "created", "seconds", "seed", "device", "tag", "config", "epoch", "work_dir".
struct ListOptions {
  std::string where;  // "optimizer.lr > 0.01 and metric.bbox_mAP > 0.3"; docs/record.md
  std::string sort;   // a name; empty: newest first
  bool reverse = false;
  int64_t limit = -1;             // -1: all
  std::vector<std::string> keys;  // to fill RunLine::values with
};

// Throws UsageError for an expression that can't be read, with the column.
std::vector<RunLine> ListRuns(const Store& store, const ListOptions& options);
// Those of `names` that no run of the store has: typing errors, mostly.
std::vector<std::string> NamesThatNoRunHas(const Store& store,
                                           const std::vector<std::string>& names);
// The names that a condition asks for. Throws UsageError with the column where it is none.
std::vector<std::string> NamesOfCondition(const std::string& where);
// The names that a store's runs have, sorted within each of the two.
struct KnownNames {
  std::vector<std::string> plain;  // "epoch", "id" and such, then "metric.X", "loss.X", ...
  std::vector<std::string> config_keys;
};
KnownNames NamesOfRuns(const Store& store);
// May a run that is still running record something under this name yet ("metric.X")?
bool IsStillToCome(const std::string& name);

// Where the store's runs write their checkpoints, each once.
std::vector<std::string> WorkDirs(const Store& store);

struct Attempt {
  int64_t id = 0;
  int number = 0;
  int64_t started_ns = 0, ended_ns = 0;
  std::string state, reason, host, checkpoint, start;  // start: JSON
  int64_t pid = 0, start_step = 0, lost_points = 0;
  int start_epoch = 0;
  bool superseded = false;  // wholly replaced by a later attempt
};

struct EpochRecord : EpochRow {
  int attempt = 1;
  int64_t ended_ns = 0;
};

struct CheckpointRecord : CheckpointRow {
  int attempt = 1;
  int64_t at_ns = 0;
};

struct WarningRecord {
  std::string code, message;
  int64_t step = -1, at_ns = 0;
};

struct SummaryRecord {
  std::string kind, name;
  int64_t step = 0, count = 0;
  Value last;
  std::optional<double> low, high;
};

struct DatasetRecord : DatasetRow {
  std::string image_list_object;  // empty: none kept
};

struct Run : RunLine {
  std::vector<std::string> command;
  std::string cwd, config_json, environment_json, code_json, redactions_json, verdict_json;
  std::vector<ConfigValue> config;
  std::vector<std::pair<std::string, std::string>> sources;  // path, object
  std::vector<std::string> overrides;
  std::vector<DatasetRecord> datasets;
  std::vector<Attempt> attempts;
  std::vector<EpochRecord> epochs;  // current ones, by epoch
  std::vector<CheckpointRecord> checkpoints;
  std::vector<WarningRecord> warnings;
  std::vector<SummaryRecord> summaries;
  // Contents of objects by hash, where this describes a state that no store holds.
  std::map<std::string, std::string> objects;
};

// The run that a selector names: an id, a unique prefix of one, a name, "@" for the newest, "@~2"
// for two before it. Throws UsageError that lists the candidates where it isn't one.
int64_t ResolveRun(const Store& store, const std::string& selector);

Run LoadRun(const Store& store, int64_t seq);

struct CurvePoint {
  int64_t step = 0, at_ms = 0;
  int attempt = 1;
  Value value;
};
// Current points of a curve in the order written; with `all`, superseded ones too. Without the
// first `skip`: for who has these already.
std::vector<CurvePoint> LoadCurve(const Store& store, int64_t seq, const std::string& name,
                                  bool all = false, int64_t skip = 0);
std::vector<std::string> CurveNames(const Store& store, int64_t seq);

// Fills the image lists of a run's data sets (DatasetRow::image_list), which name each image.
void LoadImageLists(const Store& store, Run& run);

// The bytes of an object. Throws UsageError where it is absent, JobError where its hash is wrong.
std::string LoadObject(const Store& store, const std::string& hash);

// "2026-12-01 13:05:32", local time.
std::string ShowTime(int64_t ns);
std::string ShowDuration(double seconds);

}  // namespace xp::record
