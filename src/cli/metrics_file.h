// Reads the JSON lines that another trainer appends, and puts them into the record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "exp/record/writer.h"

namespace xp::cli {

class MetricsFile {
 public:
  // Relative checkpoint paths are below `work_dir`.
  MetricsFile(std::filesystem::path file, std::filesystem::path work_dir, record::RunWriter& writer)
      : file_(std::move(file)), work_dir_(std::move(work_dir)), writer_(writer) {}

  // Adds to an epoch what the program doesn't know: the GPU's numbers.
  std::function<void(record::EpochRow&)> add_to_epoch;

  // Takes the whole lines that were added since the last call; with `last`, an unfinished one too.
  // A line that can't be used becomes a recorded warning. A file that was written anew is read from
  // its beginning; of its lines, those that were there before aren't taken twice.
  void Poll(bool last);
  // Whether this file was named by a line, so that it needn't be looked for.
  bool Recorded(const std::filesystem::path& checkpoint) const;
  // Hashes and records a checkpoint at the last epoch and step that were reported.
  void AddCheckpoint(const std::filesystem::path& path);

 private:
  bool StillHolds(std::ifstream& in) const;
  void BeginAgain();
  void Take(const std::string& line);
  void Line(const std::string& line);
  void Step(const nlohmann::json& object);
  void Epoch(const nlohmann::json& object);
  void Bad(const std::string& why, const char* code = "metrics.bad_line");

  std::filesystem::path file_, work_dir_;
  record::RunWriter& writer_;
  int64_t offset_ = 0, line_ = 0;
  std::string rest_;
  std::string tail_;             // what stood before `offset_`, at most kTail bytes
  std::vector<uint64_t> taken_;  // a hash of each line that was taken
  int epoch_ = 0, bad_lines_ = 0;
  int64_t step_ = 0, next_step_ = 0;
  std::map<std::string, bool> recorded_;
};

// JSON as programs write it: NaN and infinities outside of strings (also nan, inf, 1e999) become
// the texts that record::FromJson reads, half a surrogate pair becomes U+FFFD. Other text is left
// as it is.
std::string QuoteSpecialNumbers(const std::string& line);

}  // namespace xp::cli
