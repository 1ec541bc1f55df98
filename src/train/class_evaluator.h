// Top-1 and top-5 accuracy of a classifier, and which classes it takes for which.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/train/evaluator.h"

namespace xp::train {

// Counts over a validation set.
struct ClassCounts {
  std::vector<std::string> classes;
  std::vector<int64_t> confusion;  // [true class, class with the highest logit]
  int64_t top1 = 0, top5 = 0, images = 0;

  explicit ClassCounts(std::vector<std::string> names);
  // Of equal logits the lower class comes first. NaN is below everything.
  void Add(const float* logits, int32_t label);
  NamedValues Metrics() const;
};

class ClassEvaluator : public Evaluator {
 public:
  ClassEvaluator(const EvaluationContext& context, BatchSource& source);
  void Prefetch() override;
  NamedValues Run(const EvaluationWatch& watch) override;
  ClassCounts Count(const EvaluationWatch& watch);
  // Calls `take` with each image's place in the list, its label and its logits, in order.
  void EachImage(const EvaluationWatch& watch,
                 const std::function<void(int64_t, int32_t, const float*)>& take);

 private:
  BatchSource& source_;
  bool prefetched_ = false;
  EvaluationPrograms programs_;
};

}  // namespace xp::train
