#include "exp/config/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/lr_check.h"
#include "exp/config/schema.h"

namespace xp::config {
namespace {

namespace fs = std::filesystem;

int64_t IntAt(const Node& root, const char* path, int64_t fallback) {
  const Node* node = root.At(path);
  return node != nullptr && node->IsInt() ? node->AsInt() : fallback;
}

class Checker {
 public:
  Checker(const Resolved& resolved, const std::string& path, const CheckOptions& options)
      : resolved_(resolved), root_(resolved.root), path_(path), options_(options) {
    ours_ = fs::path(path).extension() != ".py" && !root_.Has("train_dataloader") &&
            !root_.Has("default_scope");
  }

  std::vector<Finding> Run() {
    Loading();
    if (ours_) Schema();
    NameBatch();
    LrBatch();
    LrOrigin();
    AbsoluteLr();
    Steps();
    Warmup();
    Metric();
    if (ours_) Paths();
    if (ours_) Classes();
    if (options_.more) options_.more(resolved_, findings_);
    Silence();
    return std::move(findings_);
  }

 private:
  void Add(const char* rule, Level level, const std::string& path, const std::string& message,
           const std::string& next = {}) {
    const Node* node = path.empty() ? nullptr : root_.At(path);
    findings_.push_back({rule, level, path, node == nullptr ? "" : Place(*node), message, next});
  }

  // Where the present value was set.
  static std::string Place(const Node& node) {
    return node.history() != nullptr ? node.history()->at.Text() : node.Where();
  }

  // What reading the files already said, under the same names.
  void Loading() {
    for (const Notice& notice : resolved_.warnings) {
      findings_.push_back({notice.code, Level::kWarning, "", notice.where, notice.message, ""});
    }
    for (const Dropped& dropped : resolved_.dropped) {
      if (!dropped.value.IsNull() || dropped.by.line == 0) continue;
      findings_.push_back(
          {"leftover-delete", Level::kWarning, dropped.path, dropped.by.Text(),
           fmt::format("`_delete_` in `{}` deletes nothing: the bases have no such key",
                       dropped.path),
           "remove it; mmengine would pass it on as an argument"});
    }
  }

  void Schema() {
    for (const Problem& problem : Validate(root_)) {
      std::string message = problem.what;
      if (!problem.expected.empty()) message += "; expected " + problem.expected;
      findings_.push_back(
          {"schema", Level::kError, problem.path, problem.where, message, problem.next});
    }
  }

  // faster-rcnn_8xb2: 8 devices with 2 images each.
  bool Named(int64_t* devices, int64_t* samples) const {
    static const std::regex kPattern("(?:^|[_-])(\\d{1,4})xb(\\d{1,5})(?:[_-]|$)");
    std::smatch match;
    std::string stem = fs::path(path_).stem().string();
    if (!std::regex_search(stem, match, kPattern)) return false;
    *devices = std::stoll(match[1]);
    *samples = std::stoll(match[2]);
    return true;
  }

  const char* SamplesPath() const {
    return ours_ ? "data.samples_per_gpu" : "train_dataloader.batch_size";
  }
  std::string LrPath() const {
    for (const char* path : {"optimizer.lr", "optim_wrapper.optimizer.lr"}) {
      if (root_.At(path) != nullptr) return path;
    }
    return "";
  }

  void NameBatch() {
    int64_t devices = 0;
    int64_t samples = 0;
    if (!Named(&devices, &samples)) return;
    const char* base_path = "auto_scale_lr.base_batch_size";
    int64_t base = IntAt(root_, base_path, 0);
    if (base > 0 && base != devices * samples) {
      std::string lr = LrPath();
      std::string message =
          fmt::format("the file's name says {}x{} = {} images a step, but base_batch_size is {}",
                      devices, samples, devices * samples, base);
      if (!lr.empty()) {
        message += fmt::format(
            "; lr {} was last set at {}, and scaling on {} devices would multiply it by {:g}",
            Brief(*root_.At(lr)), Place(*root_.At(lr)), devices,
            static_cast<double>(devices * samples) / static_cast<double>(base));
      }
      Add("name-batch", Level::kWarning, base_path, message,
          fmt::format("set auto_scale_lr.base_batch_size to {}, or rename the file",
                      devices * samples));
    }
    int64_t actual = IntAt(root_, SamplesPath(), 0);
    if (actual > 0 && actual != samples) {
      Add("name-samples", Level::kInfo, SamplesPath(),
          fmt::format("the file's name says {} images a device, but `{}` is {}", samples,
                      SamplesPath(), actual));
    }
  }

