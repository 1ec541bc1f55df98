// `exp show`: one run, whole.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "exp/base/escape.h"
#include "exp/base/printable.h"
#include "exp/record/machine.h"
#include "exp/record/reader.h"
#include "src/cli/command.h"
#include "src/cli/eval_record.h"
#include "src/cli/run_json.h"
#include "src/cli/table.h"

namespace xp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string store, run = "@";
  bool as_json = false, config = false, environment = false, code = false, origins = false;
};

void Field(const char* name, const std::string& value) {
  if (!value.empty()) fmt::print("{:<12} {}\n", name, Cut(value, 4000));
}

// An error message keeps its lines, below each other. A name with line ends doesn't: it would look
// like another field.
void FieldOfLines(const char* name, const std::string& value) {
  std::istringstream lines(value);
  for (std::string line; std::getline(lines, line); name = "") Field(name, line);
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + ShellWord(w);
  return out;
}

void PrintHead(const record::Run& r) {
  Field("run", fmt::format("{}  {}", r.id, r.name));
  FieldOfLines("state", r.reason.empty() ? r.state : fmt::format("{}: {}", r.state, r.reason));
  Field("started", record::ShowTime(r.created_ns));
  if (r.ended_ns > 0) {
    Field("ended",
          fmt::format("{}, after {}", record::ShowTime(r.ended_ns),
                      record::ShowDuration(static_cast<double>(r.ended_ns - r.created_ns) * 1e-9)));
  }
  Field("command", Joined(r.command));
  Field("folder", r.cwd);
  Field("work_dir", r.work_dir);
  Field("config", fmt::format("{}{}{}", r.config_file, r.config_hash.empty() ? "" : "  identity ",
                              r.config_hash));
  for (const std::string& o : r.overrides) Field("  --set", o);
  Field("seed", r.seed);
  if (r.threads > 0) Field("threads", std::to_string(r.threads));
  Field("device", r.device);
  for (const std::string& t : r.tags) Field("tag", t);
  if (!r.parent_id.empty()) Field(r.relation.c_str(), r.parent_id);
}

void PrintCode(const record::Run& r) {
  json code = json::parse(r.code_json, nullptr, false);
  if (!code.is_object()) return;
  const std::string kind = code.value("kind", "");
  if (kind != "git") Field("code", kind + " (" + code.value("reason", "") + ")");
  for (const json& repo : code.value("repositories", json::array())) {
    if (kind != "git") break;
    std::string changes;
    const json counts = repo.value("changes", json::object());
    for (const auto& [what, n] : counts.items()) {
      changes += fmt::format(", {} {}", n.dump(), what);
    }
    std::string path = repo.value("path", "");
    const std::string branch = repo.value("branch", "");
    Field("code",
          fmt::format("{}{} {}({}){}", path.empty() ? "" : path + " ",
                      repo.value("commit", "").empty() ? "no commit" : repo.value("commit", ""),
                      branch.empty() ? "" : branch + " ", repo.value("head", ""), changes));
    for (const json& why : repo.value("partial", json::array()))
      Field("  partial", why.get<std::string>());
  }
  int64_t omitted = code.value("/omitted/count"_json_pointer, int64_t{0});
  if (omitted == 0) return;
  Field("  left out", fmt::format("{} files", omitted));
  size_t shown = 0;
  for (const json& file : code["omitted"]["files"]) {
    if (++shown > 5) break;
    Field("", fmt::format("{}: {}", file.value("path", ""), file.value("reason", "")));
  }
}

void PrintDoctor(const record::Store& store, const record::Run& r) {
  std::optional<record::DoctorReport> report = record::FindDoctorReport(store, r);
  if (!report) return;
  Field("doctor", fmt::format("report {} of this machine, {}: {}", report->id,
                              record::ShowTime(report->created_ns), report->level));
  const std::string other = record::OtherState(*report, r);
  if (!other.empty()) {
    Field("", "made in another state: " + Printable(other) + "; `exp doctor` makes a new one");
  }
}

