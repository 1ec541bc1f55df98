// The two files that another program's run has in its work_dir: the config that it reads and the
// numbers that it writes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xp::cli {

struct WorkDirFiles {
  std::filesystem::path config, metrics;
  bool config_there = false;  // with the text that it shall have
};

// `config.yaml` and `metrics.jsonl`; what is there already with another content, a user's or an
// earlier run's, is left alone: then `config-RUN.yaml` and `metrics-RUN.jsonl`.
WorkDirFiles ChooseWorkDirFiles(const std::filesystem::path& work_dir, const std::string& run_id,
                                const std::string& config_text);

// Those of a folder that may be such files, by their names and, of configs, by their mode.
std::vector<std::filesystem::path> FindWorkDirFiles(const std::filesystem::path& folder);

}  // namespace xp::cli
