// Reports of `exp doctor`, and which of them belongs to a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exp/record/diff.h"
#include "exp/record/store.h"

namespace xp::record {

// What tells machines apart, from an environment (snapshot::CaptureEnvironment): a hash of the
// GPUs' uuids, since containers change their host's name from start to start; of host name and CPU
// where there is no GPU. Empty for an environment that tells neither.
std::string MachineIdentity(const std::string& environment_json);

struct DoctorReport {
  int64_t id = 0, created_ns = 0;  // set when it is stored
  std::string machine, host;       // likewise, from the environment
  std::string level;               // "ok", "absent", "warning", "error"
  bool deep = false;
  bool interrupted = false;  // set when it is loaded: checks at its end weren't made
  double seconds = 0;
  std::string environment_json, report_json;
};

// Gives its id. Throws JobError where the store can't be written.
int64_t SaveDoctorReport(const Store& store, const DoctorReport& report);

// The newest report of a machine made before `before_ns`, or the oldest one after that when there
// is none; nullopt when the machine has none. Those that were interrupted don't count.
std::optional<DoctorReport> FindDoctorReport(const Store& store, const std::string& machine,
                                             int64_t before_ns = INT64_MAX);
// That of the machine that a run ran on, as the machine was when it began.
std::optional<DoctorReport> FindDoctorReport(const Store& store, const Run& run);

// What had another version when the report was made than when the run began, where both tell:
// "driver 550.54.14 (the run: 580.159.03)"; empty where nothing had.
std::string OtherState(const DoctorReport& report, const Run& run);

// All reports, the newest first.
std::vector<DoctorReport> ListDoctorReports(const Store& store);
// The report that a selector names: "@" the newest, "@~1" the one before, or its id. Throws
// UsageError that lists what there is.
DoctorReport NamedDoctorReport(const Store& store, const std::string& selector);

// What differs between reports, section "machine": findings whose level or text differs; of what is
// measured (speeds, temperatures) only another level counts. A null report is one that there isn't.
// What a report lacks since it was interrupted, or only looked, is no difference.
std::vector<Difference> DiffReports(const std::vector<const DoctorReport*>& reports);
// What differs between the reports of the runs' machines, section "machine": each finding whose
// level or text differs, where at least two runs have a report and the reports aren't one. Before
// them "report", where one of the reports was made with another driver, say, than its run had.
void DiffMachines(const Store& store, const std::vector<Run>& runs, std::vector<Difference>& out);

}  // namespace xp::record
