#include "exp/record/writer.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/record/process.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "temporary.h"

namespace fs = std::filesystem;
using namespace xp::record;

namespace {

// Starts a run in another process that writes points until it is ended; gives its pid and the run's
// id.
struct Writer {
  pid_t pid = 0;
  std::string id;
  explicit Writer(const fs::path& store) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid = ::fork();
    if (pid == 0) {
      RunWriter run(store, {.name = "child"});
      EpochRow row{.epoch = 0, .step = 1};
      row.losses = {{"total", 1.5}};
      run.Epoch(row);
      ssize_t n = ::write(ends[1], run.id().data(), 12);
      static_cast<void>(n);
      for (int64_t step = 0;; ++step) {
        run.Point("loss", step, 1.0);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    char text[12];
    REQUIRE(::read(ends[0], text, 12) == 12);
    id.assign(text, 12);
    ::close(ends[0]);
    ::close(ends[1]);
  }
};

}  // namespace

TEST_CASE("numbers come back bit for bit and JSON stays valid", "[report4][input]") {
  TemporaryFolder t;
  using L = std::numeric_limits<double>;
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                0.1,
                                L::infinity(),
                                -L::infinity(),
                                L::denorm_min(),
                                -L::denorm_min(),
                                L::max(),
                                L::lowest(),
                                L::quiet_NaN(),
                                std::bit_cast<double>(uint64_t{0x7ff8dead00000001}),
                                1e-310,
                                3.0};
  {
    RunWriter run(t.path, {.name = "numbers"});
    int series = run.Series("x");
    for (size_t i = 0; i < values.size(); ++i)
      run.Point(series, static_cast<int64_t>(i), values[i]);
    run.Point("integers", 0, int64_t{INT64_MAX});
    run.Point("integers", 1, int64_t{INT64_MIN});
    run.Point("integers", 2, FromJson(nlohmann::json(UINT64_MAX)));
    CHECK(run.End(EndState::kFinished).points_written == static_cast<int64_t>(values.size()) + 3);
  }
  Store store = Store::Open(t.path);
  std::vector<CurvePoint> points = LoadCurve(store, 1, "x");
  REQUIRE(points.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(SameBits(points[i].value, Value(values[i])));
    CHECK_NOTHROW(nlohmann::json::parse(ToJson(points[i].value).dump()));
  }
  std::vector<CurvePoint> integers = LoadCurve(store, 1, "integers");
  CHECK(integers[0].value == Value(int64_t{INT64_MAX}));
  CHECK(integers[1].value == Value(int64_t{INT64_MIN}));
  CHECK(ToJson(integers[2].value).dump() == "18446744073709551615");
  CHECK(Show(values[10]) == "NaN");
  CHECK(Show(values[4]) == "+Inf");
  CHECK(ToJson(values[10]) == "NaN");
}

TEST_CASE("any name will do; long texts and lists are whole in the store and short in tables",
          "[report5]") {
  TemporaryFolder t;
  std::vector<std::string> names = {"loss/rpn@50:95",         "точность", "a b\tc", "",
                                    std::string(100000, 'n'), "é%$\"'"};
  std::string text(1 << 20, 'x');
  nlohmann::json list = nlohmann::json::array();
  for (int i = 0; i < 100000; ++i) list.push_back(i);
  {
    RunWriter run(t.path, {.name = "names"});
    for (const std::string& name : names) run.Point(name, 0, 1.25);
    run.Point("bad \xff utf8", 0, 1.0);
    run.Point("text", 0, FromJson(text));
    run.Point("list", 0, FromJson(list));
    run.End(EndState::kFinished);
  }
  Store store = Store::Open(t.path);
  for (const std::string& name : names) CHECK(LoadCurve(store, 1, name).size() == 1);
  CHECK(LoadCurve(store, 1, "bad \xEF\xBF\xBD utf8").size() == 1);
  CHECK(ToJson(LoadCurve(store, 1, "text")[0].value).get<std::string>() == text);
  CHECK(ToJson(LoadCurve(store, 1, "list")[0].value) == list);
  CHECK(Show(LoadCurve(store, 1, "text")[0].value, 20).size() < 50);
  CHECK_THAT(Show(LoadCurve(store, 1, "text")[0].value, 20), ContainsSubstring("1048578 bytes"));
}

