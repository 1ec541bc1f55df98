// `exp export`, `exp import`: runs as files of other programs, and back.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/record/export.h"
#include "exp/record/reader.h"
#include "src/cli/command.h"
#include "src/cli/out_folder.h"
#include "src/cli/run_json.h"
#include "src/cli/store_place.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

struct Options {
  std::string store, out, format = "json", file;
  std::vector<std::string> runs;
};

void ExportOne(const record::Store& store, int64_t seq, const Options& options) {
  record::Run run = record::LoadRun(store, seq);
  fs::path out = options.out;
  if (options.format == "json") {
    nlohmann::json json = record::ExportJson(store, seq);
    json["run"] = RunToJson(run);
    record::SealExport(json);
    std::string text = DumpJson(json);
    if (options.out.empty()) return fmt::print("{}\n", text);
    std::error_code error;
    const bool into_folder = options.runs.size() > 1 || fs::is_directory(out, error);
    fs::path file = into_folder ? out / (run.id + ".json") : out;
    if (file.has_parent_path()) MakeOutFolder(file.parent_path().string(), "--out");
    WriteFileAtomic(file, text);
    return fmt::print("{} -> {}\n", run.id, file.string());
  }
  if (options.out.empty()) {
    throw UsageError({.what = "no folder to write to is named",
                      .where = "--format " + options.format,
                      .expected = "--out FOLDER",
                      .next = "add it; only `json` can go to standard output"});
  }
  fs::path folder = options.format == "mlflow" ? out : out / run.id;
  MakeOutFolder(folder.string(), "--out");
  if (options.format == "csv") record::ExportCsv(store, seq, folder);
  if (options.format == "tensorboard") record::ExportTensorBoard(store, seq, folder);
  if (options.format == "mlflow") record::ExportMlflow(store, seq, folder);
  fmt::print("{} -> {}\n", run.id, folder.string());
}

void Export(const Options& options) {
  record::Store store = record::OpenFoundStore(options.store);
  for (const std::string& selector : options.runs)
    ExportOne(store, record::ResolveRun(store, selector), options);
}

void Import(const Options& options) {
  nlohmann::json json = record::ParseExport(ReadFile(options.file), options.file);
  record::Store store = record::Store::OpenOrCreate(StoreToWrite(options.store));
  try {
    fmt::print("imported {}\n", record::ImportJson(store, json));
  } catch (const Error& e) {
    ErrorText text = e.text();
    if (text.where.empty()) text.where = options.file;
    throw Error(e.kind(), text);
  }
}

}  // namespace

void AddExportCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command =
      app.AddCommand("export", "runs as files: json (complete), csv, tensorboard, mlflow");
  command.AddOption("runs", options->runs, "ids, names, @").Required();
  command.AddOption("--format", options->format, "json, csv, tensorboard or mlflow")
      .OneOf({"json", "csv", "tensorboard", "mlflow"});
  command.AddOption("--out", options->out, "file or folder; json without it goes to the terminal");
  command.AddOption("--store", options->store, "folder of the store");
  command.Footer("Example: exp export @ --format tensorboard --out /tmp/tb");
  command.Callback([options] { Export(*options); });
}

void AddImportCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("import", "add a run that `exp export` wrote as json");
  command.AddOption("file", options->file, "the file").Required();
  command.AddOption("--store", options->store, "folder of the store; made when absent");
  command.Footer("Example: exp import run.json");
  command.Callback([options] { Import(*options); });
}

}  // namespace xp::cli
