#include "exp/doctor/smoke.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "exp/base/error.h"
#include "exp/base/philox.h"
#include "exp/graph/graph.h"
#include "src/doctor/op_run.h"

namespace xp::doctor {
namespace {

using graph::Backend;
using graph::DType;
using graph::kNoTensor;
using graph::OpType;
using graph::TensorId;

struct Case {
  const char *id, *what;
  DType compute;
  double tolerance;  // of the largest magnitude; rounding alone gives a tenth of it or less
  void (*add)(OpRun&);
};

void AddConv(OpRun& run) {
  TensorId x = run.Noise("x", {4, 28, 28, 64}), w = run.Noise("w", {64, 3, 3, 64}, 0.05);
  TensorId y = run.Out("y", {4, 28, 28, 64}), dy = run.Noise("dy", {4, 28, 28, 64});
  graph::ConvAttrs attrs;
  attrs.pad = {1, 1};
  graph::Graph& g = run.graph();
  g.AddOp(OpType::kConv2d, {x, w, kNoTensor}, {y}, attrs, "conv");
  g.AddOp(OpType::kConv2dDgrad, {dy, w}, {run.Out("dx", {4, 28, 28, 64})}, attrs, "conv dx");
  g.AddOp(OpType::kConv2dWgrad, {x, dy}, {run.Out("dw", {64, 3, 3, 64})}, attrs, "conv dw");
}

void AddBatchNorm(OpRun& run) {
  constexpr int64_t kChannels = 128;
  std::vector<float> ones(kChannels, 1), zeros(kChannels, 0);
  TensorId x = run.Noise("x", {8, 14, 14, kChannels});
  TensorId scale = run.Floats("scale", {kChannels}, ones),
           bias = run.Floats("bias", {kChannels}, zeros);
  TensorId mean = run.Floats("mean", {kChannels}, zeros),
           var = run.Floats("var", {kChannels}, ones);
  TensorId y = run.Out("y", {8, 14, 14, kChannels});
  TensorId save_mean = run.Out("save_mean", {kChannels}, DType::kF32),
           save_invstd = run.Out("save_invstd", {kChannels}, DType::kF32);
  graph::Graph& g = run.graph();
  graph::NormAttrs attrs;
  g.AddOp(OpType::kBatchNorm, {x, scale, bias, mean, var, kNoTensor},
          {y, save_mean, save_invstd, kNoTensor, mean, var}, attrs, "bn");
  TensorId dy = run.Noise("dy", {8, 14, 14, kChannels});
  g.AddOp(OpType::kBatchNormGrad, {dy, x, scale, save_mean, save_invstd, kNoTensor},
          {run.Out("dx", {8, 14, 14, kChannels}), run.Out("dscale", {kChannels}, DType::kF32),
           run.Out("dbias", {kChannels}, DType::kF32), kNoTensor},
          attrs, "bn grad");
}

void AddProduct(OpRun& run) {
  TensorId x = run.Noise("x", {256, 512}), w = run.Noise("w", {384, 512});
  run.graph().AddOp(OpType::kLinear, {x, w, kNoTensor}, {run.Out("y", {256, 384})},
                    graph::ReluAttrs{}, "product");
}

void AddRoiAlign(OpRun& run) {
  constexpr int kImages = 2, kRois = 24;
  RandomStream random(2, RandomPurpose::kTest, 0, 0);
  std::vector<float> rois;
  for (int i = 0; i < kImages * kRois; ++i) {
    double x = random.Uniform(0, 90), y = random.Uniform(0, 90);
    for (double v : {x, y, x + random.Uniform(4, 38), y + random.Uniform(4, 38)}) {
      rois.push_back(static_cast<float>(v));
    }
  }
  TensorId feature = run.Noise("feature", {kImages, 32, 32, 64});
  TensorId boxes = run.Floats("rois", {kImages, kRois, 4}, rois);
  TensorId counts = run.Ints("counts", {kImages}, {kRois, kRois - 5});
  graph::RoiAlignAttrs attrs;
  attrs.scales = {0.25f};
  graph::Graph& g = run.graph();
  g.AddOp(OpType::kRoiAlign, {feature, boxes, counts}, {run.Out("y", {kImages * kRois, 7, 7, 64})},
          attrs, "roi");
  TensorId dy = run.Noise("dy", {kImages * kRois, 7, 7, 64});
  g.AddOp(OpType::kRoiAlignGrad, {dy, boxes, counts}, {run.Out("dfeature", {kImages, 32, 32, 64})},
          attrs, "roi grad");
}

// Proposals of one level: the best of 3072 anchors by score, then suppression at `iou`; with an
// overlap of 2, which no boxes have, only the choice of the best is left.
void AddProposals(OpRun& run, float iou) {
  graph::RpnProposalAttrs attrs;
  attrs.levels = {{32, 32, 4, 4, {-16, -16, 16, 16, -8, -16, 8, 16, -16, -8, 16, 8}}};
  attrs.pre_nms = 500;
  attrs.post_nms = 200;
  attrs.nms_iou = iou;
  TensorId cls = run.Noise("cls", {2, 32, 32, 3}, 3), box = run.Noise("box", {2, 32, 32, 12}, 0.3);
  TensorId sizes = run.Ints("sizes", {2, 2}, {128, 128, 120, 100});
  run.graph().AddOp(OpType::kRpnProposals, {cls, box, sizes},
                    {run.Out("proposals", {2, 200, 4}, DType::kF32),
                     run.Out("scores", {2, 200}, DType::kF32), run.Out("counts", {2}, DType::kI32)},
                    attrs, "proposals");
}

constexpr Case kCases[] = {
    {"smoke.conv", "convolution with both gradients, fp32", DType::kF32, 1e-4, AddConv},
    {"smoke.conv_bf16", "convolution with both gradients, bf16", DType::kBF16, 2e-2, AddConv},
    {"smoke.norm", "batch norm with its gradient", DType::kF32, 1e-4, AddBatchNorm},
    {"smoke.roi_align", "RoIAlign with its gradient", DType::kF32, 1e-4, AddRoiAlign},
    {"smoke.nms", "non-maximum suppression", DType::kF32, 1e-4,
     [](OpRun& run) { AddProposals(run, 0.7f); }},
    {"smoke.topk", "choice of the best scores", DType::kF32, 1e-4,
     [](OpRun& run) { AddProposals(run, 2.0f); }},
    {"smoke.product", "matrix product, fp32", DType::kF32, 1e-4, AddProduct},
};

Finding RunCase(const Case& c, Backend& device, Backend& reference) {
  Finding f{.id = c.id, .group = "smoke"};
  f.needed = fmt::format("within {:.0e} of the CPU, the same bits twice", c.tolerance);
  auto start = std::chrono::steady_clock::now();
  OpRun run(c.compute);
  c.add(run);
  std::vector<OpRun::Output> want = run.Run(reference), got = run.Run(device),
                             again = run.Run(device);
  double worst = 0;
  bool repeats = true;
  std::string where;
  for (size_t i = 0; i < want.size(); ++i) {
    double difference = Difference(want[i], got[i]);
    if (difference > worst || (difference != 0 && where.empty())) where = want[i].name;
    worst = std::max(worst, difference);
    repeats = repeats && got[i].bytes == again[i].bytes;
  }
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  f.found = fmt::format("{}: {:.1e} from {}, {}", c.what, worst, reference.description(),
                        repeats ? "the same bits twice" : "OTHER BITS the second time");
  f.numbers = {{"difference", std::isfinite(worst) ? worst : -1}, {"seconds", took.count()}};
  if (worst <= c.tolerance && repeats) return f;
  f.level = Level::kError;
  if (worst > c.tolerance) f.found += " (in " + where + ")";
  f.why =
      "what this device computes is wrong or doesn't repeat, so nothing trained on it can be "
      "trusted";
  f.fix =
      "run `exp doctor` again: if it differs, suspect the card (memory, heat); else the "
      "driver, cuDNN or CUDA: install another version";
  return f;
}

Finding TrainingCase(Backend& device, Backend& reference) {
  constexpr int kSteps = 3;
  constexpr double kTolerance = 1e-3;
  Finding f{.id = "smoke.train", .group = "smoke"};
  SmallTraining want = TrainSmall(reference, kSteps), got = TrainSmall(device, kSteps),
                again = TrainSmall(device, kSteps);
  double worst = 0;
  for (size_t i = 0; i < want.losses.size(); ++i) {
    double difference = std::abs(got.losses[i] - want.losses[i]) / std::abs(want.losses[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : 1e30;
  }
  bool repeats = got.hash == again.hash;
  f.found = fmt::format("three training steps of a small network: losses {:.1e} from {}, {}", worst,
                        reference.description(),
                        repeats ? "the same weights twice" : "OTHER WEIGHTS the second time");
  f.needed = fmt::format("losses within {:.0e} of the CPU, the same weights twice", kTolerance);
  f.numbers = {{"difference", worst}};
  if (repeats && worst <= kTolerance) return f;
  f.level = Level::kError;
  f.why = repeats ? "training on this device gives wrong losses"
                  : "training on this device doesn't repeat";
  f.fix = "look at the rows above: an operation that differs is the cause; else suspect the card";
  return f;
}

Finding Failed(const char* id, const std::string& what, const std::string& why) {
  return {.id = id,
          .group = "smoke",
          .level = Level::kError,
          .found = what + ": " + why,
          .needed = "it runs",
          .why = "a training will fail in the same way",
          .fix = "look at the rows about versions"};
}

}  // namespace

Findings SmokeTests(Backend& device, Backend& reference,
                    const std::function<void(const Finding&)>& on_finding) {
  Findings out;
  auto add = [&](const char* id, const char* what, const auto& body) {
    Finding f;
    try {
      f = body();
    } catch (const Error& e) {
      f = Failed(id, what, e.text().what);
    } catch (const std::exception& e) {
      f = Failed(id, what, e.what());
    }
    out.push_back(f);
    if (on_finding) on_finding(out.back());
  };
  for (const Case& c : kCases) {
    add(c.id, c.what, [&] { return RunCase(c, device, reference); });
  }
  add("smoke.train", "a whole training step", [&] { return TrainingCase(device, reference); });
  return out;
}

Finding DoesNotOpen(const Error& error) {
  return {.id = "smoke.device",
          .group = "smoke",
          .level = Level::kError,
          .found = error.text().what,
          .needed = "a device that opens",
          .why = "nothing can be trained on it",
          .fix = error.text().next.empty() ? "look at the rows about versions" : error.text().next};
}

Finding Tf32Error(const std::function<std::unique_ptr<Backend>(bool tf32)>& make) {
  Finding f{.id = "smoke.tf32", .group = "smoke"};
  try {
    double errors[2];
    OpRun run(DType::kF32);
    AddProduct(run);
    std::unique_ptr<Backend> cpu = graph::CreateCpuBackend(1);
    OpRun::Output want = run.Run(*cpu).front();
    for (int tf32 = 0; tf32 < 2; ++tf32) {
      std::unique_ptr<Backend> gpu = make(tf32 == 1);
      errors[tf32] = Difference(want, run.Run(*gpu).front());
    }
    f.found = fmt::format("a product of 512 terms is {:.1e} off in fp32, {:.1e} in tf32", errors[0],
                          errors[1]);
    f.needed = "fp32 below 1e-5; tf32 keeps 10 bits, about 1e-3";
    f.numbers = {{"fp32", errors[0]}, {"tf32", errors[1]}};
    if (errors[0] > 1e-5) {
      f.level = Level::kError;
      f.why = "what should be fp32 isn't";
      f.fix = "NVIDIA_TF32_OVERRIDE forces TF32 on or off for everybody: unset it";
    } else if (errors[1] > 1e-2) {
      f.level = Level::kError;
      f.why = "tf32 products are wrong";
      f.fix = "train in fp32 or bf16, and try another cuDNN";
    }
  } catch (const Error& e) {
    f = Failed("smoke.tf32", "tf32", e.text().what);
  }
  return f;
}

}  // namespace xp::doctor
