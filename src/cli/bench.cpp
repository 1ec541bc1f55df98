// `exp bench`: training throughput of models by batch and precision, as a table that anybody can
// repeat; kept in the store, and compared with other calls.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "exp/base/error.h"
#include "exp/config/load.h"
#include "exp/models/zoo.h"
#include "src/cli/bench_call.h"
#include "src/cli/command.h"
#include "src/cli/device_flag.h"
#include "src/cli/signals.h"

namespace xp::cli {
namespace {

struct Flags {
  std::string matrix;
  std::vector<std::string> models, precisions, overrides, against;
  std::vector<int> batches;
  std::optional<std::string> device, continued;
  std::optional<double> seconds, settle, seconds_a_case;
  std::optional<int> repeats, threads, height, width;
  bool no_fusion = false, no_graph = false, free_order = false, largest = false, profile = false;
  BenchCallOptions call;
};

// What the command line says, as keys of the file.
std::vector<std::pair<std::string, std::string>> Said(const Flags& f) {
  std::vector<std::pair<std::string, std::string>> said;
  auto list = [&](const char* key, const auto& values) {
    std::string text;
    for (const auto& v : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", v);
    if (!values.empty()) said.emplace_back(key, "[" + text + "]");
  };
  auto one = [&](const char* key, const auto& value) {
    if (value) said.emplace_back(key, fmt::format("{}", *value));
  };
  list("models", f.models);
  list("batches", f.batches);
  list("precisions", f.precisions);
  one("devices", f.device);
  one("seconds_a_repeat", f.seconds);
  one("settle_seconds", f.settle);
  one("seconds_a_case", f.seconds_a_case);
  one("repeats", f.repeats);
  one("threads", f.threads);
  one("height", f.height);
  one("width", f.width);
  if (f.no_fusion) said.emplace_back("fusion", "false");
  if (f.no_graph) said.emplace_back("graph", "false");
  if (f.free_order) said.emplace_back("deterministic", "false");
  if (f.largest) said.emplace_back("largest_batch", "true");
  if (f.profile) said.emplace_back("profile", "true");
  return said;
}

// It goes into the matrix as if the file had said it, for all parts.
config::Resolved LoadMatrix(const Flags& f) {
  config::LoadOptions options;
  options.schema_keys = false;
  auto load = [&](const std::vector<std::string>& overrides) {
    return f.matrix.empty() ? config::LoadText("{}\n", "the command line", overrides, options)
                            : config::Load(f.matrix, overrides, options);
  };
  std::vector<std::string> overrides = f.overrides;
  config::Resolved file = load(overrides);
  for (const auto& [key, value] : Said(f)) {
    overrides.push_back(fmt::format("{}{}={}", file.root.Has(key) ? "" : "+", key, value));
    const config::Node* parts = file.root.Find("parts");
    for (size_t i = 0; parts && parts->IsList() && i < parts->items().size(); ++i) {
      const config::Node& part = parts->items()[i];
      if (part.IsDict() && part.Find(key)) overrides.push_back(fmt::format("~parts.{}.{}", i, key));
    }
  }
  return load(overrides);
}

[[noreturn]] void Exclude(const std::string& where, const char* what, const char* expected) {
  throw UsageError({.what = what,
                    .where = where,
                    .expected = expected,
                    .next = "`exp bench --help` says what each does"});
}

// Of an earlier call nothing is measured.
void RequireOnlyPast(const Flags& f) {
  const bench::PastOptions& past = f.call.past;
  const std::pair<bool, const char*> kinds[] = {{past.history, "--history"},
                                                {past.show.has_value(), "--show"},
                                                {!past.compare.empty(), "--compare"},
                                                {f.continued.has_value(), "--continue"}};
  const char* first = nullptr;
  for (const auto& [given, name] : kinds) {
    if (!given) continue;
    if (first) Exclude(fmt::format("{} and {}", first, name), "they exclude each other", "one");
    first = name;
  }
  Flags measuring = f;
  if (past.history) measuring.models.clear();  // of which models the img/s are shown
  if (!f.matrix.empty() || !f.overrides.empty() || !f.against.empty() || f.call.skip_exp ||
      f.call.no_store || !f.call.label.empty() || !Said(measuring).empty()) {
    Exclude(first, "it shows earlier calls and measures nothing",
            "beside it --store, --json, --model with --history, and with the others what writes "
            "the table");
  }
}

// Before an hour of measuring, not behind it.
void RequirePossible(const Flags& f) {
  for (const std::string& peer : f.against) {
    if (peer != "torch") {
      throw UsageError(
          {.what = "there is no peer `" + peer + "`", .where = "--against", .expected = "torch"});
    }
  }
  if (f.call.skip_exp && f.against.empty()) {
    throw UsageError({.what = "there is no peer to measure alone",
                      .where = "--only-peer",
                      .expected = "--against torch beside it"});
  }
  const bool other = !f.matrix.empty() || !f.overrides.empty() || !Said(f).empty();
  if (f.continued && (other || !f.call.label.empty() || f.call.no_store)) {
    Exclude("--continue", "a call is continued with its own matrix and label, in its store",
            "beside it --against, --python, --only-peer, --store and what writes the table");
  }
  if (f.call.label.starts_with('@')) {
    throw UsageError({.what = "`" + f.call.label + "` would name a place in the history",
                      .where = "--label",
                      .expected = "a name that doesn't begin with @"});
  }
  for (const std::string& model : f.models) models::FindInZoo(model);
  RequireWritable(f.call.past);
}

int RunBench(Flags f, const Context& context) {
  f.call.past.models = f.models;
  f.call.torch = !f.against.empty();
  if (f.call.past.Asked()) {
    RequireOnlyPast(f);
    return ShowPast(f.call.past);
  }
  RequirePossible(f);
  StopSignals signals("the rows so far are kept");
  if (!f.continued) return BenchCall(f.call, context.argv, LoadMatrix(f), nullptr).Run();
  const record::BenchRecord record = FindBenchToContinue(f.call.past.store, *f.continued);
  return BenchCall(f.call, context.argv, MatrixOf(record), &record).Run();
}

void AddMeasuring(Command c, Flags* f) {
  c.AddOption("matrix", f->matrix, "YAML file (configs/bench/, docs/bench.md)");
  c.AddOption("--set", f->overrides, "change a key of the matrix: K=V").OneEachTime();
  c.AddOption("--model", f->models, "models to measure").SplitAt(',');
  c.AddOption("--batch", f->batches, "images a step").SplitAt(',').Range(1, 65536);
  c.AddOption("--precision", f->precisions, "of the computations")
      .SplitAt(',')
      .OneOf({"fp32", "tf32", "bf16", "fp16"});
  AddDeviceFlag(c, f->device);
  c.AddOption("--threads", f->threads, "CPU threads; 0: all").Range(0, 4096);
  c.AddOption("--height", f->height, "of the images; 0: the model's own").Range(0, 16384);
  c.AddOption("--width", f->width, "of the images; 0: the model's own").Range(0, 16384);
  c.AddOption("--seconds", f->seconds, "length of a repeat").Range(1e-6, 3600.0);
  c.AddOption("--repeats", f->repeats, "the median repeat counts").Range(1, 1000);
  c.AddOption("--settle", f->settle, "at most so long for steady clocks").Range(1e-6, 3600.0);
  c.AddOption("--seconds-a-case", f->seconds_a_case,
              "a case that takes longer from its first step on is a row `time lim`")
      .Range(1e-6, 3600.0);
  c.AddFlag("--no-fusion", f->no_fusion, "without the fusion passes");
  c.AddFlag("--no-graph", f->no_graph, "launch kernel by kernel instead of one captured step");
  c.AddFlag("--free", f->free_order, "allow plans that don't repeat bit for bit");
  c.AddFlag("--largest", f->largest, "also search the largest batch that fits");
  c.AddFlag("--profile", f->profile, "also the time of each operation");
  c.AddOption("--against", f->against, "also run a peer on the same cases: torch").SplitAt(',');
  c.AddOption("--python", f->call.python, "the Python that has PyTorch");
  c.AddFlag("--only-peer", f->call.skip_exp, "with --against: the peer alone");
  c.AddOption("--continue", f->continued,
              "measure what an interrupted call lacks: @, its name or label");
  c.AddOption("--label", f->call.label, "a name for this call, for --compare");
  c.AddFlag("--no-store", f->call.no_store, "keep nothing");
}

void AddPast(Command c, bench::PastOptions* p) {
  c.AddOption("--store", p->store, "folder of the store");
  c.AddOption("--compare", p->compare,
              "two calls side by side, with ratios: A B; also files of --json")
      .Words(2);
  c.AddFlag("--history", p->history, "all calls; with --model, its img/s through all of them");
  c.AddOption("--show", p->show, "the table of an earlier call: @, @~1, its name or label");
  c.AddOption("--markdown", p->markdown, "write the table to this file");
  c.AddOption("--csv", p->csv, "write all numbers to this file");
  c.AddOption("--html", p->html, "write a page with bars to this file");
  c.AddFlag("--json", p->json, "for programs (docs/bench.md)");
}

}  // namespace

void AddBenchCommand(Command app, Context& context) {
  auto flags = std::make_shared<Flags>();
  Command c = app.AddCommand(
      "bench", "measure training throughput: models by batch and precision; compare calls");
  AddMeasuring(c, flags.get());
  AddPast(c, &flags->call.past);
  c.Footer(
      "Example: exp bench configs/bench/resnet_family.yaml --html table.html\n"
      "         exp bench --model resnet50 --batch 64,128,256 --precision bf16 --against torch\n"
      "         exp bench --continue @\n"
      "         exp bench --compare @~1 @");
  c.Callback([flags, &context] { context.exit_code = RunBench(*flags, context); });
}

}  // namespace xp::cli
