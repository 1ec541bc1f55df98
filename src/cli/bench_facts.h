// What explains the speeds of a call of `exp bench`.
#pragma once

#include <string>
#include <vector>

#include "exp/bench/report.h"
#include "exp/record/bench_store.h"

namespace xp::cli {

// Of the machine and the program, by an environment (MachineEnvironment), most telling first.
bench::Facts StateFacts(const std::string& environment_json);
// The call with its rows, and what stands above its table: its state, when and on what it was
// measured, and the device's best speeds.
bench::Call CallOf(const record::BenchRecord& record, std::vector<bench::Row> rows);

}  // namespace xp::cli
