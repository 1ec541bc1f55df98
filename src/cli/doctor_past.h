// `exp doctor --history`, `--show` and `--compare`: reports that were made before.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace xp::cli {

struct DoctorPast {
  std::string store;
  std::vector<std::string> compare;  // two: selectors of reports, or files of `exp doctor --json`
  std::optional<std::string> show;
  bool history = false, as_json = false, colour = false;
  int columns = 100;

  bool Asked() const { return history || show || !compare.empty(); }
};

// The exit code. Throws UsageError for a report that there isn't.
int ShowDoctorPast(const DoctorPast& options);

}  // namespace xp::cli
