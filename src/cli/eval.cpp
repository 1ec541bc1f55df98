// `exp eval`: scores a run's checkpoint, or any file of weights, on a part of the data.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "src/cli/command.h"
#include "src/cli/eval_report.h"
#include "src/cli/model_flags.h"
#include "src/cli/model_source.h"
#include "src/cli/tta_flags.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

struct Options {
  ModelRequest model;
  train::InferenceOptions inference;
  TtaFlags tta;
  std::string metric, out;
  double min_score = 0.3;
  bool json = false, last_weights = false;
};

// mmdetection#5650: refused before anything is computed.
void CheckMetric(const std::string& metric, models::Task task) {
  std::string gives = task == models::Task::kDetection ? "bbox" : "accuracy";
  if (metric.empty() || metric == gives) return;
  throw UsageError({.what = "this model gives no `" + metric + "`",
                    .where = "--metric",
                    .expected = gives,
                    .next = "leave --metric out"});
}

nlohmann::json Bbox(train::Inference& model, const Options& o, const fs::path& out) {
  std::string images;
  std::shared_ptr<const data::CocoDataset> dataset = model.OpenDetectionPart(&images);
  train::Detections found = model.Detect(dataset, images);
  train::CocoResult result = train::EvaluateBbox(*dataset, found);
  train::Confusion confusion = train::ConfusionOf(*dataset, found, o.min_score);
  if (!o.json) PrintBbox(result, confusion);
  if (!out.empty()) WriteBbox(out, result, confusion, found);
  return BboxJson(result, confusion);
}

nlohmann::json Accuracy(train::Inference& model, const Options& o, const fs::path& out) {
  std::shared_ptr<const data::ImageList> list = model.OpenClassPart();
  if (static_cast<int>(list->classes.size()) != model.num_classes()) {
    throw UsageError(
        {.what = fmt::format("the model has {} classes, {} has {}", model.num_classes(), list->path,
                             list->classes.size()),
         .next = "name the classes in order in data." + o.inference.part + ".classes"});
  }
  std::vector<train::ClassScores> scores = model.Classify(list);
  ClassReport report = ReportOf(scores, list->classes);
  if (!o.json) PrintClasses(report);
  if (!out.empty()) WriteClasses(out, report, scores);
  return ClassJson(report);
}

void Run(Options& o) {
  ModelSource source = FindModel(o.model);
  fs::path out = o.out.empty() ? fs::path() : fs::absolute(o.out);
  EnterFolder(source.folder);
  o.inference.weights = source.weights;
  o.inference.averages = !o.last_weights;
  o.inference.tta = ReadTta(o.tta);
  train::Inference model(source.config, o.inference);
  CheckMetric(o.metric, model.task());
  if (!out.empty()) fs::create_directories(out);
  if (!o.json) {
    fmt::print("{}{} on data.{}, {}\n\n", source.weights.string(),
               source.run_id.empty() ? "" : " (run " + source.run_id + ")", o.inference.part,
               model.device());
  }
  nlohmann::json report =
      model.task() == models::Task::kDetection ? Bbox(model, o, out) : Accuracy(model, o, out);
  report["weights"] = source.weights.string();
  report["run"] = source.run_id;
  report["part"] = o.inference.part;
  if (o.json) fmt::print("{}\n", report.dump(2));
  if (!out.empty()) {
    WriteFileAtomic(out / "report.json", report.dump(2) + "\n");
    if (!o.json) fmt::print("\nwrote {}\n", out.string());
  }
}

}  // namespace

void AddEvalCommand(CLI::App& app, Context&) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("eval", "score a run's checkpoint or a file of weights on labelled data");
  command->add_option("target", o->model.target, "RUN, or a .safetensors or .pth file")->required();
  AddModelFlags(*command, o->model);
  command->add_option("--part", o->inference.part, "which part of the data")
      ->check(CLI::IsMember({"train", "val", "test"}))
      ->capture_default_str();
  command->add_option("--metric", o->metric, "bbox or accuracy: what the model gives");
  command->add_option("--min-score", o->min_score, "of detections in the confusion of classes")
      ->capture_default_str();
  command->add_option("--out", o->out,
                      "folder for report.json, precision.csv, confusion.csv, detections.json");
  command->add_flag("--json", o->json,
                    "print JSON: metrics, classes, confusion, weights, run, part");
  command->add_flag("--last-weights", o->last_weights,
                    "a checkpoint's last weights although it has averages");
  AddTtaFlags(*command, o->tta);
  command->add_option("--device", o->inference.device, "auto, cpu, cuda or cuda:N");
  command->footer(
      "Example: exp eval @ --out eval\n"
      "         exp eval work_dirs/bccd/epoch_12.safetensors --part test --tta-flip");
  command->callback([o] { Run(*o); });
}

}  // namespace xp::cli