TEST_CASE("a killed run shows as killed, a stopped one as running", "[report1][report2]") {
  TemporaryFolder t;
  Writer child(t.path);
  Store store = Store::Open(t.path);
  CHECK(LoadRun(store, 1).state == "running");
  ::kill(child.pid, SIGSTOP);
  int status = 0;
  ::waitpid(child.pid, &status, WUNTRACED);
  Run stopped = LoadRun(store, 1);
  CHECK(stopped.state == "running");
  CHECK(stopped.reason == "paused by a signal");
  // Nobody may take it over meanwhile (report 11), and the message says who owns it.
  CHECK_THROWS_WITH(RunWriter::Resume(t.path, child.id, {}),
                    ContainsSubstring(std::to_string(child.pid)));
  ::kill(child.pid, SIGCONT);
  CHECK(LoadRun(store, 1).state == "running");
  ::kill(child.pid, SIGKILL);
  // Not reaped yet: a zombie doesn't run.
  for (int i = 0; i < 200 && LoadRun(store, 1).state == "running"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(LoadRun(store, 1).state == "killed");
  ::waitpid(child.pid, &status, 0);
  Run killed = LoadRun(store, 1);
  CHECK(killed.state == "killed");
  CHECK_THAT(killed.reason, ContainsSubstring(std::to_string(child.pid)));
  REQUIRE(killed.epochs.size() == 1);
  CHECK(killed.epochs[0].losses[0].first == "total");
}

TEST_CASE("a process is known by more than its number") {
  ProcessIdentity self = ThisProcess();
  CHECK(Probe(self) == Life::kAlive);
  ProcessIdentity reused = self;
  reused.start += 1;  // the same pid, started at another time
  CHECK(Probe(reused) == Life::kGone);
  ProcessIdentity rebooted = self;
  rebooted.boot_id = "another boot";
  CHECK(Probe(rebooted) == Life::kRebooted);
  rebooted.host = "elsewhere";
  CHECK(Probe(rebooted) == Life::kUnknown);
  ProcessIdentity inside = self;
  inside.pid_namespace += 1;
  CHECK(Probe(inside) == Life::kUnknown);
}

TEST_CASE("a resumed run goes on from its checkpoint and keeps its history", "[report11]") {
  TemporaryFolder t;
  std::string id;
  {
    RunWriter run(t.path, {.name = "r"});
    id = run.id();
    for (int64_t s = 0; s < 10; ++s) run.Point("loss", s, 1.0);
    for (int e = 0; e < 2; ++e) {
      EpochRow row{.epoch = e, .step = 4 * (e + 1)};
      row.metrics = {{"acc", 0.1 * (e + 1)}};
      run.Epoch(row);
    }
    run.End(EndState::kInterrupted, "SIGINT");
  }
  {
    auto again = RunWriter::Resume(t.path, id, {.epoch = 1, .step = 4, .checkpoint_hash = "c"});
    for (int64_t s = 4; s < 8; ++s) again->Point("loss", s, 2.0);
    EpochRow row{.epoch = 1, .step = 8};
    row.metrics = {{"acc", 0.9}};
    again->Epoch(row);
    again->End(EndState::kFinished);
  }
  Store store = Store::Open(t.path);
  Run run = LoadRun(store, 1);
  CHECK(run.state == "finished");
  REQUIRE(run.attempts.size() == 2);
  CHECK(run.attempts[0].state == "interrupted");
  REQUIRE(run.epochs.size() == 2);
  CHECK(run.epochs[0].attempt == 1);
  CHECK(run.epochs[1].attempt == 2);
  std::vector<CurvePoint> points = LoadCurve(store, 1, "loss");
  REQUIRE(points.size() == 8);  // no step twice
  for (int64_t s = 0; s < 8; ++s) {
    CHECK(points[static_cast<size_t>(s)].step == s);
    CHECK(AsDouble(points[static_cast<size_t>(s)].value) == (s < 4 ? 1.0 : 2.0));
  }
  CHECK(LoadCurve(store, 1, "loss", true).size() == 14);  // history is kept
  for (const SummaryRecord& s : run.summaries) {
    if (s.name == "loss") CHECK(s.count == 8);
    if (s.name == "acc") CHECK(AsDouble(s.last) == 0.9);
  }
  CHECK_THROWS_AS(RunWriter::Resume(t.path, "nobody", {}), xp::Error);
}

TEST_CASE("of two that resume one run, one wins and the other is told", "[report11]") {
  TemporaryFolder t;
  std::string id;
  {
    RunWriter run(t.path, {.name = "r"});
    id = run.id();
    run.End(EndState::kInterrupted);
  }
  auto one = RunWriter::Resume(t.path, id, {});
  CHECK_THROWS_WITH(RunWriter::Resume(t.path, id, {}), ContainsSubstring("owned by process"));
  one->End(EndState::kFinished);
}

TEST_CASE(
    "another process reads a point soon, and a point costs the caller well under a microsecond") {
  TemporaryFolder t;
  RunWriter run(t.path, {.name = "fast"});
  run.Point("x", 0, 1.0);
  Store store = Store::Open(t.path);
  auto start = std::chrono::steady_clock::now();
  while (LoadCurve(store, 1, "x").empty() &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(LoadCurve(store, 1, "x").size() == 1);
  int series = run.Series("y");
  std::vector<int64_t> nanoseconds;
  for (int i = 0; i < 20000; ++i) {
    auto before = std::chrono::steady_clock::now();
    run.Point(series, i, 0.5);
    nanoseconds.push_back((std::chrono::steady_clock::now() - before).count());
  }
  std::nth_element(nanoseconds.begin(), nanoseconds.begin() + 10000, nanoseconds.end());
  INFO("median " << nanoseconds[10000] << " ns");
  CHECK(nanoseconds[10000] < 1000);
  WriteReport report = run.End(EndState::kFinished);
  CHECK(report.points_written == 20001);
  CHECK(report.points_lost == 0);
  CHECK(report.end_written);
  CHECK(run.End(EndState::kFailed).points_written == 20001);  // the first end counts
  CHECK(LoadRun(store, 1).state == "finished");
}

TEST_CASE("texts are cleaned before they are queued, and what was found is recorded",
          "[report10]") {
  TemporaryFolder t;
  WriterOptions options;
  options.clean = [](const std::string& text, const std::string& key, const std::string&) {
    if (key == "password") return std::string("[gone]");
    std::string out = text;
    for (size_t at; (at = out.find("s3cret")) != std::string::npos;) out.replace(at, 6, "[gone]");
    return out;
  };
  options.redactions = [] { return std::string(R"([{"kind":"k","place":"p"}])"); };
  {
    RunWriter run(t.path, {.name = "x", .redactions_json = R"([{"kind":"a","place":"b"}])"},
                  options);
    run.Point("name s3cret", 0, 1.0);
    run.Point("name s3cret", 1, 2.0);
    run.Point("text", 0,
              FromJson(nlohmann::json{{"a", "is s3cret"}, {"password", "x"}, {"s3cret", 1}}));
    EpochRow row{.epoch = 0, .step = 2};
    row.metrics = {{"m s3cret", FromJson(nlohmann::json("s3cret"))}};
    run.Epoch(row);
    run.Checkpoint({"/x/s3cret.pth", "h", 0, 2, 1});
    run.Warning("s3cret", "a s3cret warning");
    run.Start(R"({"x":"s3cret"})", "cpu");
    run.End(EndState::kFailed, "because of s3cret");
  }
  Store store = Store::Open(t.path);
  Run run = LoadRun(store, 1);
  CHECK(run.reason == "because of [gone]");
  CHECK(LoadCurve(store, 1, "name [gone]").size() == 2);
  CHECK(ToJson(LoadCurve(store, 1, "text")[0].value).dump() ==
        R"({"[gone]":1,"a":"is [gone]","password":"[gone]"})");
  CHECK(run.epochs[0].metrics[0].first == "m [gone]");
  CHECK(run.checkpoints[0].path == "/x/[gone].pth");
  CHECK(run.warnings[0].message == "a [gone] warning");
  CHECK(run.redactions_json == R"([{"kind":"a","place":"b"},{"kind":"k","place":"p"}])");
}

TEST_CASE("a resumer that chose its checkpoint before another one went on is told") {
  TemporaryFolder t;
  std::string id;
  {
    RunWriter run(t.path, {.name = "a"});
    id = run.id();
    run.End(EndState::kInterrupted);
  }
  RunWriter::Resume(t.path, id, {.attempts = 1})->End(EndState::kInterrupted);
  CHECK_THROWS_WITH(RunWriter::Resume(t.path, id, {.attempts = 1}),
                    ContainsSubstring("another process has gone on with run " + id + " meanwhile"));
  Store store = Store::Open(t.path);
  CHECK(LoadRun(store, ResolveRun(store, id)).attempts.size() == 2);
  RunWriter::Resume(t.path, id, {.attempts = 2})->End(EndState::kFinished);
}

TEST_CASE(
    "a run that wants its config or its work_dir alone begins only where no living run has it") {
  TemporaryFolder t;
  const RunInfo info{.name = "a", .kind = "train", .work_dir = "/w", .config_hash = "c"};
  RunInfo config = info, folder = info, other = info;
  config.sole_config = folder.sole_work_dir = other.sole_config = other.sole_work_dir = true;
  other.work_dir = "/w2";
  other.config_hash = "c2";
  RunWriter first(t.path, info);
  CHECK_THROWS_WITH(RunWriter(t.path, config),
                    ContainsSubstring("run " + first.id() + " of this config is owned by"));
  CHECK_THROWS_WITH(RunWriter(t.path, folder),
                    ContainsSubstring("/w: run " + first.id() + " writes its checkpoints there"));
  RunWriter beside(t.path, other);
  beside.End(EndState::kInterrupted);
  const ResumePoint from{.sole_work_dir = true};
  RunWriter::Resume(t.path, beside.id(), from)->End(EndState::kInterrupted);
  RunWriter again(t.path, info);  // who doesn't ask may
  again.End(EndState::kInterrupted);
  CHECK_THROWS_WITH(RunWriter::Resume(t.path, again.id(), from),
                    ContainsSubstring("/w: run " + first.id() + " writes"));
  Store store = Store::Open(t.path);
  CHECK(ListRuns(store, {}).size() == 3);  // what was refused left nothing
  first.End(EndState::kFinished);
  RunWriter(t.path, config).End(EndState::kFinished);
  RunWriter(t.path, folder).End(EndState::kFinished);
}

TEST_CASE("a run that nobody ends is recorded as failed") {
  TemporaryFolder t;
  { RunWriter run(t.path, {.name = "x"}); }
  Run run = LoadRun(Store::Open(t.path), 1);
  CHECK(run.state == "failed");
  CHECK_FALSE(run.reason.empty());
}
