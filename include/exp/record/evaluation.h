// Evaluations of a run's weights, made after the training: rows beside the run, which stays as it
// ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exp/record/store.h"

namespace xp::record {

struct Evaluation {
  int64_t number = 0;  // 1, 2, ... of its run
  int64_t at_ns = 0;
  std::string host, device;
  std::string command_json;  // array of words, without secrets
  std::string weights, weights_hash;
  std::string part, ann_file, ann_hash;
  std::string report_json;  // an object with "metrics": {name: number}
};

// Adds one to run `seq`; number, time and host are filled in. Throws JobError where the store can't
// be written.
Evaluation AddEvaluation(const Store& store, int64_t seq, Evaluation evaluation);

// In the order in which they were made.
std::vector<Evaluation> ListEvaluations(const Store& store, int64_t seq);

}  // namespace xp::record
