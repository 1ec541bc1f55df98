// Puts what `exp eval` found beside the run that it belongs to, and shows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "exp/record/evaluation.h"
#include "src/cli/model_source.h"

namespace xp::cli {

struct EvaluationFacts {
  std::string device, part;
  std::vector<std::string> argv;
  std::string ann_file;  // or a classifier's folder
};

// Where the weights' run is in a store: adds a row to it and returns what to tell the user; empty
// where there is no such run. A store that can't be written is said, and no more.
std::string RecordEvaluation(const ModelSource& source, const EvaluationFacts& facts,
                             const nlohmann::json& report);

// "2026-12-01 13:05:32 on val, epoch_3.safetensors: bbox_mAP 0.4123, ..."
std::string EvaluationLine(const record::Evaluation& evaluation);
nlohmann::json EvaluationsJson(const std::vector<record::Evaluation>& evaluations);

}  // namespace xp::cli
