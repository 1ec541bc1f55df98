// The rules of `exp check`, each with a config that it must find and one that it must not.
#include "exp/config/check.h"

#include <algorithm>
#include <ctime>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/load.h"
#include "tests/config/folder.h"

using namespace xp::config;
using xp::config::test::Folder;

namespace {

std::vector<Finding> All(const Resolved& resolved, const std::string& path,
                         const CheckOptions& options = {}) {
  return Check(resolved, path, options);
}

const Finding* Find(const std::vector<Finding>& findings, const std::string& rule) {
  auto it = std::find_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.rule == rule; });
  return it == findings.end() ? nullptr : &*it;
}

bool Finds(const Resolved& resolved, const std::string& path, const std::string& rule,
           const CheckOptions& options = {}) {
  std::vector<Finding> findings = Check(resolved, path, options);
  return Find(findings, rule) != nullptr;
}

}  // namespace

TEST_CASE("the linter's other rules") {
  Folder folder;
  std::string path =
      folder.Write("a.yaml", "_base_: " EXP_SOURCE_DIR "/configs/faster_rcnn.yaml\n");
  auto with = [&](const std::vector<std::string>& set) { return Load(path, set); };
  CheckOptions eight;
  eight.devices = 8;
  CHECK_FALSE(Finds(with({}), path, "lr-batch", eight));
  CHECK(Finds(with({}), path, "lr-batch"));
  CHECK_FALSE(Finds(with({"auto_scale_lr.policy=off"}), path, "lr-batch"));
  CHECK(Finds(with({"lr_config.step=[16, 26]"}), path, "step-past-end"));
  CHECK_FALSE(Finds(with({}), path, "step-past-end"));
  CHECK(Finds(with({"evaluation.metric=segm"}), path, "metric-model"));
  CHECK(Finds(with({"+optimizer.lrr=1"}), path, "schema"));
  CHECK_FALSE(Finds(with({}), path, "schema"));
  CHECK(Finds(with({"lr_config.min_lr=0.001", "auto_scale_lr.policy=scale"}), path, "absolute-lr"));
  CHECK(Finds(with({}), path, "missing-path"));
  CheckOptions facts;
  facts.facts = [](const std::string&, const std::vector<std::string>&) {
    return DataFacts{{"a", "b", "c"}, 100};
  };
  CHECK(Finds(with({}), path, "classes", facts));
  CHECK_FALSE(Finds(with({"model.roi_head.bbox_head.num_classes=3"}), path, "classes", facts));
  CHECK(Finds(with({"lr_config.warmup_iters=5000"}), path, "warmup-too-long", facts));
  CHECK_FALSE(Finds(with({"lr_config.warmup_iters=10"}), path, "warmup-too-long", facts));
  // No product of what stands there overflows: this divided by zero.
  const std::string huge = "4611686018427387904";
  CHECK(Finds(with({"optimizer_config.cumulative_iters=" + huge}), path, "schema", facts));
  CHECK(Finds(with({"data.samples_per_gpu=" + huge, "runner.max_epochs=" + huge,
                    "lr_config.warmup_iters=9000000000000000000"}),
              path, "warmup-too-long", facts));
}

TEST_CASE("warm-up and steps of mmengine's schedulers") {
  Folder folder;
  auto check = [&](const std::string& text, const std::string& rule) {
    std::string path = folder.Write("s.py", text);
    return Finds(Load(path), path, rule);
  };
  const std::string epochs = "train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12)\n";
  CHECK(check(epochs + "param_scheduler = [dict(type='MultiStepLR', milestones=[8, 12])]\n",
              "step-past-end"));
  CHECK_FALSE(check(epochs + "param_scheduler = [dict(type='MultiStepLR', milestones=[8, 11])]\n",
                    "step-past-end"));
  CHECK(check(epochs + "param_scheduler = dict(type='MultiStepLR', begin=9000000000000000000, "
                       "milestones=[9000000000000000000])\n",
              "step-past-end"));
  // Counted from `begin`.
  CHECK(check(epochs + "param_scheduler = dict(type='MultiStepLR', begin=5, milestones=[7])\n",
              "step-past-end"));
  CHECK_FALSE(check(epochs + "param_scheduler = [dict(type='MultiStepLR', by_epoch=False, "
                             "milestones=[9000])]\n",
                    "step-past-end"));
  const std::string steps = "train_cfg = dict(type='IterBasedTrainLoop', max_iters=1000)\n";
  CHECK(check(steps + "param_scheduler = [dict(type='MultiStepLR', by_epoch=False, "
                      "milestones=[900, 1000])]\n",
              "step-past-end"));
  const std::string tail = ", dict(type='CosineAnnealingLR', begin=5, end=12)]\n";
  CHECK(check(epochs + "param_scheduler = [dict(type='LinearLR', begin=0, end=12)" + tail,
              "warmup-too-long"));
  CHECK_FALSE(check(epochs + "param_scheduler = [dict(type='LinearLR', begin=0, end=5)" + tail,
                    "warmup-too-long"));
}

