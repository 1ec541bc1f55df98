// What explains the speeds of a call of `exp bench`.
#pragma once

#include <string>

#include "exp/bench/report.h"
#include "exp/record/bench_store.h"

namespace xp::cli {

// Of the machine and the program, by an environment (MachineEnvironment), most telling first.
bench::Facts StateFacts(const std::string& environment_json);
// These, with when and on what the call was measured, and the device's best speeds.
bench::Facts FactsOf(const record::BenchRecord& record);

}  // namespace xp::cli
