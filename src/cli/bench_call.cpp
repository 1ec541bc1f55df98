#include "src/cli/bench_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/json_text.h"
#include "exp/bench/report.h"
#include "exp/bench/throughput.h"
#include "exp/config/canonical.h"
#include "exp/record/machine.h"
#include "src/cli/bench_facts.h"
#include "src/cli/machine_environment.h"
#include "src/cli/signals.h"
#include "src/cli/store_place.h"
#include "src/cli/tell.h"
#include "src/cli/terminal.h"

namespace xp::cli {

using bench::Case;
using bench::Row;
using bench::Status;

record::BenchRecord FindBenchToContinue(const std::string& store, const std::string& selector) {
  record::BenchRecord record = record::FindBench(record::OpenFoundStore(store), selector);
  std::string differences;
  for (const bench::Difference& d : bench::Differences(StateFacts(record.environment_json),
                                                       StateFacts(MachineEnvironment(false)))) {
    differences +=
        fmt::format("{}{}: {} there, {} here", differences.empty() ? "" : "; ", d.name, d.a, d.b);
  }
  if (differences.empty()) return record;
  throw UsageError(
      {.what = "call " + record.name + " can't be continued: " + differences,
       .where = "--continue",
       .expected = "the machine, driver, libraries and program that it was begun with",
       .next = "measure the matrix anew; `exp bench --compare` puts both side by side"});
}

config::Resolved MatrixOf(const record::BenchRecord& record) {
  config::LoadOptions options;
  options.schema_keys = false;
  return config::LoadText(record.matrix_json, "the matrix of call " + record.name, {}, options);
}

BenchCall::BenchCall(const BenchCallOptions& options, const std::vector<std::string>& command,
                     const config::Resolved& matrix, const record::BenchRecord* continued)
    : options_(options),
      begun_ns_(bench::NowNs()),
      nvml_(snapshot::Nvml::Shared()),
      environment_(MachineEnvironment(false)),
      matrix_(bench::ReadMatrix(matrix.root, Case{})),
      series_(&StopSignals::flag()) {
  if (continued != nullptr) {
    Continue(*continued);
  } else if (!options.no_store) {
    OpenStore(command, matrix);
  }
  if (continued == nullptr) {  // also of a call that isn't stored
    record_.environment_json = environment_;
    record_.machine = record::MachineIdentity(environment_);
    record_.host = TextAt(nlohmann::json::parse(environment_, nullptr, false), "/os/host");
  }
  live_ = !options.past.json && IsTerminal(STDERR_FILENO);
  if (options.past.json) return;
  Say("{}\n", bench::HeadLine());
  for (const Row& row : rows_) {
    if (row.status != Status::kFailed) Print(row);
  }
}

void BenchCall::OpenStore(const std::vector<std::string>& command, const config::Resolved& matrix) {
  try {
    store_ = std::make_unique<record::Store>(
        record::Store::OpenOrCreate(StoreToWrite(options_.past.store)));
    record::BenchRecord r;
    r.label = options_.label;
    r.command_json =
        nlohmann::json(command).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    r.matrix_json = config::CanonicalJson(matrix.root);
    r.environment_json = environment_;
    record_ = record::BeginBench(*store_, r);
  } catch (const Error& e) {
    store_.reset();
    PrintNotStored("the results aren't stored", e);
  }
}

// What failed is measured again, in its old place.
void BenchCall::Continue(const record::BenchRecord& record) {
  record_ = record;
  store_ = std::make_unique<record::Store>(record::OpenFoundStore(options_.past.store));
  store_->RequireWritable();
  rows_ = RowsOf(*store_, record);
  earlier_ = bench::EarlierRows(rows_);
  speeds_ = bench::SpeedsFromJson(record.speeds_json);
  device_ = record.device;
  const std::string machine = record::MachineIdentity(environment_);
  if (machine != record.machine) other_machine_ = machine;
  if (options_.past.json) return;
  Say("continues {}{}: {} rows are there\n", record.name,
      record.label.empty() ? "" : " (" + record.label + ")", rows_.size());
}

int BenchCall::Run() {
  bool stopped = false;
  try {
    if (!options_.skip_exp) MeasureExp();
    if (options_.torch) MeasurePeer();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kInterrupted) throw;
    stopped = true;
  }
  Finish();
  if (stopped && store_ && !options_.past.json) {
    Say("`exp bench --continue {}` measures the rest\n", record_.name);
  }
  if (stopped) return 130;
  bool failed = std::any_of(rows_.begin(), rows_.end(),
                            [](const Row& r) { return r.status == Status::kFailed; });
  return failed ? 1 : 0;
}

std::vector<BenchCall::Planned> BenchCall::Plan() {
  std::vector<Planned> plan;
  for (const Case& c : matrix_.cases) {
    plan.push_back({c, [this, c] { return series_.Measure(c); }});
  }
  for (const Case& c : matrix_.largest) {
    plan.push_back(
        {c, [this, c] { return series_.MeasureLargest(c, matrix_.largest_batch_limit); }});
  }
  PlanFromJpegs(&plan);
  return plan;
}

