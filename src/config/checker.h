// What the linter's parts share: the config being checked and what was found. One file a subject:
// check_lr.cpp, check_schedule.cpp, check_data.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exp/config/check.h"

namespace xp::config {

struct Checker {
  const Resolved& resolved;
  const Node& root;
  const std::string& path;  // of the file
  const CheckOptions& options;
  bool own = true;  // exp's own keys, not those of another project
  std::vector<Finding> findings;
  bool looked_for_facts = false;
  std::optional<DataFacts> train_facts;
  std::map<std::string, std::optional<DataFacts>> facts_of;  // files that were read

  void Add(const char* rule, Level level, const std::string& at, const std::string& message,
           const std::string& next = {});
  // The int at a dotted path, or `fallback`.
  int64_t Int(const char* at, int64_t fallback) const;
  bool Flag(const char* at) const;  // a true
  std::string Text(const char* at) const;
  // What the annotations of "data.train" say, or its folder of classes; a finding and nothing when
  // they can't be read.
  std::optional<DataFacts> Facts(const std::string& part);
  // The same of data.train, read once; nullptr when it isn't there.
  const DataFacts* TrainFacts();
  // mmengine's param_scheduler, one or a list, with their paths.
  std::vector<std::pair<std::string, const Node*>> Schedulers() const;
  // faster-rcnn_8xb2: 8 devices with 2 images each.
  bool Named(int64_t* devices, int64_t* samples) const;
  // "optimizer.lr", "optim_wrapper.optimizer.lr" or "".
  std::string LrPath() const;
  const char* SamplesPath() const {
    return own ? "data.samples_per_gpu" : "train_dataloader.batch_size";
  }
};

// Where the present value was set.
std::string SetAt(const Node& node);
// A list's elements, or the value itself.
std::vector<Node> Elements(const Node& node);

void CheckLearningRate(
    Checker& checker);                 // name-batch, name-samples, lr-batch, lr-origin, absolute-lr
void CheckSchedule(Checker& checker);  // step-past-end, warmup-too-long
void CheckData(Checker& checker);      // classes, metric-model, missing-path

}  // namespace xp::config