TEST_CASE("absolute rates: scaled, and no less than lr") {
  Folder folder;
  auto level = [&](const std::string& text) -> std::string {
    std::string path = folder.Write("a_8xb2.py", text);
    std::vector<Finding> findings = All(Load(path), path);
    const Finding* finding = Find(findings, "absolute-lr");
    return finding == nullptr ? "" : LevelName(finding->level);
  };
  const std::string lr = "optim_wrapper = dict(optimizer=dict(lr=0.01))\n";
  const std::string cosine = "param_scheduler = [dict(type='CosineAnnealingLR', eta_min=";
  CHECK(level(lr + cosine + "1e-4)]\n").empty());
  CHECK(level(lr + cosine + "0.02)]\n") == "warning");
  CHECK(level(lr + cosine + "1e-4)]\nauto_scale_lr = dict(enable=True, base_batch_size=16)\n") ==
        "warning");
  // Not scaled, but the LR doesn't fit: said, not warned of.
  CHECK(level(lr + cosine +
              "1e-4)]\nauto_scale_lr = dict(base_batch_size=64)\n"
              "train_dataloader = dict(batch_size=2)\n") == "info");
  CHECK(level(lr + "param_scheduler = [dict(type='CosineAnnealingMomentum', eta_min=0.9)]\n")
            .empty());
}

TEST_CASE("the classes of another project's config against its heads") {
  Folder folder;
  auto check = [&](const std::string& text) {
    std::string path = folder.Write("c.py", text);
    return Finds(Load(path), path, "classes");
  };
  const std::string data =
      "train_dataloader = dict(dataset=dict(metainfo=dict(classes=('cat', 'dog'))))\n";
  CHECK(check(data + "model = dict(bbox_head=dict(num_classes=80))\n"));
  CHECK_FALSE(check(data + "model = dict(bbox_head=dict(num_classes=2))\n"));
  CHECK(check(data + "model = dict(roi_head=dict(bbox_head=[dict(num_classes=2), "
                     "dict(num_classes=3)]))\n"));
  CHECK_FALSE(
      check(data + "model = dict(language_model=dict(), bbox_head=dict(num_classes=256))\n"));
}

TEST_CASE("validation has the classes of training") {
  Folder folder;
  std::string path =
      folder.Write("a.yaml", "_base_: " EXP_SOURCE_DIR
                             "/configs/faster_rcnn.yaml\nmodel: {roi_head: {bbox_head: "
                             "{num_classes: 2}}}\n");
  std::vector<std::string> validation{"a", "b"};
  CheckOptions options;
  options.facts = [&](const std::string& file, const std::vector<std::string>&) {
    bool train = file.find("train") != std::string::npos;
    return DataFacts{train ? std::vector<std::string>{"a", "b"} : validation, 100};
  };
  CHECK_FALSE(Finds(Load(path), path, "classes", options));
  validation = {"a", "z"};
  CHECK(Finds(Load(path), path, "classes", options));
  options.facts = [](const std::string& file, const std::vector<std::string>&) -> DataFacts {
    throw xp::UsageError({.what = "broken", .where = file});
  };
  CHECK(Finds(Load(path), path, "classes", options));
  CHECK(Finds(Load(path), path, "missing-path", options));  // the rest is still said
}