  void LrBatch() {
    LrCheck check;
    int64_t devices = options_.devices;
    int64_t named = 0;
    int64_t samples = 0;
    if (!options_.devices_given && Named(&named, &samples)) devices = named;
    try {
      if (ours_) {
        if (root_.At("optimizer.lr") == nullptr) return;
        check = CheckLr(root_, devices);
      } else {
        if (!options_.devices_given && named == 0) return;  // nobody says how many devices
        check = CheckLr(Translated(), devices);
      }
    } catch (const Error& error) {
      Add("lr-batch", Level::kError, LrPath(), error.text().what, error.text().next);
      return;
    }
    if (check.policy == LrPolicy::kOff || check.base_batch == 0 || check.fits) return;
    Level level = check.policy == LrPolicy::kError   ? Level::kError
                  : check.policy == LrPolicy::kScale ? Level::kInfo
                                                     : Level::kWarning;
    Add("lr-batch", level, LrPath(), check.message,
        check.policy == LrPolicy::kScale
            ? "auto_scale_lr scales it"
            : fmt::format("set lr to {:g}, or auto_scale_lr.policy to scale", check.lr_scaled));
  }

  // mmengine's keys under exp's names.
  Node Translated() const {
    Node root = Node::Dict();
    auto copy = [&](const char* from, const char* group, const char* key) {
      const Node* value = root_.At(from);
      if (value == nullptr || value->IsNull()) return;
      if (!root.Has(group)) root.Set(group, Node::Dict());
      root.FindMutable(group)->Set(key, *value);
    };
    copy("optim_wrapper.optimizer.lr", "optimizer", "lr");
    copy("optimizer.lr", "optimizer", "lr");
    copy("train_dataloader.batch_size", "data", "samples_per_gpu");
    copy("data.samples_per_gpu", "data", "samples_per_gpu");
    copy("optim_wrapper.accumulative_counts", "optimizer_config", "cumulative_iters");
    copy("auto_scale_lr.base_batch_size", "auto_scale_lr", "base_batch_size");
    copy("auto_scale_lr.enable", "auto_scale_lr", "enable");
    if (!root.Has("optimizer")) copy("auto_scale_lr.base_batch_size", "optimizer", "none");
    return root;
  }

  // The layer in which the LR was last set says which batch it was tuned for.
  void LrOrigin() {
    std::string path = LrPath();
    const Node* base = root_.At("auto_scale_lr.base_batch_size");
    if (path.empty() || base == nullptr) return;
    const Node& lr = *root_.At(path);
    auto source = [](const Node& node) {
      return node.history() != nullptr ? node.history()->at.source : node.origin().source;
    };
    if (source(lr) == source(*base) || source(lr) == nullptr || source(*base) == nullptr ||
        lr.history() == nullptr)
      return;
    // Set again in a later file while the batch that it is for stayed the base's.
    if (source(lr) == InternName(path_) || source(lr)->rfind("--set", 0) == 0) {
      Add("lr-origin", Level::kInfo, path,
          fmt::format("lr is set here, but the batch that it is for ({}) comes from {}",
                      Brief(*base), Place(*base)),
          "set auto_scale_lr.base_batch_size beside it");
    }
  }

  void AbsoluteLr() {
    const Node* enable = root_.At("auto_scale_lr.enable");
    const Node* policy = root_.At("auto_scale_lr.policy");
    bool scales = (enable != nullptr && enable->IsBool() && enable->AsBool()) ||
                  (policy != nullptr && policy->IsString() && policy->AsString() == "scale");
    if (!scales) return;
    auto absolute = [&](const std::string& path) {
      const Node* node = root_.At(path);
      if (node == nullptr || !node->IsNumber() || node->AsDouble() <= 0) return;
      Add("absolute-lr", Level::kWarning, path,
          fmt::format("`{}` is an absolute learning rate, which auto_scale_lr doesn't scale", path),
          "write it as a share of lr (min_lr_ratio, start_factor)");
    };
    absolute("lr_config.min_lr");
    Schedulers([&](const std::string& at, const Node&) { absolute(at + ".eta_min"); });
  }

