// `exp bench`: training throughput of models by batch and precision, as a table that anybody can
// repeat; kept in the store, and compared with other calls.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/bench/report.h"
#include "exp/bench/series.h"
#include "exp/bench/throughput.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "exp/models/zoo.h"
#include "exp/record/bench_store.h"
#include "src/cli/bench_past.h"
#include "src/cli/command.h"
#include "src/cli/machine_environment.h"
#include "src/cli/signals.h"
#include "src/cli/store_place.h"

namespace xp::cli {
namespace {

using bench::Case;
using bench::Row;
using bench::Status;

struct Flags {
  std::string matrix, label, python = "python3";
  std::vector<std::string> models, precisions, overrides, against;
  std::vector<int> batches;
  std::optional<std::string> device;
  std::optional<double> seconds, settle, seconds_a_case;
  std::optional<int> repeats;
  Case base;
  bool no_fusion = false, no_graph = false, free_order = false, largest = false, no_store = false;
  bool skip_exp = false;
  bench::PastOptions past;
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
  if (f.no_fusion) said.emplace_back("fusion", "false");
  if (f.no_graph) said.emplace_back("graph", "false");
  if (f.free_order) said.emplace_back("deterministic", "false");
  if (f.largest) said.emplace_back("largest_batch", "true");
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

// Measures, shows and stores.
class Call {
 public:
  Call(const Flags& flags, const Context& context, const config::Resolved& resolved)
      : flags_(flags), environment_(MachineEnvironment(false)) {
    matrix_ = bench::ReadMatrix(resolved.root, flags.base);
    if (!flags.no_store) OpenStore(context, resolved);
    live_ = !flags.past.json && ::isatty(STDERR_FILENO) == 1;
    if (!flags.past.json) fmt::print("{}\n", bench::HeadLine());
    std::fflush(stdout);
  }

  int Run() {
    bool stopped = false;
    try {
      if (!flags_.skip_exp) {
        Steps();
        if (matrix_.loader) Loader();
        if (matrix_.end_to_end) EndToEnd();
      }
      if (!flags_.against.empty()) Torch();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kInterrupted) throw;
      stopped = true;
    }
    Finish();
    if (stopped) return 130;
    bool failed = std::any_of(rows_.begin(), rows_.end(),
                              [](const Row& r) { return r.status == Status::kFailed; });
    return failed ? 1 : 0;
  }

 private:
  void OpenStore(const Context& context, const config::Resolved& resolved) {
    try {
      store_ = std::make_unique<record::Store>(
          record::Store::OpenOrCreate(StoreToWrite(flags_.past.store)));
      record::BenchRecord r;
      r.label = flags_.label;
      r.command_json = nlohmann::json(context.argv)
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      r.matrix_json = config::CanonicalJson(resolved.root);
      r.environment_json = environment_;
      record_ = record::BeginBench(*store_, r);
    } catch (const Error& e) {
      store_.reset();
      PrintNotStored("the results aren't stored", e);
    }
  }

  void Announce(const Case& c) const {
    if (!live_) return;
    fmt::print(stderr, "\r\033[K... {} {} {} {} {}", c.kind, c.model, c.batch, c.precision,
               bench::Mode(c));
  }

  void Add(Row row) {
    Compare(&row);
    Store(row);
    if (device_.empty() && row.c.kind == "step") device_ = row.device;
    StoreDevice();
    if (live_) fmt::print(stderr, "\r\033[K");
    if (!flags_.past.json) {
      fmt::print("{}\n", bench::RowLine(row));
      if (!row.profile.empty()) fmt::print("{}", bench::ProfileText(row));
      std::fflush(stdout);
    }
    rows_.push_back(std::move(row));
  }

  // What can't be stored any more (a full disk) is measured and shown all the same.
  template <class Body>
  void Storing(Body body) {
    if (!store_) return;
    try {
      body();
    } catch (const Error& e) {
      store_.reset();
      PrintNotStored("from here on the results aren't stored", e);
    }
  }