TEST_CASE("the LR's message names every number and the layer that set it (mmdetection#11497)") {
  std::string path = std::string(EXP_SOURCE_DIR) + "/configs/faster_rcnn.yaml";
  std::vector<Finding> findings = All(Load(path, {"data.samples_per_gpu=4"}), path);
  const Finding* finding = Find(findings, "lr-batch");
  REQUIRE(finding != nullptr);
  for (const char* part : {"lr 0.02", "batch 16", "1 device x 4 samples_per_gpu x 1", "ratio 0.25",
                           "lr 0.005", "schedule_26e.yaml:4:7"})
    CHECK_THAT(finding->message, ContainsSubstring(part));
  CHECK_THAT(finding->next, ContainsSubstring("0.005"));
}

TEST_CASE("a finding is silenced on its line, or in the whole file") {
  Folder folder;
  auto silent = [&](const std::string& text) {
    std::string path = folder.Write("x_8xb2.yaml", text);
    return !Finds(Load(path), path, "name-batch");
  };
  CHECK_FALSE(silent("auto_scale_lr:\n  base_batch_size: 64\n"));
  CHECK(silent("auto_scale_lr:\n  base_batch_size: 64  # exp: ignore[name-batch]\n"));
  CHECK(silent("auto_scale_lr:\n  base_batch_size: 64  # exp: ignore[schema, name-batch]\n"));
  CHECK_FALSE(silent("auto_scale_lr:\n  base_batch_size: 64  # exp: ignore[name]\n"));
  CHECK_FALSE(silent("auto_scale_lr:  # exp: ignore[name-batch]\n  base_batch_size: 64\n"));
  CHECK(
      silent("# exp: ignore-file[schema]\n# exp: ignore-file[name-batch]\n"
             "auto_scale_lr:\n  base_batch_size: 64\n"));
}

TEST_CASE("tens of thousands of findings are told in seconds, and silenced where a line says so") {
  Folder folder;
  std::string text = "model: {type: FasterRCNN}\ndata: {train: {ann_file: x}}\n";
  for (int i = 0; i < 20000; ++i) {
    text += "key_" + std::to_string(i) + ":\n  a: 1\n  b: 2\n";
  }
  text += "last_key: 1  # exp: ignore[schema]\n";
  std::string path = folder.Write("many.yaml", text);
  const std::clock_t start = std::clock();  // of the processor: the machine may be busy
  std::vector<Finding> findings = All(Load(path), path);
  // Some seconds in a sanitized build; minutes when each finding looked through the file.
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 60);
  CHECK(Find(findings, "schema") != nullptr);
  auto names = [&](const std::string& key) {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
      return f.rule == "schema" && f.message.find(key) != std::string::npos;
    });
  };
  CHECK(names("key_19999"));
  CHECK_FALSE(names("last_key"));
}

TEST_CASE("whose config it is") {
  auto own = [](const std::string& text, const std::string& name) {
    return IsOwnConfig(LoadText(text, "t.yaml").root, name);
  };
  CHECK(own("model: {type: FasterRCNN}\ndata: {train: {ann_file: x}}\n", "a.yaml"));
  CHECK(own("model: {type: FasterRCNN}\ndata: {train: {ann_file: x}}\n", "a.py"));
  CHECK_FALSE(own("model: {type: FasterRCNN}\n", "a.py"));
  CHECK_FALSE(own("model: {}\ntrain_dataloader: {}\n", "a.yaml"));
  CHECK_FALSE(own("model: {}\ndata: {train: {type: CocoDataset, pipeline: []}}\n", "a.py"));
  CHECK(own("model: {}\ndata: {train: {type: ImageFolder}}\n", "a.yaml"));
  CHECK_FALSE(own("model: {}\ndata: {train: {type: RepeatDataset, dataset: {}}}\n", "a.py"));
  CHECK_FALSE(own("MODEL: {}\n", "a.yaml"));
  CHECK_FALSE(own("architecture: YOLOv3\n", "a.yml"));
  // A part that others inherit from says whose it is, too.
  CHECK_FALSE(own("epoch: 12\nLearningRate: {base_lr: 0.01}\n", "optimizer_1x.yml"));
  CHECK_FALSE(own("use_gpu: true\nlog_iter: 20\n", "runtime.yml"));
  CHECK_FALSE(own("INPUT: {FORMAT: BGR}\n", "Base.yaml"));
}
