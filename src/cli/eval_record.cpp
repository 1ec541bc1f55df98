#include "src/cli/eval_record.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/record/reader.h"
#include "exp/snapshot/redact.h"
#include "src/cli/command.h"
#include "src/cli/describe_config.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

using nlohmann::json;

std::string Text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

record::Evaluation Describe(const ModelSource& source, const EvaluationFacts& facts,
                            const json& report) {
  snapshot::Redactor redactor(ReadSnapshotOptions(source.config).redact);
  redactor.LearnEnvironment();
  redactor.LearnArgv(facts.argv);
  LearnConfigSecrets(source.config, redactor);
  record::Evaluation e;
  e.device = facts.device;
  e.command_json = Text(redactor.Argv(facts.argv));
  e.weights = redactor.Text(source.weights.string(), "the name of the weights");
  e.weights_hash = HashFile(source.weights).Hex();
  e.part = facts.part;
  e.ann_file = redactor.Text(facts.ann_file, "the name of the annotations");
  std::error_code error;
  if (fs::is_regular_file(facts.ann_file, error)) e.ann_hash = HashFile(facts.ann_file).Hex();
  e.report_json = redactor.Text(Text(report), "the evaluation");
  return e;
}

}  // namespace

std::string RecordEvaluation(const ModelSource& source, const EvaluationFacts& facts,
                             const json& report) {
  if (source.store.empty()) return "";
  try {
    record::Store store = record::Store::Open(source.store);
    int64_t seq = record::ResolveRun(store, source.run_id);
    record::Evaluation added = AddEvaluation(store, seq, Describe(source, facts, report));
    return fmt::format("recorded as evaluation {} of run {}", added.number, source.run_id);
  } catch (const Error& e) {
    return fmt::format("not recorded: {}{}{}", e.text().where, e.text().where.empty() ? "" : ": ",
                       e.text().what);
  }
}

std::string EvaluationLine(const record::Evaluation& e) {
  const json report = json::parse(e.report_json, nullptr, false);
  json all = json::object();
  if (report.is_object() && report.contains("metrics")) all = report["metrics"];
  std::string metrics;
  int shown = 0;
  for (const auto& [name, value] : all.items()) {
    bool first = name == "bbox_mAP" || name == "bbox_mAP_50" || name == "bbox_mAP_75" ||
                 name == "top1" || name == "top5";
    if (!first || !value.is_number() || ++shown > 3) continue;
    metrics += fmt::format("{}{} {:.4f}", metrics.empty() ? "" : ", ", name, value.get<double>());
  }
  return fmt::format("{} on {}, {}: {}", record::ShowTime(e.at_ns), e.part,
                     fs::path(e.weights).filename().string(), metrics);
}

json EvaluationsJson(const std::vector<record::Evaluation>& evaluations) {
  auto parsed = [](const std::string& text) {
    json value = json::parse(text, nullptr, false);
    return value.is_discarded() ? json() : value;
  };
  json list = json::array();
  for (const record::Evaluation& e : evaluations) {
    list.push_back({{"number", e.number},
                    {"at_ns", e.at_ns},
                    {"host", e.host},
                    {"device", e.device},
                    {"command", parsed(e.command_json)},
                    {"weights", e.weights},
                    {"weights_hash", e.weights_hash},
                    {"part", e.part},
                    {"ann_file", e.ann_file},
                    {"ann_hash", e.ann_hash},
                    {"report", parsed(e.report_json)}});
  }
  return list;
}

}  // namespace xp::cli
