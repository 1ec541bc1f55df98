// What `exp bench` shows of earlier calls, and the files that it writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exp/bench/report.h"
#include "exp/record/bench_store.h"

namespace xp::bench {

struct PastOptions {
  std::string store, markdown, csv, html;
  std::optional<std::string> show;
  std::vector<std::string> compare, models;
  bool history = false, json = false;
  // An earlier call is shown, nothing is measured.
  bool Asked() const { return history || show || !compare.empty(); }
};

}  // namespace xp::bench

namespace xp::cli {

// Before an hour of measuring: the files can be written where they are asked for. Throws
// UsageError.
void RequireWritable(const bench::PastOptions& options);
int ShowPast(const bench::PastOptions& options);
std::vector<bench::Row> RowsOf(const record::Store& store, const record::BenchRecord& record);
void WriteBenchFiles(const bench::Call& call, const std::string& device,
                     const bench::PastOptions& options);
std::string BenchJson(const record::BenchRecord& record, const std::vector<bench::Row>& rows);

}  // namespace xp::cli
