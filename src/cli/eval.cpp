// `exp eval`: scores a run's checkpoint, or any file of weights, on a part of the data.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/printable.h"
#include "src/cli/command.h"
#include "src/cli/device_flag.h"
#include "src/cli/eval_record.h"
#include "src/cli/eval_report.h"
#include "src/cli/long_work.h"
#include "src/cli/model_flags.h"
#include "src/cli/model_source.h"
#include "src/cli/out_folder.h"
#include "src/cli/run_folder.h"
#include "src/cli/tell.h"
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
  bool json = false, last_weights = false, no_record = false;
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
  std::vector<train::ClassScores> scores = model.Classify(list);
  ClassReport report = ReportOf(scores, list->classes);
  if (!o.json) PrintClasses(report);
  if (!out.empty()) WriteClasses(out, report, scores);
  return ClassJson(report);
}

// Relative paths of the config mean the folder that this process is in by now.
EvaluationFacts Facts(const Options& o, const ModelSource& source, const train::Inference& model,
                      const std::vector<std::string>& argv) {
  EvaluationFacts facts{model.device(), o.inference.part, argv, ""};
  for (const char* key : {"ann_file", "img_prefix"}) {
    const config::Node* path = source.config.At(fmt::format("data.{}.{}", o.inference.part, key));
    if (path == nullptr || !path->IsString() || path->AsString().empty()) continue;
    facts.ann_file = fs::absolute(path->AsString()).lexically_normal().string();
    break;
  }
  return facts;
}

void Run(Options& o, const std::vector<std::string>& argv) {
  ModelSource source = FindModel(o.model);
  const fs::path out = o.out.empty() ? fs::path() : MakeOutFolder(o.out, "--out");
  EnterFolder(source.folder);
  o.inference.weights = source.weights;
  o.inference.averages = !o.last_weights;
  o.inference.tta = ReadTta(o.tta);
  LongWork shown("evaluating");
  o.inference.progress = shown.Reporter();
  train::Inference model(source.config, o.inference);
  if (!model.precision_note().empty()) Tell("warning: {}\n", model.precision_note());
  CheckMetric(o.metric, model.task());
  if (!o.json) {
    fmt::print("{}{} on data.{}, {}\n\n", source.weights.string(),
               source.run_id.empty() ? "" : " (run " + source.run_id + ")", o.inference.part,
               model.device());
  }
  nlohmann::json report =
      model.task() == models::Task::kDetection ? Bbox(model, o, out) : Accuracy(model, o, out);
  for (const std::string& line : model.TakeWarnings()) Tell("warning: {}\n", Printable(line));
  std::string recorded =
      o.no_record ? "" : RecordEvaluation(source, Facts(o, source, model, argv), report);
  report["weights"] = source.weights.string();
  report["run"] = source.run_id;
  report["part"] = o.inference.part;
  if (o.json) fmt::print("{}\n", report.dump(2));
  if (!out.empty()) {
    WriteFileAtomic(out / "report.json", report.dump(2) + "\n");
    if (!o.json) fmt::print("\nwrote {}\n", out.string());
  }
  if (!recorded.empty()) o.json ? Tell("{}\n", recorded) : fmt::print("{}\n", recorded);
}

}  // namespace

void AddEvalCommand(Command app, Context& context) {
  auto o = std::make_shared<Options>();
  Command command =
      app.AddCommand("eval", "score a run's checkpoint or a file of weights on labelled data");
  command.AddOption("target", o->model.target, "RUN, or a .safetensors or .pth file").Required();
  AddModelFlags(command, o->model);
  command.AddOption("--part", o->inference.part, "which part of the data")
      .OneOf({"train", "val", "test"})
      .ShowDefault();
  command.AddOption("--metric", o->metric, "bbox or accuracy: what the model gives");
  command.AddOption("--min-score", o->min_score, "of detections in the confusion of classes")
      .Range(0.0, 1.0)
      .ShowDefault();
  command.AddOption("--out", o->out,
                    "folder for report.json, precision.csv, confusion.csv, detections.json");
  command.AddFlag("--json", o->json, "print JSON: metrics, classes, confusion, weights, run, part");
  command.AddFlag("--last-weights", o->last_weights,
                  "a checkpoint's last weights although it has averages");
  command.AddFlag("--no-record", o->no_record,
                  "don't add the result to the run's record (`exp show` lists it there)");
  AddTtaFlags(command, o->tta);
  AddDeviceFlag(command, o->inference.device);
  command.Footer(
      "Example: exp eval @ --out eval\n"
      "         exp eval work_dirs/bccd/epoch_12.safetensors --part test --tta-flip");
  command.Callback([o, &context] { Run(*o, context.argv); });
}

}  // namespace xp::cli
