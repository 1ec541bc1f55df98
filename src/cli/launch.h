// Runs and records one training, whoever trains: our trainer in this process, or another program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exp/config/load.h"
#include "exp/record/writer.h"
#include "exp/snapshot/redact.h"
#include "exp/train/events.h"

namespace xp::record {
struct Run;
}

namespace xp::cli {

// Everything that decides what runs; `exp run` makes it from files, `exp reproduce` from a record.
struct Launch {
  std::filesystem::path store;  // made when absent
  config::Resolved config;
  std::string config_file;
  std::string name;
  std::vector<std::string> tags;
  std::vector<std::string> argv;     // of this program
  std::vector<std::string> command;  // another trainer; empty: ours
  std::string device = "auto";
  uint64_t seed = 0;
  int threads = 0;                  // 0: all cores
  int max_epochs = -1;              // -1: the config's
  std::vector<std::string> plans;   // of the run that this one repeats or goes on with
  std::filesystem::path work_dir;   // empty: work_dirs/NAME-ID
  std::string parent_id, relation;  // "reproduces", "continues"
  // Fingerprints of what the config's files hold, where they are known already.
  std::optional<std::vector<record::DatasetRow>> inputs;
  std::vector<config::Notice> notes;  // told to the user already; warnings of the record
  // Resuming a run of the store.
  std::string resume_run;  // its id; empty: a new run
  std::filesystem::path resume_checkpoint;
  std::string resume_hash;
  int resume_epoch = 0;
  int64_t resume_step = 0;
  int resume_attempts = -1;  // how many there were then
  bool sole_config = false;  // refused while another run of the config lives
};

struct Context;

struct LaunchResult {
  std::string run_id;
  train::EndState state = train::EndState::kFinished;
  std::string reason;
  int exit_code = 0;
};

// Snapshots, begins the run, trains, ends it. Throws xp::Error for what goes wrong before the run
// began; afterwards the error is recorded first, then thrown.
LaunchResult Execute(const Launch& launch);

// The end of a run for people; `resume` is the command that goes on with it, without the run's id.
void PrintResult(const LaunchResult& result, const std::string& resume, Context& context);

// A redactor that knows every secret of the environment, the command line and the config.
snapshot::Redactor SecretsOf(const Launch& launch);

// The launch's config as the record keeps it: without secrets.
config::Node CleanConfig(const Launch& launch);

// The plans that the last attempt of a run used on its device; empty where none were recorded.
std::vector<std::string> RecordedPlans(const record::Run& run);

// Code, machine and data as a run of this launch would record them now, beside the config and the
// seed of `like`: to be compared with it.
record::Run DescribeNow(const Launch& launch, const record::Run& like);

// What would be recorded, for --dry-run.
void Describe(const Launch& launch);

}  // namespace xp::cli