  template <typename Visit>
  void Schedulers(Visit visit) {
    const Node* list = root_.Find("param_scheduler");
    if (list == nullptr) return;
    if (list->IsDict()) visit("param_scheduler", *list);
    for (size_t i = 0; list->IsList() && i < list->size(); ++i)
      visit(fmt::format("param_scheduler.{}", i), (*list)[i]);
  }

  int64_t MaxEpochs() const {
    for (const char* path : {"runner.max_epochs", "train_cfg.max_epochs", "total_epochs"}) {
      int64_t epochs = IntAt(root_, path, 0);
      if (epochs > 0) return epochs;
    }
    return 0;
  }

  void Steps() {
    int64_t last = MaxEpochs();
    if (last == 0) return;
    auto look = [&](const std::string& path) {
      const Node* node = root_.At(path);
      if (node == nullptr) return;
      std::vector<Node> steps = node->IsList() ? node->items() : std::vector<Node>{*node};
      for (const Node& step : steps) {
        if (!step.IsInt() || step.AsInt() < last) continue;
        Add("step-past-end", Level::kWarning, path,
            fmt::format("the LR step at epoch {} never happens: training ends after {}",
                        step.AsInt(), last));
      }
    };
    look("lr_config.step");
    Schedulers([&](const std::string& at, const Node& scheduler) {
      const Node* by_epoch = scheduler.Find("by_epoch");
      if (by_epoch == nullptr || !by_epoch->IsBool() || by_epoch->AsBool())
        look(at + ".milestones");
    });
  }

  const DataFacts* TrainFacts() {
    if (looked_) return facts_ ? &*facts_ : nullptr;
    looked_ = true;
    const Node* file = root_.At("data.train.ann_file");
    if (!options_.facts || file == nullptr || !file->IsString()) return nullptr;
    facts_ = options_.facts(file->AsString(), {});
    return facts_ ? &*facts_ : nullptr;
  }

  void Warmup() {
    int64_t warmup = IntAt(root_, "lr_config.warmup_iters", 0);
    int64_t epochs = MaxEpochs();
    const DataFacts* facts = ours_ ? TrainFacts() : nullptr;
    if (warmup <= 0 || epochs <= 0 || facts == nullptr) return;
    int64_t batch =
        std::max<int64_t>(1, IntAt(root_, "data.samples_per_gpu", 1) * options_.devices *
                                 IntAt(root_, "optimizer_config.cumulative_iters", 1));
    int64_t steps = epochs * std::max<int64_t>(1, facts->images / batch);
    if (warmup >= steps) {
      Add("warmup-too-long", Level::kWarning, "lr_config.warmup_iters",
          fmt::format("warm-up takes {} steps, but {} images in batches of {} over {} epochs are "
                      "only {} steps",
                      warmup, facts->images, batch, epochs, steps));
    }
  }

  // mmdetection#5650: found after the first epoch otherwise.
  void Metric() {
    const Node* model = root_.Find("model");
    if (model == nullptr) return;
    bool masks = model->At("roi_head.mask_head") != nullptr || model->Has("mask_head") ||
                 model->Has("panoptic_head") || model->Has("segm_head") ||
                 model->Has("decode_head");
    const Node* type = model->Find("type");
    bool boxes_only =
        type != nullptr && type->IsString() &&
        (type->AsString() == "FasterRCNN" || type->AsString() == "SSD" ||
         type->AsString() == "SingleStageDetector" || type->AsString() == "RetinaNet");
    if (masks || !boxes_only) return;
    for (const char* path : {"evaluation.metric", "val_evaluator.metric"}) {
      const Node* metric = root_.At(path);
      if (metric == nullptr) continue;
      std::vector<Node> names = metric->IsList() ? metric->items() : std::vector<Node>{*metric};
      for (const Node& name : names) {
        if (!name.IsString() || name.AsString() != "segm") continue;
        Add("metric-model", Level::kError, path,
            fmt::format("the metric segm needs masks, and {} gives none", type->AsString()),
            "use bbox");
      }
    }
  }

