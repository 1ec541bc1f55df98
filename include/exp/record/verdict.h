// Is the second run the first one again, bit for bit? A pure function of two records.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exp/record/reader.h"

namespace xp::record {

enum class Sameness { kSame, kDiffers, kUnknown };

// One line of the table: config, code, environment, data; seeds that differ; the checkpoints of
// another program.
struct VerdictRow {
  std::string what;
  Sameness sameness = Sameness::kSame;
  std::string detail;  // "commit 1a2b3c -> 4d5e6f", "2 images changed: a.jpg, b.jpg"
};

struct EpochVerdict {
  int epoch = 0;
  bool same = false;
  std::string quantity;  // first that differs: "weights", "optimizer state", "loss loss_cls",
                         // "metric bbox_mAP", "steps done", "epoch" (only the second has it)
  std::string before, after;
  std::string compared;  // what was: "2 losses, 3 metrics, weights, optimizer state"
};

struct StepVerdict {
  int64_t step = 0;
  std::string name;           // of the curve
  std::string before, after;  // "absent": only the other run recorded it
};

struct Verdict {
  std::vector<VerdictRow> rows;
  std::vector<EpochVerdict> epochs;  // that both have, and what the second has too many
  std::optional<StepVerdict> step;   // first step whose recorded numbers differ
  int64_t steps_compared = 0;
  bool comparable = false;            // there was something to compare
  bool same = false;                  // all that was to be there is, and is the same
  std::vector<std::string> suspects;  // differences that may explain it, most telling first
  std::string summary;                // one sentence
};

using Curves = std::map<std::string, std::vector<CurvePoint>>;

// Compares what ran. Of a finished first run, all that it recorded must be there again and nothing
// else; of the first `max_epochs` (when >= 0), what they recorded; of a run that ended early, what
// it had recorded by then. Elapsed times are never compared.
Verdict CompareRuns(const Run& first, const Run& second, const Curves& first_curves,
                    const Curves& second_curves, int max_epochs = -1);

Curves LoadCurves(const Store& store, int64_t seq);
std::string ToJson(const Verdict& verdict);
// Kept with the second run.
void SaveVerdict(const Store& store, const std::string& run_id, const Verdict& verdict);

// How an environment difference at `path` can matter: 3 it can change bits, 2 it may, 1 it changes
// speed at most, 0 neither.
int EnvironmentWeight(const std::string& path);

struct EnvironmentDifference {
  std::string path, before, after;  // JSON texts; empty: absent
  int weight = 0;
};
// Heaviest first.
std::vector<EnvironmentDifference> CompareEnvironments(const std::string& before,
                                                       const std::string& after);

}  // namespace xp::record
