#include "exp/config/lr_check.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "exp/base/error.h"
#include "exp/config/reader.h"

namespace xp::config {
namespace {

LrPolicy PolicyOf(const Reader& config) {
  // auto_scale_lr may be absent; then there is no base to compare with unless the policy says so.
  std::string name = "";
  if (config.Has("auto_scale_lr.policy")) {
    name = config.Choice("auto_scale_lr.policy", {"warn", "error", "scale", "off"});
  }
  if (name == "error") return LrPolicy::kError;
  if (name == "scale") return LrPolicy::kScale;
  if (name == "off") return LrPolicy::kOff;
  if (name == "warn") return LrPolicy::kWarn;
  return config.Bool("auto_scale_lr.enable", false) ? LrPolicy::kScale : LrPolicy::kWarn;
}

constexpr int kMost = 1 << 20;  // keeps the product of three far from overflow

std::string Describe(const LrCheck& check, bool sqrt_rule) {
  std::string batch =
      fmt::format("effective batch {} = {} device{} x {} samples_per_gpu x {} cumulative_iters",
                  check.effective_batch, check.devices, check.devices == 1 ? "" : "s",
                  check.samples_per_gpu, check.cumulative_iters);
  if (check.base_batch == 0) {
    return fmt::format("lr {:g}; {}; the config doesn't say which batch the LR was set for",
                       check.lr_before, batch);
  }
  if (check.fits) {
    return fmt::format("lr {:g} fits: {}, the batch that it was set for (base_batch_size {})",
                       check.lr_before, batch, check.base_batch);
  }
  return fmt::format(
      "lr {:g} was set for batch {} (base_batch_size), but {}: ratio {:g}, the {} rule gives lr "
      "{:g}",
      check.lr_before, check.base_batch, batch, check.ratio, sqrt_rule ? "square-root" : "linear",
      check.lr_scaled);
}

}  // namespace

LrCheck CheckLr(const Node& root, int64_t devices) {
  Reader config(root);
  LrCheck check;
  check.policy = PolicyOf(config);
  check.devices = devices;
  check.lr_before = config.Double("optimizer.lr");
  check.lr_scaled = check.lr_before;
  check.where = config.Where("optimizer.lr");
  check.samples_per_gpu = config.IntWithin("data.samples_per_gpu", 1, 1, kMost);
  check.cumulative_iters = config.IntWithin("optimizer_config.cumulative_iters", 1, 1, kMost);
  check.effective_batch = devices * check.samples_per_gpu * check.cumulative_iters;
  bool sqrt_rule = false;
  if (config.Has("auto_scale_lr.base_batch_size")) {
    check.base_batch = config.IntWithin("auto_scale_lr.base_batch_size", 1, 1, kMost);
    sqrt_rule = config.Choice("auto_scale_lr.rule", {"linear", "sqrt"}, "linear") == "sqrt";
    check.ratio =
        static_cast<double>(check.effective_batch) / static_cast<double>(check.base_batch);
    check.fits = check.effective_batch == check.base_batch;
    check.lr_scaled = check.lr_before * (sqrt_rule ? std::sqrt(check.ratio) : check.ratio);
  }
  check.message = Describe(check, sqrt_rule);
  return check;
}

LrCheck ApplyLrPolicy(Node& root, int64_t devices) {
  LrCheck check = CheckLr(root, devices);
  if (check.fits || check.policy == LrPolicy::kOff || check.policy == LrPolicy::kWarn) return check;
  if (check.policy == LrPolicy::kError) {
    throw UsageError(
        {.what = check.message,
         .where = check.where,
         .expected = fmt::format("lr {:g} (auto_scale_lr.policy is error)", check.lr_scaled),
         .next = fmt::format("--set optimizer.lr={:g}, or --set auto_scale_lr.policy=scale",
                             check.lr_scaled)});
  }
  Node* lr = root.FindMutable("optimizer")->FindMutable("lr");
  Node scaled(check.lr_scaled);
  scaled.set_origin({InternName("auto_scale_lr"), 0, 0});
  Supersede(*lr, Action::kComputed, scaled, check.message);
  *lr = std::move(scaled);
  return check;
}

}  // namespace xp::config
