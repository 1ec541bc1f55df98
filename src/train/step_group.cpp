#include "src/train/step_group.h"

#include <algorithm>
#include <chrono>

namespace xp::train {
namespace {

using Clock = std::chrono::steady_clock;

// The batches of the step that begins at `first`: their number, and their images.
std::pair<int, int> Extent(const Setup& setup, int64_t first) {
  int64_t end =
      std::min(first + setup.optimizer.cumulative_iters, setup.train->batches_per_epoch());
  int images = 0;
  for (int64_t b = first; b < end; ++b) images += setup.train->ImagesIn(b);
  return {static_cast<int>(end - first), images};
}

// Each image counts the same whatever batch it came in, so the sum of the gradients is the large
// batch's; the update divides by cumulative_iters. A full group of equal batches has weights of 1.
void Enqueue(Setup& setup, uint64_t seed, const data::Batch& batch, int images, bool last,
             bool update, StepGroup* group) {
  MicroStep micro;
  micro.lr = group->lr;
  micro.seed = seed;
  micro.step = group->step;
  micro.first = group->parts.empty();
  micro.update = last && update;
  micro.first_image = group->images;
  micro.weight = static_cast<double>(setup.optimizer.cumulative_iters) *
                 static_cast<double>(batch.n) / static_cast<double>(images);
  group->parts.push_back(setup.steps->Run(batch, micro));
  group->part_images.push_back(batch.n);
  group->images += batch.n;
  group->image_ids.insert(group->image_ids.end(), batch.image_ids.begin(), batch.image_ids.end());
}

}  // namespace

bool RunGroup(Setup& setup, uint64_t seed, int64_t* batch, data::Batch* scratch, StepGroup* group,
              const std::function<void(const data::Batch&)>& on_batch) {
  group->first_batch = *batch;
  auto [count, images] = Extent(setup, *batch);
  for (int i = 0; i < count; ++i) {
    Clock::time_point waiting = Clock::now();
    if (!setup.train->Next(scratch)) return false;
    group->data_seconds += std::chrono::duration<double>(Clock::now() - waiting).count();
    ++*batch;
    if (on_batch) on_batch(*scratch);
    Enqueue(setup, seed, *scratch, images, i + 1 == count, true, group);
  }
  return count > 0;
}

void RunBatches(Setup& setup, uint64_t seed, std::span<const data::Batch> batches, bool update,
                StepGroup* group) {
  int images = 0;
  for (const data::Batch& b : batches) images += b.n;
  for (size_t i = 0; i < batches.size(); ++i)
    Enqueue(setup, seed, batches[i], images, i + 1 == batches.size(), update, group);
}

StepLosses WaitForLosses(Setup& setup, StepGroup& group) {
  StepLosses out;
  bool equal = std::all_of(group.part_images.begin(), group.part_images.end(),
                           [&](int n) { return n == group.part_images[0]; });
  for (size_t p = 0; p < group.parts.size(); ++p) {
    NamedValues losses = setup.steps->Losses(group.parts[p]);
    out.grad_norm = group.parts[p].grad_norm;  // the last one's is the step's
    double share = equal ? 1.0 : group.part_images[p];
    if (out.mean.empty()) {
      for (const auto& [name, value] : losses) out.mean.emplace_back(name, 0.0);
    }
    for (size_t i = 0; i < losses.size(); ++i) out.mean[i].second += share * losses[i].second;
    out.parts.push_back(std::move(losses));
  }
  double all = equal ? static_cast<double>(group.parts.size()) : static_cast<double>(group.images);
  for (auto& [name, value] : out.mean) {
    value /= all;
    out.total += value;
  }
  return out;
}

}  // namespace xp::train