// The JPEGs of a part are shared by its cases.
void BenchCall::PlanFromJpegs(std::vector<Planned>* plan) {
  auto add = [&](const std::vector<Case>& cases, const auto& part, auto measure) {
    const std::shared_ptr<bench::Photos> photos = bench::OpenPhotos(part);
    for (const Case& c : cases) {
      plan->push_back({c, [photos, measure, c, &part] {
                         return measure(c, part, *photos, &StopSignals::flag());
                       }});
    }
  };
  add(matrix_.loader, matrix_.loader_part, bench::MeasureLoader);
  add(matrix_.end_to_end, matrix_.end_to_end_part, bench::MeasureEndToEnd);
}

void BenchCall::MeasureExp() {
  for (const Planned& planned : Plan()) {
    size_t position = rows_.size();
    if (IsThere(planned.c, &position)) {
      if (planned.c.kind == "step") series_.Know(rows_[position]);
      continue;
    }
    Announce(planned.c);
    Put(planned.measure(), position);
  }
}

void BenchCall::MeasurePeer() {
  std::vector<Case> cases;
  std::vector<size_t> positions;
  size_t next = rows_.size();
  for (const Case& c : bench::TorchCases(matrix_)) {
    size_t position = next;
    if (IsThere(c, &position)) continue;
    next += position == next ? 1 : 0;
    cases.push_back(c);
    positions.push_back(position);
  }
  if (cases.empty()) return;
  Announce(cases.front());
  size_t measured = 0;
  bench::MeasureTorch(
      options_.python, cases, [&](const Row& row) { Put(row, positions[measured++]); },
      &StopSignals::flag());
}

// Whether a continued call has the row, and where; also where one that failed has its place.
bool BenchCall::IsThere(const Case& c, size_t* position) {
  std::optional<size_t> found = earlier_.Take(c);
  if (!found) return false;
  *position = *found;
  return rows_[*found].status != Status::kFailed;
}

void BenchCall::Announce(const Case& c) const {
  if (!live_) return;
  Tell("{}... {} {} {} {} {}", kClearLine, c.kind, c.model, c.batch, c.precision, bench::Mode(c));
}

void BenchCall::Put(Row row, size_t position) {
  // One that answers another case, too ("measured once, above") may be of an earlier attempt.
  if (row.measured_ns >= begun_ns_) {
    row.machine = other_machine_;
    CompareWithDevice(&row);
  }
  const bool again = position < rows_.size();
  Store(row, position, again);
  if (device_.empty() && row.c.kind == "step") device_ = row.device;
  StoreDevice();
  if (live_) TellText(kClearLine);
  if (!options_.past.json) Print(row);
  if (again) {
    rows_[position] = std::move(row);
  } else {
    rows_.push_back(std::move(row));
  }
}

void BenchCall::Print(const Row& row) const {
  Say("{}\n", bench::RowLine(row));
  if (!row.profile.empty()) SayText(bench::ProfileText(row));
}

// What can't be stored any more (a full disk) is measured and shown all the same.
template <class Body>
void BenchCall::Storing(Body body) {
  if (!store_) return;
  try {
    body();
  } catch (const Error& e) {
    store_.reset();
    PrintNotStored("from here on the results aren't stored", e);
  }
}

void BenchCall::Store(const Row& row, size_t position, bool again) {
  Storing([&] {
    record::BenchRow r;
    r.program = row.c.program, r.kind = row.c.kind, r.model = row.c.model;
    r.batch = row.c.batch, r.precision = row.c.precision, r.device = row.c.device;
    r.mode = bench::Mode(row.c), r.status = bench::StatusText(row.status), r.reason = row.reason;
    r.images_per_second = row.images_per_second, r.milliseconds = row.milliseconds;
    r.spread = row.spread, r.watts = row.watts, r.bytes = static_cast<int64_t>(row.bytes);
    r.throttled = fmt::format("{}", fmt::join(row.throttled, ", "));
    r.result_json = bench::RowJson(row);
    auto put = again ? record::ReplaceBenchRow : record::AddBenchRow;
    put(*store_, record_.id, static_cast<int>(position), r);
  });
}

// With each row: a call that is killed shall say what it ran on, too.
void BenchCall::StoreDevice() {
  record_.device = device_;
  record_.speeds_json = bench::SpeedsJson(speeds_);
  Storing([&] { record::SetBenchDevice(*store_, record_.id, device_, record_.speeds_json); });
}

// The device's own speeds are measured once for each precision that came to run.
void BenchCall::CompareWithDevice(Row* row) {
  bool step = row->c.kind != "loader" && row->status == Status::kOk && row->c.program == "exp";
  if (!step) return;
  std::string key = row->c.device + " " + row->c.precision;
  if (!other_machine_.empty()) key += " on " + other_machine_;
  auto found = speeds_.find(key);
  if (found == speeds_.end()) found = speeds_.emplace(key, bench::SpeedsFor(row->c)).first;
  bench::CompareWithSpeeds(found->second, row);
}

void BenchCall::Finish() {
  if (options_.past.json) {
    Say("{}\n", BenchJson(record_, rows_));
  } else {
    for (const auto& [key, s] : speeds_) Say("{}: {}\n", key, bench::SpeedsText(s));
    if (store_) Say("stored as {} in {}\n", record_.name, store_->folder().string());
  }
  WriteBenchFiles(CallOf(record_, rows_), record_.device, options_.past);
}

}  // namespace xp::cli
