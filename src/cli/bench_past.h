// What `exp bench` shows of earlier calls, and the files that it writes.
#pragma once

#include <string>
#include <vector>

#include "exp/bench/report.h"
#include "exp/record/bench_store.h"

namespace xp::bench {

struct PastOptions {
  std::string store, show, markdown, csv, html;
  std::vector<std::string> compare, models;
  bool history = false, json = false;
  bool Asked() const { return history || !show.empty() || !compare.empty(); }
};

}  // namespace xp::bench

namespace xp::cli {

int ShowPast(const bench::PastOptions& options);
void WriteBenchFiles(const record::BenchRecord& record, const std::vector<bench::Row>& rows,
                     const bench::PastOptions& options);
std::string BenchJson(const record::BenchRecord& record, const std::vector<bench::Row>& rows);

}  // namespace xp::cli
