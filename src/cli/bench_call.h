// One call of `exp bench`: measures the cases of a matrix, shows the rows and keeps them in the
// store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exp/bench/earlier.h"
#include "exp/bench/matrix.h"
#include "exp/bench/series.h"
#include "exp/bench/speeds.h"
#include "exp/config/load.h"
#include "exp/record/bench_store.h"
#include "exp/snapshot/nvml.h"
#include "src/cli/bench_past.h"

namespace xp::cli {

struct BenchCallOptions {
  std::string label, python = "python3";
  bool no_store = false;
  bool torch = false;       // also PyTorch on the same cases
  bool skip_exp = false;    // PyTorch alone
  bench::PastOptions past;  // store, files and JSON
};

// The call that `selector` names, to be continued. Throws UsageError where there is none, and where
// driver, libraries, program or the kind of machine differ: one table is of one state.
record::BenchRecord FindBenchToContinue(const std::string& store, const std::string& selector);
// Its matrix.
config::Resolved MatrixOf(const record::BenchRecord& record);

class BenchCall {
 public:
  // `continued`: measures what that call lacks, in its store; null: a new call, of `command`.
  // Throws UsageError for what the matrix can't be.
  BenchCall(const BenchCallOptions& options, const std::vector<std::string>& command,
            const config::Resolved& matrix, const record::BenchRecord* continued);
  // The exit code: 0, 1 when a case failed, 130 when it was interrupted.
  int Run();

 private:
  struct Planned {
    bench::Case c;
    std::function<bench::Row()> measure;
  };

  void OpenStore(const std::vector<std::string>& command, const config::Resolved& matrix);
  void Continue(const record::BenchRecord& record);
  template <class Body>
  void Storing(Body body);
  void Store(const bench::Row& row, size_t position, bool again);
  void StoreDevice();

  std::vector<Planned> Plan();
  void PlanFromJpegs(std::vector<Planned>* plan);
  void MeasureExp();
  void MeasurePeer();
  bool IsThere(const bench::Case& c, size_t* position);
  void Announce(const bench::Case& c) const;
  void CompareWithDevice(bench::Row* row);
  void Put(bench::Row row, size_t position);
  void Print(const bench::Row& row) const;
  void Finish();

  const BenchCallOptions& options_;
  int64_t begun_ns_;                                    // this attempt
  std::shared_ptr<const snapshot::Nvml::Loaded> nvml_;  // for all that ask it
  std::string environment_, device_, other_machine_;
  bench::Matrix matrix_;
  bench::StepSeries series_;
  bench::EarlierRows earlier_;
  std::unique_ptr<record::Store> store_;
  record::BenchRecord record_;
  std::vector<bench::Row> rows_;
  bench::SpeedsByDevice speeds_;
  bool live_ = false;
};

}  // namespace xp::cli
