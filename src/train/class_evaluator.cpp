#include "src/train/class_evaluator.h"

#include <cmath>
#include <limits>
#include <utility>

namespace xp::train {

ClassCounts::ClassCounts(std::vector<std::string> names)
    : classes(std::move(names)), confusion(classes.size() * classes.size()) {}

void ClassCounts::Add(const float* logits, int32_t label) {
  auto value = [&](size_t k) {
    return std::isnan(logits[k]) ? -std::numeric_limits<float>::infinity() : logits[k];
  };
  size_t truth = static_cast<size_t>(label), best = 0, above = 0;
  bool valid = !std::isnan(logits[truth]);  // a broken network is right about nothing
  for (size_t k = 0; k < classes.size(); ++k) {
    if (value(k) > value(best)) best = k;
    if (value(k) > value(truth) || (value(k) == value(truth) && k < truth)) ++above;
  }
  ++images;
  ++confusion[truth * classes.size() + best];
  if (valid && above < 1) ++top1;
  if (valid && above < 5) ++top5;
}

NamedValues ClassCounts::Metrics() const {
  double n = static_cast<double>(images);
  NamedValues metrics{{"top1", static_cast<double>(top1) / n}};
  if (classes.size() > 5) metrics.emplace_back("top5", static_cast<double>(top5) / n);
  for (size_t c = 0; c < classes.size() && classes.size() <= 100; ++c) {
    int64_t all = 0;
    for (size_t k = 0; k < classes.size(); ++k) all += confusion[c * classes.size() + k];
    double right = static_cast<double>(confusion[c * classes.size() + c]);
    metrics.emplace_back("accuracy/" + classes[c],
                         all > 0 ? right / static_cast<double>(all) : -1.0);
  }
  return metrics;
}

ClassEvaluator::ClassEvaluator(const EvaluationContext& context, BatchSource& source)
    : source_(source), programs_(context, source.Shapes()) {}

void ClassEvaluator::Prefetch() {
  source_.StartEpoch(0, 0);
  prefetched_ = true;
}

void ClassEvaluator::EachImage(const EvaluationWatch& watch,
                               const std::function<void(int64_t, int32_t, const float*)>& take) {
  if (!std::exchange(prefetched_, false)) source_.StartEpoch(0, 0);
  programs_.EachBatch(
      [&](data::Batch* batch) { return source_.Next(batch); }, {"logits"}, watch,
      [&](const graph::Graph& g, const data::Batch& batch, const std::vector<const void*>& values) {
        auto classes =
            static_cast<size_t>(g.tensor(g.Find("logits", graph::Storage::kOutput)).shape[1]);
        const auto* logits = static_cast<const float*>(values[0]);
        for (size_t i = 0; i < static_cast<size_t>(batch.n); ++i) {
          if (batch.left_out[i] == 0)
            take(batch.image_ids[i], batch.labels[i], logits + i * classes);
        }
      });
}

ClassCounts ClassEvaluator::Count(const EvaluationWatch& watch) {
  ClassCounts counts(source_.classes());
  EachImage(watch, [&](int64_t, int32_t label, const float* logits) { counts.Add(logits, label); });
  return counts;
}

NamedValues ClassEvaluator::Run(const EvaluationWatch& watch) {
  ClassCounts counts = Count(watch);
  return Stopped(watch.stop) || counts.images == 0 ? NamedValues{} : counts.Metrics();
}

}  // namespace xp::train