  void Store(const Row& row) {
    Storing([&] {
      record::BenchRow r;
      r.program = row.c.program, r.kind = row.c.kind, r.model = row.c.model;
      r.batch = row.c.batch, r.precision = row.c.precision, r.device = row.c.device;
      r.mode = bench::Mode(row.c), r.status = bench::StatusText(row.status), r.reason = row.reason;
      r.images_per_second = row.images_per_second, r.milliseconds = row.milliseconds;
      r.spread = row.spread, r.watts = row.watts, r.bytes = static_cast<int64_t>(row.bytes);
      for (const std::string& t : row.throttled)
        r.throttled += (r.throttled.empty() ? "" : ", ") + t;
      r.result_json = bench::RowJson(row);
      record::AddBenchRow(*store_, record_.id, static_cast<int>(rows_.size()), r);
    });
  }

  // With each row: a call that is killed shall say what it ran on, too.
  void StoreDevice() {
    nlohmann::json speeds = nlohmann::json::object();
    for (const auto& [key, s] : speeds_) {
      speeds[key] = {{"copy_bytes_per_second", s.copy_bytes_a_second},
                     {"matrix_flop_per_second", s.matrix_flop_a_second}};
    }
    record_.device = device_;
    record_.speeds_json = speeds.dump();
    Storing([&] { record::SetBenchDevice(*store_, record_.id, device_, record_.speeds_json); });
  }

  // The device's own speeds are measured once for each precision that came to run.
  void Compare(Row* row) {
    bool step = row->c.kind != "loader" && row->status == Status::kOk && row->c.program == "exp";
    if (!step) return;
    std::string key = row->c.device + " " + row->c.precision;
    auto found = speeds_.find(key);
    if (found == speeds_.end()) {
      found = speeds_.emplace(key, bench::SpeedsFor(row->c)).first;
      std::string text = fmt::format("{}: copies {:.3f} TB/s, multiplies {:.2f} TFLOP/s", key,
                                     found->second.copy_bytes_a_second * 1e-12,
                                     found->second.matrix_flop_a_second * 1e-12);
      speed_texts_.push_back(text);
    }
    bench::CompareWithSpeeds(found->second, row);
  }

  void Steps() {
    bench::StepSeries series(&StopSignals::flag());
    for (const Case& c : matrix_.cases) {
      Announce(c);
      Add(series.Measure(c));
    }
    for (const Case& c : matrix_.largest) {
      Announce(c);
      Add(series.MeasureLargest(c, matrix_.largest_batch_limit));
    }
  }

  void Loader() {
    std::shared_ptr<bench::Photos> photos = bench::OpenPhotos(matrix_.loader_part);
    for (int batch : matrix_.loader_part.batches) {
      for (int workers : matrix_.loader_part.workers) {
        Case c = matrix_.cases.front();
        c.kind = "loader", c.batch = batch, c.workers = workers, c.device = "cpu";
        Announce(c);
        Add(bench::MeasureLoader(c, matrix_.loader_part, *photos, &StopSignals::flag()));
      }
    }
  }

  void EndToEnd() {
    const bench::EndToEndPart& part = matrix_.end_to_end_part;
    std::shared_ptr<bench::Photos> photos = bench::OpenPhotos(part);
    for (const std::string& model : part.models) {
      for (const std::string& precision : part.precisions) {
        for (int batch : part.batches) {
          for (int workers : part.workers) {
            Case c = matrix_.cases.front();
            c.kind = "end_to_end", c.model = model, c.precision = precision, c.batch = batch;
            c.workers = workers;
            Announce(c);
            Add(bench::MeasureEndToEnd(c, part, *photos, &StopSignals::flag()));
          }
        }
      }
    }
  }

  // Each case once a mode: exp's captured and fused steps have no counterpart there.
  void Torch() {
    std::vector<Case> cases;
    std::map<std::string, bool> seen;
    for (const std::string& mode : matrix_.torch_modes) {
      for (Case c : matrix_.cases) {
        c.program = "torch", c.torch_mode = mode, c.captured = c.fusion = true;
        c.profile = false;
        if (mode == "compile") c.deterministic = false;
        if (seen.emplace(c.device + bench::Key(c), true).second) cases.push_back(c);
      }
    }
    Announce(cases.front());
    bench::MeasureTorch(
        flags_.python, cases, [&](const Row& row) { Add(row); }, &StopSignals::flag());
  }