void PrintEvaluations(const record::Store& store, const record::Run& r) {
  std::vector<record::Evaluation> all = record::ListEvaluations(store, r.seq);
  size_t first = all.size() > 10 ? all.size() - 10 : 0;
  for (size_t i = first; i < all.size(); ++i) Field("evaluated", EvaluationLine(all[i]));
}

void PrintJson(const record::Store& store, const record::Run& r) {
  json out = RunToJson(r);
  if (std::optional<record::DoctorReport> report = record::FindDoctorReport(store, r)) {
    out["doctor"] = {
        {"id", report->id}, {"level", report->level}, {"created_ns", report->created_ns}};
    const std::string other = record::OtherState(*report, r);
    if (!other.empty()) out["doctor"]["other_state"] = other;
  }
  out["evaluations"] = EvaluationsJson(record::ListEvaluations(store, r.seq));
  fmt::print("{}\n", DumpJson(out));
}

void PrintRest(const record::Run& r) {
  for (const record::DatasetRecord& d : r.datasets) {
    if (record::HoldsWeights(d)) {
      Field("weights", fmt::format("{}: {}, {}", d.role, d.ann_file, d.ann_hash));
      continue;
    }
    Field("data", fmt::format("{}: {}, {} images, {:.1f} MB{}{}", d.role,
                              d.ann_file.empty() ? d.img_prefix : d.ann_file, d.images,
                              static_cast<double>(d.bytes) / 1e6,
                              d.missing > 0 ? fmt::format(", {} missing", d.missing) : "",
                              d.mode == "cheap" ? ", names and sizes only" : ""));
  }
  json redactions = json::parse(r.redactions_json, nullptr, false);
  if (redactions.is_array()) {
    for (const json& x : redactions) {
      Field("removed",
            fmt::format("a secret ({}) from {}", x.value("kind", ""), x.value("place", "")));
    }
  }
  for (const record::Attempt& a : r.attempts) {
    if (r.attempts.size() > 1) {
      Field("attempt",
            fmt::format("{} from epoch {}, step {}: {}{}", a.number, a.start_epoch + 1,
                        a.start_step, a.state, a.reason.empty() ? "" : " (" + a.reason + ")"));
    }
    if (a.lost_points > 0)
      Field("lost", fmt::format("{} points that could not be written", a.lost_points));
  }
  size_t first = r.warnings.size() > 10 ? r.warnings.size() - 10 : 0;
  if (first > 0)
    Field("warnings", fmt::format("{}, the last 10 are shown; --json has all", r.warnings.size()));
  for (size_t i = first; i < r.warnings.size(); ++i) {
    Field("warning", Cut(fmt::format("[{}] {}", r.warnings[i].code, r.warnings[i].message), 400));
  }
  json verdict = json::parse(r.verdict_json, nullptr, false);
  if (verdict.is_object()) Field("verdict", verdict.value("summary", ""));
}

void PrintEpochs(const record::Run& r) {
  if (r.epochs.empty()) return;
  std::vector<std::string> header = {"EPOCH", "STEP"}, names;
  auto add = [&](const char* kind, const record::Named& list, size_t limit) {
    size_t added = 0;
    for (const auto& [name, value] : list) {
      std::string full = std::string(kind) + name;
      if (std::find(names.begin(), names.end(), full) != names.end() || added++ >= limit) continue;
      names.push_back(full);
      header.push_back(name);
    }
  };
  for (const record::EpochRecord& e : r.epochs) {
    add("l", e.losses, 6);
    add("m", e.metrics, 3);
  }
  for (const char* h : {"SECONDS", "IMG/S", "WEIGHTS"}) header.push_back(h);
  std::vector<std::vector<std::string>> rows;
  size_t begin = r.epochs.size() > 40 ? r.epochs.size() - 40 : 0;
  for (size_t i = begin; i < r.epochs.size(); ++i) {
    const record::EpochRecord& e = r.epochs[i];
    std::vector<std::string> row = {std::to_string(e.epoch + 1), std::to_string(e.step)};
    for (const std::string& name : names) {
      const record::Named& list = name[0] == 'l' ? e.losses : e.metrics;
      auto found = std::find_if(list.begin(), list.end(),
                                [&](auto& v) { return v.first == name.substr(1); });
      row.push_back(found == list.end() ? "" : record::Show(found->second, 12));
    }
    row.push_back(fmt::format("{:.1f}", e.train_seconds + e.eval_seconds));
    row.push_back(fmt::format("{:.1f}", e.images_per_second));
    row.push_back(e.weights_hash.substr(0, 12));
    rows.push_back(std::move(row));
  }
  fmt::print("\n");
  PrintTable(header, rows, 24);
}

