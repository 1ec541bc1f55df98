// Writes one run into a store. A caller only puts a point into a queue (well under a microsecond);
// a thread of the writer commits the queue in batches a few times a second.
//
//   xp::record::RunWriter run(".exp", {.name = "my run", .kind = "library"});
//   for (int64_t step = 0; step < 100; ++step) run.Point("loss", step, loss);
//   run.End(xp::record::EndState::kFinished);
//
// See examples/record_your_own.cpp for a whole program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exp/record/value.h"

namespace xp::record {

struct ConfigValue {
  std::string path;            // "optimizer.lr"
  std::string value;           // JSON
  std::string origin;          // "configs/a.yaml:3:7"
  std::string history = "[]";  // JSON, oldest first: [{"origin":..., "value":...}]
};

struct StoredObject {
  std::string role;   // "patch", "file", "manifest", "images", "source"
  std::string bytes;  // its identity is their xxh128
  std::string path;   // of a source: where it was read
};

// A data set of a run; or a file of weights that it begins with, which has a file and a hash only.
struct DatasetRow {
  std::string role;  // "train", "val", "test"; of weights "load_from", "init_cfg"
  std::string ann_file, ann_hash, img_prefix;
  int64_t images = 0, bytes = 0, missing = 0;
  std::string mode = "full";  // or "cheap"
  std::string fingerprint;
  std::string image_list;  // its content; stored as an object
};

inline bool HoldsWeights(std::string_view role) {
  return role == "load_from" || role == "init_cfg";
}
inline bool HoldsWeights(const DatasetRow& row) { return HoldsWeights(row.role); }

// 12 random hex digits.
std::string NewRunId();

// Everything that is known before the first step. All of it may be empty but the name.
struct RunInfo {
  std::string id;  // from NewRunId(), for who must know it before; else one is made
  std::string name;
  std::string kind = "library";      // "train", "command", "library", "bench"
  std::vector<std::string> command;  // without secrets
  std::string cwd, work_dir;
  std::optional<uint64_t> seed;
  int threads = 0;
  std::string device;
  std::string config_file;
  std::string config_hash;  // identity of config_json
  std::string config_json;  // canonical
  std::vector<ConfigValue> config;
  std::vector<StoredObject> sources;   // config files, with path
  std::vector<std::string> overrides;  // as given to --set
  std::string environment_json, code_json;
  std::vector<StoredObject> objects;
  std::vector<DatasetRow> datasets;
  std::vector<std::string> tags;
  std::string parent_id;  // of the run that this one reproduces or continues
  std::string relation;   // "reproduces", "continues"
  std::string redactions_json = "[]";
  // Begin only while no other run that lives has this config (and kind), or on this machine this
  // work_dir: judged in one step with the beginning, so that of two that begin at once one does.
  bool sole_config = false, sole_work_dir = false;
};

struct EpochRow {
  int epoch = 0;     // 0-based
  int64_t step = 0;  // optimizer steps done
  std::vector<std::pair<std::string, Value>> losses, metrics, gpu;
  double train_seconds = 0, eval_seconds = 0, data_seconds = 0, images_per_second = 0;
  std::string weights_hash, optimizer_hash;  // empty: not known
};

struct CheckpointRow {
  std::string path, hash;  // absolute path, xxh128 of the content
  int epoch = 0;
  int64_t step = 0, bytes = 0;
};

struct ResumePoint {
  int epoch = 0;     // first epoch to run again
  int64_t step = 0;  // first step to run again; later points of earlier attempts are superseded
  std::string checkpoint_hash;
  std::string environment_json, code_json;  // as they are now
  std::vector<StoredObject> objects;        // that the code document names
  std::string redactions_json = "[]";       // added to those of earlier attempts
  // How many attempts there were when this point was chosen: when there are more, somebody went on
  // with the run meanwhile. -1: not asked.
  int attempts = -1;
  bool sole_work_dir = false;  // as RunInfo's
};

enum class EndState { kFinished, kFailed, kInterrupted };

struct WriterOptions {
  int flush_millis = 200;          // at most this long until another process can read a point
  size_t queue_limit = 4'000'000;  // points kept in memory while the disk can't take them
  int patience_millis = 5000;      // how long End tries when the disk can't take them
  // Called from the writer's thread when writing starts to fail ("disk full...") and when it works
  // again.
  std::function<void(const std::string&)> on_problem;
  // Takes secrets out of every text before it is queued: names, texts of points and epochs,
  // warnings, paths, the reason of the end. `key` is what the text stands under ("" for none).
  // Called from any thread.
  std::function<std::string(const std::string& text, const std::string& key,
                            const std::string& place)>
      clean;
  // What was taken out so far (RunInfo::redactions_json); asked when `clean` changed something.
  std::function<std::string()> redactions;
};

struct WriteReport {
  int64_t points_written = 0;
  int64_t points_lost = 0;
  bool end_written = false;
  std::string problem;  // empty: everything is in the store
};

// Thread-safe. Throws only from the constructors (UsageError, JobError): afterwards a failing disk
// is retried, reported by on_problem and stated by End, and never disturbs the caller.
class RunWriter {
 public:
  // Makes the store where there is none, writes the run's row and everything in `info`. Throws
  // UsageError where another run is in the way (RunInfo::sole_config, sole_work_dir).
  RunWriter(const std::filesystem::path& store, const RunInfo& info, WriterOptions options = {});

  // A new attempt at a run that ended early. Throws UsageError where a living process owns it, or
  // one has gone on with it since `from` was chosen.
  static std::unique_ptr<RunWriter> Resume(const std::filesystem::path& store,
                                           const std::string& run_id, const ResumePoint& from,
                                           WriterOptions options = {});
  // Ends the run as failed if End wasn't called.
  ~RunWriter();
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  const std::string& id() const;

  // The number of a series, for the fast Point below. Any name; invalid UTF-8 is replaced.
  int Series(std::string_view name);
  void Point(int series, int64_t step, double value);
  void Point(std::string_view name, int64_t step, Value value);

  // What the trainer says when it begins: JSON, kept with the attempt; the device, kept with the
  // run.
  void Start(std::string json, std::string device = "");
  // These two wait until they are on the disk, at most a second: an epoch that ended is never lost.
  void Epoch(EpochRow row);
  void Checkpoint(CheckpointRow row);
  void Warning(std::string code, std::string message, int64_t step = -1);

  // Waits until all that was queued is on the disk; false when that took longer than `millis` or
  // the disk didn't take it.
  bool Flush(int millis = 10000);

  // Writes what is left and the end state; later calls do nothing and give the same report.
  WriteReport End(EndState state, const std::string& reason = "");

 private:
  struct Impl;
  explicit RunWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace xp::record