  void Finish() {
    record_.environment_json = environment_;
    if (flags_.past.json) {
      fmt::print("{}\n", BenchJson(record_, rows_));
    } else {
      for (const std::string& text : speed_texts_) fmt::print("{}\n", text);
      if (store_) fmt::print("stored as {} in {}\n", record_.name, store_->folder().string());
    }
    WriteBenchFiles(record_, rows_, flags_.past);
  }

  const Flags& flags_;
  std::string environment_, device_;
  bench::Matrix matrix_;
  std::unique_ptr<record::Store> store_;
  record::BenchRecord record_;
  std::vector<Row> rows_;
  std::map<std::string, bench::DeviceSpeeds> speeds_;
  std::vector<std::string> speed_texts_;
  bool live_ = false;
};

int RunBench(const Flags& f, const Context& context) {
  if (f.past.Asked()) return ShowPast(f.past);
  // Before an hour of measuring, not behind it.
  for (const std::string& peer : f.against) {
    if (peer != "torch") {
      throw UsageError(
          {.what = "there is no peer `" + peer + "`", .where = "--against", .expected = "torch"});
    }
  }
  if (f.skip_exp && f.against.empty()) {
    throw UsageError({.what = "there is no peer to measure alone",
                      .where = "--only-peer",
                      .expected = "--against torch beside it"});
  }
  for (const std::string& model : f.models) models::FindInZoo(model);
  RequireWritable(f.past);
  StopSignals signals("the rows so far are kept");
  return Call(f, context, LoadMatrix(f)).Run();
}

void AddMeasuring(Command c, Flags* f) {
  c.AddOption("matrix", f->matrix, "YAML file (configs/bench/, docs/bench.md)");
  c.AddOption("--set", f->overrides, "change a key of the matrix: K=V").OneEachTime();
  c.AddOption("--model", f->models, "models to measure").SplitAt(',');
  c.AddOption("--batch", f->batches, "images a step").SplitAt(',').Range(1, 65536);
  c.AddOption("--precision", f->precisions, "of the computations")
      .SplitAt(',')
      .OneOf({"fp32", "tf32", "bf16", "fp16"});
  c.AddOption("--device", f->device, "auto, cpu, cuda or cuda:N");
  c.AddOption("--threads", f->base.threads, "CPU threads; 0: all").Range(0, 4096);
  c.AddOption("--height", f->base.height, "of the images; 0: the model's own").Range(0, 65536);
  c.AddOption("--width", f->base.width, "of the images; 0: the model's own").Range(0, 65536);
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
  c.AddFlag("--profile", f->base.profile, "also the time of each operation");
  c.AddOption("--against", f->against, "also run a peer on the same cases: torch").SplitAt(',');
  c.AddOption("--python", f->python, "the Python that has PyTorch");
  c.AddFlag("--only-peer", f->skip_exp, "with --against: the peer alone");
  c.AddOption("--label", f->label, "a name for this call, for --compare");
  c.AddFlag("--no-store", f->no_store, "keep nothing");
}

void AddPast(Command c, bench::PastOptions* p) {
  c.AddOption("--store", p->store, "folder of the store");
  c.AddOption("--compare", p->compare, "two calls side by side, with ratios: A B").Words(2);
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
  AddPast(c, &flags->past);
  c.Footer(
      "Example: exp bench configs/bench/resnet_family.yaml --html table.html\n"
      "         exp bench --model resnet50 --batch 64,128,256 --precision bf16 --against torch\n"
      "         exp bench --compare @~1 @");
  c.Callback([flags, &context] {
    flags->past.models = flags->models;
    context.exit_code = RunBench(*flags, context);
  });
}

}  // namespace xp::cli