void PrintPlots(const record::Store& store, const record::Run& r) {
  for (const char* name : {"loss", "total", "train/loss"}) {
    std::vector<double> values;
    for (const record::CurvePoint& p : record::LoadCurve(store, r.seq, name)) {
      values.push_back(record::AsDouble(p.value));
    }
    if (values.size() < 2) continue;
    fmt::print("\n{} by step\n{}", Cut(name, 60), Plot(values, 60, 6));
    break;
  }
  for (const char* name : {"bbox_mAP", "mAP", "top1", "accuracy_top-1", "accuracy"}) {
    std::vector<double> values;
    for (const record::EpochRecord& e : r.epochs) {
      for (const auto& [metric, value] : e.metrics) {
        if (metric == name) values.push_back(record::AsDouble(value));
      }
    }
    if (values.size() < 2) continue;
    fmt::print("\n{} by epoch\n{}", Cut(name, 60), Plot(values, 60, 4));
    break;
  }
}

void PrintCheckpoints(const record::Run& r) {
  if (r.checkpoints.empty()) return;
  std::vector<std::vector<std::string>> rows;
  for (const record::CheckpointRecord& c : r.checkpoints) {
    rows.push_back({std::to_string(c.epoch + 1), c.hash,
                    fmt::format("{:.1f} MB", static_cast<double>(c.bytes) / 1e6), c.path});
  }
  fmt::print("\n");
  PrintTable({"EPOCH", "CHECKPOINT", "SIZE", "PATH"}, rows, 100);
}

void Run(const Options& options) {
  record::Store store = record::OpenFoundStore(options.store);
  record::Run r = record::LoadRun(store, record::ResolveRun(store, options.run));
  if (options.as_json) return PrintJson(store, r);
  if (options.config || options.origins) {
    for (const record::ConfigValue& v : r.config) {
      record::Value value = record::JsonText{v.value};
      fmt::print("{} = {}{}\n", Printable(v.path), Printable(record::Show(value, 200)),
                 options.origins ? "  # " + Printable(v.origin) : "");
    }
    return;
  }
  if (options.environment || options.code) {
    return fmt::print("{}\n", DumpJson(json::parse(options.code ? r.code_json : r.environment_json,
                                                   nullptr, false)));
  }
  PrintHead(r);
  PrintCode(r);
  PrintDoctor(store, r);
  PrintRest(r);
  PrintEvaluations(store, r);
  PrintEpochs(r);
  PrintCheckpoints(r);
  PrintPlots(store, r);
}

}  // namespace

void AddShowCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("show", "everything about one run");
  command.AddOption("run", options->run, "id, beginning of one, name, @ (newest), @~1");
  command.AddOption("--store", options->store, "folder of the store");
  command.AddFlag("--json", options->as_json, "for programs; docs/record.md lists the keys");
  command.AddFlag("--config", options->config, "the resolved config, one value a line");
  command.AddFlag("--origins", options->origins, "the same, and where each value was set");
  command.AddFlag("--environment", options->environment, "the whole environment, as JSON");
  command.AddFlag("--code", options->code, "the whole state of the code, as JSON");
  command.Footer("Example: exp show @ --config --origins");
  command.Callback([options] { Run(*options); });
}

}  // namespace xp::cli
