// `exp bench`: training throughput of models by batch and precision, as a table that anybody can
// repeat.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/models/zoo.h"
#include "exp/train/throughput.h"
#include "src/cli/command.h"

namespace xp::cli {
namespace {

using train::ThroughputCase;
using train::ThroughputResult;
using train::ThroughputStatus;

struct Flags {
  std::string matrix;
  std::vector<std::string> models{"resnet50"};
  std::vector<int> batches{32};
  std::vector<std::string> precisions{"fp32"};
  std::vector<bool> fusion{true}, deterministic{true};
  std::vector<std::string> overrides;
  std::string device = "auto";
  int threads = 0, repeats = 3, height = 0, width = 0;
  double seconds = 1.0;
  bool profile = false, json = false, no_fusion = false;
};

std::vector<bool> Bools(const config::Reader& r, const char* key) {
  std::vector<bool> values;
  const config::Node* node = r.Raw(key);
  if (node == nullptr) return {true};
  std::vector<config::Node> items =
      node->IsList() ? node->items() : std::vector<config::Node>{*node};
  for (const config::Node& item : items) {
    if (!item.IsBool()) r.Bad(key, "is no switch", "true, false or a list of them");
    values.push_back(item.AsBool());
  }
  return values;
}

void ReadMatrix(Flags& f) {
  config::LoadOptions options;
  options.schema_keys = false;
  config::Reader r(config::Load(f.matrix, f.overrides, options).root);
  f.models = r.Strings("models");
  f.batches.clear();
  for (int64_t batch : r.Ints("batches")) {
    if (batch < 1 || batch > 65536) r.Bad("batches", "is out of range", "ints from 1 to 65536");
    f.batches.push_back(static_cast<int>(batch));
  }
  f.precisions = r.Strings("precisions", {"fp32"});
  f.fusion = Bools(r, "fusion");
  f.deterministic = Bools(r, "deterministic");
  f.seconds = r.Double("seconds_a_repeat", f.seconds);
  f.repeats = static_cast<int>(r.Int("repeats", f.repeats));
}

std::vector<ThroughputCase> Cases(const Flags& f) {
  std::vector<ThroughputCase> cases;
  for (const std::string& model : f.models) {
    models::FindInZoo(model);
    for (const std::string& precision : f.precisions) {
      if (precision != "fp32" && precision != "tf32" && precision != "bf16" &&
          precision != "fp16") {
        throw UsageError({.what = "there is no precision `" + precision + "`",
                          .expected = "fp32, tf32, bf16 or fp16"});
      }
      for (bool fusion : f.fusion) {
        for (bool deterministic : f.deterministic) {
          for (int batch : f.batches) {
            ThroughputCase c;
            c.model = model, c.batch = batch, c.precision = precision, c.device = f.device;
            c.threads = f.threads, c.fusion = fusion, c.deterministic = deterministic;
            c.seconds_a_repeat = f.seconds, c.repeats = f.repeats, c.profile = f.profile;
            c.height = f.height, c.width = f.width;
            cases.push_back(c);
          }
        }
      }
    }
  }
  return cases;
}

const char* StatusText(ThroughputStatus status) {
  return status == ThroughputStatus::kOk            ? "ok"
         : status == ThroughputStatus::kMemoryLimit ? "mem lim"
                                                    : "fail";
}

nlohmann::json ToJson(const ThroughputCase& c, const ThroughputResult& r) {
  nlohmann::json j{{"model", c.model},
                   {"batch", c.batch},
                   {"precision", c.precision},
                   {"fusion", c.fusion},
                   {"deterministic", c.deterministic},
                   {"device", r.device},
                   {"status", StatusText(r.status)}};
  if (r.status == ThroughputStatus::kOk) {
    j["images_per_second"] = r.images_per_second;
    j["milliseconds"] = r.milliseconds;
    j["spread"] = r.spread;
    j["bytes"] = r.bytes;
    j["setup_seconds"] = r.setup_seconds;
    j["loss"] = r.loss;
    for (const train::OperationTime& t : r.profile)
      j["profile"].push_back(
          {{"name", t.name}, {"type", t.type}, {"milliseconds", t.milliseconds}});
  } else {
    j["reason"] = r.reason;
  }
  return j;
}

void PrintRow(const ThroughputCase& c, const ThroughputResult& r) {
  std::string head =
      fmt::format("{:<26} {:>5} {:<5} {:<6} {:<13}", c.model, c.batch, c.precision,
                  c.fusion ? "fused" : "plain", c.deterministic ? "deterministic" : "free");
  if (r.status != ThroughputStatus::kOk) {
    fmt::print("{} {}: {}\n", head, StatusText(r.status), r.reason.substr(0, r.reason.find('\n')));
  } else {
    fmt::print("{} {:>10.1f} {:>9.2f} {:>6.1f}% {:>9.2f} {:>8.1f} {:>9.4f}\n", head,
               r.images_per_second, r.milliseconds, 100 * r.spread,
               static_cast<double>(r.bytes) / (1u << 30), r.setup_seconds, r.loss);
  }
  std::fflush(stdout);
}

// Times by kind of operation, then the twenty longest operations.
void PrintProfile(const ThroughputResult& r) {
  std::map<std::string, double> kinds;
  double total = 0;
  for (const train::OperationTime& t : r.profile) {
    kinds[t.type] += t.milliseconds;
    total += t.milliseconds;
  }
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [type, ms] : kinds) sorted.emplace_back(ms, type);
  std::sort(sorted.rbegin(), sorted.rend());
  fmt::print("  {:>9.3f} ms in all operations, each waited for\n", total);
  for (const auto& [ms, type] : sorted)
    fmt::print("  {:>9.3f} ms {:>5.1f}%  {}\n", ms, 100 * ms / total, type);
  std::vector<train::OperationTime> longest = r.profile;
  std::sort(longest.begin(), longest.end(),
            [](const auto& a, const auto& b) { return a.milliseconds > b.milliseconds; });
  for (size_t i = 0; i < std::min<size_t>(20, longest.size()); ++i) {
    fmt::print("    {:>9.3f} ms  {} {}\n", longest[i].milliseconds, longest[i].type,
               longest[i].name);
  }
}

int RunBench(Flags f) {
  if (!f.matrix.empty()) ReadMatrix(f);
  if (f.no_fusion) f.fusion = {false};
  nlohmann::json rows = nlohmann::json::array();
  if (!f.json) {
    fmt::print("{:<26} {:>5} {:<5} {:<6} {:<13} {:>10} {:>9} {:>7} {:>9} {:>8} {:>9}\n", "model",
               "batch", "prec", "passes", "mode", "img/s", "ms/step", "spread", "GiB", "setup s",
               "loss");
  }
  bool failed = false;
  for (const ThroughputCase& c : Cases(f)) {
    ThroughputResult r = train::MeasureThroughput(c);
    failed = failed || r.status == ThroughputStatus::kFailed;
    if (f.json) {
      rows.push_back(ToJson(c, r));
    } else {
      PrintRow(c, r);
      if (f.profile && r.status == ThroughputStatus::kOk) PrintProfile(r);
    }
  }
  if (f.json)
    fmt::print("{}\n", rows.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  return failed ? 1 : 0;
}

}  // namespace

void AddBenchCommand(CLI::App& app, Context& context) {
  auto flags = std::make_shared<Flags>();
  CLI::App* c =
      app.add_subcommand("bench", "measure training throughput: models by batch and precision");
  c->add_option("matrix", flags->matrix,
                "YAML file with models, batches, precisions (configs/bench/)");
  c->add_option("--set", flags->overrides, "change a key of the matrix: K=V");
  c->add_option("--model", flags->models, "models to measure")->delimiter(',');
  c->add_option("--batch", flags->batches, "images a step")->delimiter(',');
  c->add_option("--precision", flags->precisions, "fp32, tf32, bf16, fp16")->delimiter(',');
  c->add_option("--device", flags->device, "auto, cpu, cuda or cuda:N");
  c->add_option("--threads", flags->threads, "CPU threads; 0: all");
  c->add_option("--height", flags->height, "of the images; 0: the model's own");
  c->add_option("--width", flags->width, "of the images; 0: the model's own");
  c->add_option("--seconds", flags->seconds, "length of a repeat");
  c->add_option("--repeats", flags->repeats, "the median repeat counts");
  c->add_flag("--no-fusion", flags->no_fusion, "without the fusion passes");
  c->add_flag("--profile", flags->profile, "also the time of each operation");
  c->add_flag("--json", flags->json, "one JSON array (docs/bench.md)");
  c->footer("Example: exp bench --model resnet50 --batch 64,128,256 --precision bf16 --profile");
  c->callback([flags, &context] { context.exit_code = RunBench(*flags); });
}

}  // namespace xp::cli