  void Paths() {
    for (const char* path :
         {"data.train.ann_file", "data.train.img_prefix", "data.val.ann_file",
          "data.val.img_prefix", "data.test.ann_file", "data.test.img_prefix", "load_from",
          "model.init_cfg.checkpoint", "model.backbone.init_cfg.checkpoint"}) {
      const Node* node = root_.At(path);
      std::error_code error;
      if (node == nullptr || !node->IsString() || fs::exists(node->AsString(), error)) continue;
      Add("missing-path", Level::kWarning, path,
          fmt::format("`{}`: {} doesn't exist", path, node->AsString()),
          "paths are relative to the folder in which exp runs");
    }
  }

  void Classes() {
    const DataFacts* facts = TrainFacts();
    const char* head = "model.roi_head.bbox_head.num_classes";
    if (root_.At(head) == nullptr) head = "model.bbox_head.num_classes";
    int64_t expected = IntAt(root_, head, 0);
    if (facts == nullptr || expected == 0) return;
    std::vector<std::string> names = facts->classes;
    const Node* classes = root_.At("data.train.classes");
    if (classes != nullptr && classes->IsList()) {
      names.clear();
      for (const Node& name : classes->items()) {
        if (!name.IsString()) return;
        names.push_back(name.AsString());
        if (std::find(facts->classes.begin(), facts->classes.end(), name.AsString()) ==
            facts->classes.end()) {
          Add("classes", Level::kError, "data.train.classes",
              fmt::format("the class `{}` isn't in the annotation file, which has: {}",
                          name.AsString(), fmt::join(facts->classes, ", ")));
        }
      }
    }
    if (static_cast<int64_t>(names.size()) == expected) return;
    Add("classes", Level::kError, head,
        fmt::format("num_classes is {}, but the data has {}: {}", expected, names.size(),
                    fmt::join(names, ", ")),
        fmt::format("set {} to {}", head, names.size()));
  }

  // "# exp: ignore[rule]" on the line, "# exp: ignore-file[rule]" in the file; several rules are
  // separated by commas.
  void Silence() {
    auto names_rule = [](std::string_view text, std::string_view word, const std::string& rule) {
      size_t at = text.find(word);
      if (at == std::string_view::npos) return false;
      std::string list(text.substr(at + word.size(), text.find(']', at) - at - word.size()));
      list = "," + std::regex_replace(list, std::regex(" "), "") + ",";
      return list.find("," + rule + ",") != std::string::npos;
    };
    auto silenced = [&](const Finding& finding) {
      if (!resolved_.sources.empty() &&
          names_rule(resolved_.sources.front().content, "exp: ignore-file[", finding.rule))
        return true;
      for (const SourceFile& source : resolved_.sources) {
        if (finding.where.rfind(source.path + ":", 0) != 0) continue;
        int line = std::atoi(finding.where.c_str() + source.path.size() + 1);
        size_t at = 0;
        for (int i = 1; i < line && at != std::string::npos; ++i)
          at = source.content.find('\n', at) == std::string::npos
                   ? std::string::npos
                   : source.content.find('\n', at) + 1;
        if (at == std::string::npos) return false;
        std::string_view text = std::string_view(source.content).substr(at);
        return names_rule(text.substr(0, text.find('\n')), "exp: ignore[", finding.rule);
      }
      return false;
    };
    findings_.erase(std::remove_if(findings_.begin(), findings_.end(), silenced), findings_.end());
  }

  const Resolved& resolved_;
  const Node& root_;
  const std::string& path_;
  const CheckOptions& options_;
  bool ours_ = true;
  bool looked_ = false;
  std::optional<DataFacts> facts_;
  std::vector<Finding> findings_;
};

}  // namespace

const char* LevelName(Level level) {
  return level == Level::kError ? "error" : level == Level::kWarning ? "warning" : "info";
}

std::vector<Finding> Check(const Resolved& resolved, const std::string& path,
                           const CheckOptions& options) {
  return Checker(resolved, path, options).Run();
}

}  // namespace xp::config
