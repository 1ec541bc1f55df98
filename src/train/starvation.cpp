#include "src/train/starvation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xp::train {
namespace {

constexpr double kLeastShare = 0.1, kLeastSeconds = 1;
constexpr double kBusy = 0.7;  // of their time: threads that could hardly have done more

// Threads that would keep up, if each brings as much as one does now.
int EnoughWorkers(const FeedFigures& f) {
  double computing = std::max(f.train_seconds - f.wait_seconds, 0.05 * f.train_seconds);
  double wanted = std::ceil(f.workers * f.train_seconds / computing);
  return static_cast<int>(
      std::clamp(wanted, f.workers + 1.0, std::max(f.workers + 1.0, 1.0 * f.cores)));
}

std::string Advice(const std::string& bottleneck, const FeedFigures& f) {
  if (bottleneck == "disk")
    return fmt::format(
        "copy the images to a faster disk, or hide its latency with more threads "
        "(data.workers_per_gpu: {})",
        2 * f.workers);
  if (bottleneck == "workers")
    return fmt::format("set data.workers_per_gpu to {} of this machine's {} cores",
                       EnoughWorkers(f), f.cores);
  if (bottleneck == "decode")
    return "every core is busy: store smaller images, as baseline JPEGs, or use a machine with "
           "more cores";
  if (bottleneck == "resize")
    return "every core is busy: fewer augmentations, a smaller img_scale, images stored near the "
           "size they are trained at, or a machine with more cores";
  return "let the loader be further ahead: a larger data.prefetch";
}

}  // namespace

std::optional<Starvation> FindStarvation(const FeedFigures& f) {
  const double all = f.stages.all();
  if (f.wait_seconds < kLeastSeconds || f.wait_seconds < kLeastShare * f.train_seconds || all <= 0)
    return std::nullopt;
  const double busy = all / (f.workers * f.train_seconds);
  Starvation s;
  if (busy < kBusy) {
    s.bottleneck = "prefetch";
  } else if (f.stages.read > 0.5 * all) {
    s.bottleneck = "disk";
  } else if (f.workers < f.cores) {
    s.bottleneck = "workers";
  } else {
    s.bottleneck = f.stages.decode >= f.stages.transform ? "decode" : "resize";
  }
  auto share = [&](double part) { return std::lround(100 * part / all); };
  s.message = fmt::format(
      "the device waited {:.0f} % of the epoch for data; the bottleneck: {}. {} threads were busy "
      "{:.0f} % of the time: {} % reading files, {} % decoding, {} % resizing and augmenting "
      "({:.1f} ms an image and thread). {}",
      100 * f.wait_seconds / f.train_seconds, s.bottleneck, f.workers, 100 * std::min(busy, 1.0),
      share(f.stages.read), share(f.stages.decode), share(f.stages.transform),
      1e3 * all / static_cast<double>(std::max<int64_t>(f.stages.images, 1)),
      Advice(s.bottleneck, f));
  return s;
}

}  // namespace xp::train
