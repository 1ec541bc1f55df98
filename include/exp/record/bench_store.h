// Results of `exp bench` in the store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exp/record/store.h"

namespace xp::record {

struct BenchRecord {
  int64_t id = 0, created_ns = 0;            // set when it is stored
  std::string name;                          // 8 hex digits, likewise
  std::string label, machine, host, device;  // machine and host from the environment
  std::string command_json = "[]", matrix_json = "{}", speeds_json = "{}", environment_json;
};

struct BenchRow {
  std::string program = "exp", kind = "step", model;
  int batch = 0;
  std::string precision, device, mode, status, reason;
  double images_per_second = 0, milliseconds = 0, spread = 0, watts = 0;  // 0: not measured
  int64_t bytes = 0;
  std::string throttled, result_json = "{}";
};

// Makes the call's row at once, so that a call that is cut short keeps what it measured; gives id
// and name.
BenchRecord BeginBench(const Store& store, BenchRecord record);
void SetBenchDevice(const Store& store, int64_t id, const std::string& device,
                    const std::string& speeds_json);
// Throws where another process has put a row there.
void AddBenchRow(const Store& store, int64_t id, int position, const BenchRow& row);
void ReplaceBenchRow(const Store& store, int64_t id, int position, const BenchRow& row);

// All calls, the newest first.
std::vector<BenchRecord> ListBenches(const Store& store);
// The call that a selector names: "@" the newest, "@~1" the one before, a name, a unique beginning
// of one, or a label (the newest of that label). Throws UsageError that lists what there is.
BenchRecord FindBench(const Store& store, const std::string& selector);
std::vector<BenchRow> LoadBenchRows(const Store& store, int64_t id);

}  // namespace xp::record
