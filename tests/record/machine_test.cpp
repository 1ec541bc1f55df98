// Reports of doctor and results of bench in the store.
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/record/bench_store.h"
#include "exp/record/machine.h"
#include "exp/record/maintain.h"
#include "exp/record/reader.h"
#include "exp/record/writer.h"
#include "record/temporary.h"

namespace xp::record {
namespace {

std::string Environment(const std::string& host, const std::string& uuid) {
  nlohmann::json e = {{"os", {{"host", host}, {"glibc", "2.36"}}}, {"cpu", {{"model", "Xeon"}}}};
  if (!uuid.empty()) e["gpu"] = {{"devices", {{{"uuid", uuid}}}}};
  return e.dump();
}

DoctorReport Report(const std::string& environment, const std::string& level,
                    const std::string& found) {
  DoctorReport r;
  r.level = level;
  r.environment_json = environment;
  nlohmann::json finding = {{"id", "driver"}, {"level", level}, {"found", found}};
  nlohmann::json speed = {{"id", "disk.read"}, {"level", "ok"}, {"found", found + " MB/s"}};
  r.report_json = nlohmann::json{{"findings", {finding, speed}}}.dump();
  return r;
}

std::string MakeRun(const std::filesystem::path& folder, const std::string& name,
                    const std::string& environment) {
  RunInfo info;
  info.name = name;
  info.kind = "library";
  info.environment_json = environment;
  RunWriter writer(folder, info, {});
  writer.End(EndState::kFinished, "");
  return writer.id();
}

TEST_CASE("a machine is its GPUs, or host and CPU without one") {
  CHECK(MachineIdentity(Environment("a", "GPU-1")) == MachineIdentity(Environment("b", "GPU-1")));
  CHECK(MachineIdentity(Environment("a", "GPU-1")) != MachineIdentity(Environment("a", "GPU-2")));
  CHECK(MachineIdentity(Environment("a", "")) != MachineIdentity(Environment("b", "")));
  CHECK(MachineIdentity("").empty());
  CHECK(MachineIdentity("{\"os\": 3}").empty());
}

TEST_CASE("a run belongs to the newest report of its machine before it") {
  TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path / "store";
  std::string here = Environment("a", "GPU-1"), there = Environment("b", "GPU-2");
  Store store = Store::OpenOrCreate(folder);
  SaveDoctorReport(store, Report(here, "ok", "driver 1"));
  int64_t second = SaveDoctorReport(store, Report(here, "warning", "driver 2"));
  SaveDoctorReport(store, Report(there, "error", "driver 3"));
  std::string first_run = MakeRun(folder, "first", here);
  SaveDoctorReport(store, Report(here, "ok", "driver 4"));
  std::string other_run = MakeRun(folder, "other", there);
  std::string third_run = MakeRun(folder, "third", Environment("c", ""));

  Run a = LoadRun(store, ResolveRun(store, first_run)),
      b = LoadRun(store, ResolveRun(store, other_run)),
      c = LoadRun(store, ResolveRun(store, third_run));
  auto report = FindDoctorReport(store, a);
  REQUIRE(report);
  CHECK(report->id == second);
  CHECK(report->level == "warning");
  CHECK(report->host == "a");
  CHECK(nlohmann::json::parse(report->environment_json)["os"]["glibc"] == "2.36");
  CHECK_FALSE(FindDoctorReport(store, c));

  std::vector<Difference> differences;
  DiffMachines(store, {a, b}, differences);
  REQUIRE(differences.size() == 1);  // another read speed that is fine as well is no difference
  CHECK(differences[0].section == "machine");
  CHECK(differences[0].name == "driver");
  CHECK(differences[0].values == std::vector<std::string>{"warning: driver 2", "error: driver 3"});
  CHECK(differences[0].weight == 3);
  differences.clear();
  DiffMachines(store, {a, c}, differences);
  CHECK(differences.empty());
  bool listed = false;
  for (const Difference& d : DiffRuns(store, {a, b})) listed |= d.section == "machine";
  CHECK(listed);
}

TEST_CASE("a report of another driver than the run's says so") {
  TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path / "store";
  auto with_driver = [](const std::string& driver) {
    nlohmann::json e = nlohmann::json::parse(Environment("a", "GPU-1"));
    e["gpu"]["driver"] = driver;
    return e.dump();
  };
  Store store = Store::OpenOrCreate(folder);
  int64_t id = SaveDoctorReport(store, Report(with_driver("550.54.14"), "ok", "x"));
  auto run = [&](const std::string& name, const std::string& environment) {
    return LoadRun(store, ResolveRun(store, MakeRun(folder, name, environment)));
  };
  Run before = run("before", with_driver("550.54.14")),
      after = run("after", with_driver("580.159.03")),
      silent = run("silent", Environment("a", "GPU-1"));
  auto report = FindDoctorReport(store, after);
  REQUIRE(report);
  CHECK(OtherState(*report, after) == "driver 550.54.14 (the run: 580.159.03)");
  CHECK(OtherState(*report, before).empty());
  CHECK(OtherState(*report, silent).empty());  // it tells no driver
  std::vector<Difference> differences;
  DiffMachines(store, {before, silent}, differences);
  CHECK(differences.empty());
  DiffMachines(store, {before, after}, differences);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].section == "machine");
  CHECK(differences[0].name == "report");
  const std::string name = "report " + std::to_string(id);
  CHECK(differences[0].values ==
        std::vector<std::string>{name, name + " is of driver 550.54.14 (the run: 580.159.03)"});
}

TEST_CASE("of a power limit the limit is compared, not what is drawn") {
  auto power = [](const std::string& found) {
    DoctorReport r;
    nlohmann::json finding = {{"id", "gpu.0.power"}, {"level", "warning"}, {"found", found}};
    r.report_json = nlohmann::json{{"findings", {finding, finding}}}.dump();
    return r;
  };
  DoctorReport a = power("limit 350 W, default 700 W, drawing 76 W"),
               b = power("limit 350 W, default 700 W, drawing 81 W"),
               c = power("limit 500 W, default 700 W, drawing 76 W");
  CHECK(DiffReports({&a, &b}).empty());
  CHECK(DiffReports({&a, &c}).size() == 1);
}

TEST_CASE("a report that was interrupted belongs to no run, and what it lacks is no difference") {
  TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path / "store";
  std::string here = Environment("a", "GPU-1");
  Store store = Store::OpenOrCreate(folder);
  auto row = [](const std::string& id, const std::string& group, const std::string& found) {
    return nlohmann::json{{"id", id}, {"group", group}, {"level", "ok"}, {"found", found}};
  };
  auto array = [](const std::vector<nlohmann::json>& rows) { return nlohmann::json(rows); };
  auto report = [&](const nlohmann::json& findings, bool interrupted) {
    DoctorReport r;
    r.level = "ok";
    r.environment_json = here;
    nlohmann::json all = {{"findings", findings}};
    if (interrupted) all["interrupted"] = true;
    r.report_json = all.dump();
    return r;
  };
  const nlohmann::json driver = row("driver", "versions", "1"),
                       power = row("gpu.0.power", "health", "700 W"),
                       pcie = row("gpu.0.pcie", "health", "x16"),
                       conv = row("smoke.conv", "smoke", "same"),
                       read = row("disk.read", "speed", "1 MB/s");
  int64_t whole = SaveDoctorReport(store, report(array({driver, power, pcie, conv, read}), false));
  SaveDoctorReport(store, report(array({row("driver", "versions", "2")}), true));
  std::string run = MakeRun(folder, "r", here);
  SaveDoctorReport(store, report(array({driver}), true));
  auto found = FindDoctorReport(store, LoadRun(store, ResolveRun(store, run)));
  REQUIRE(found);
  CHECK(found->id == whole);
  CHECK_FALSE(found->interrupted);
  std::vector<DoctorReport> all = ListDoctorReports(store);
  REQUIRE(all.size() == 3);
  CHECK(all[0].interrupted);
  CHECK(all[1].interrupted);
  // One with another driver differs in that alone.
  std::vector<Difference> differences = DiffReports({&all[2], &all[1]});
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].name == "driver");
  CHECK(DiffReports({&all[2], &all[0]}).empty());
  // So is it with `--look`, but for what a look does look for: here the card is gone.
  DoctorReport look = report(array({driver, power}), false), less = report(array({driver}), false);
  CHECK(DiffReports({&all[2], &look}).empty());
  differences = DiffReports({&all[2], &less});
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].name == "gpu.0.power");
  // A damaged report is listed and isn't taken for an interrupted one.
  look.report_json = "{\"interrupted\": tr";
  SaveDoctorReport(store, look);
  CHECK_FALSE(ListDoctorReports(store)[0].interrupted);
}

TEST_CASE("the first report after a run counts when there is none before") {
  TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path / "store";
  std::string here = Environment("a", "GPU-1");
  std::string run = MakeRun(folder, "r", here);
  Store store = Store::Open(folder);
  int64_t id = SaveDoctorReport(store, Report(here, "ok", "x"));
  SaveDoctorReport(store, Report(here, "ok", "y"));
  auto report = FindDoctorReport(store, LoadRun(store, ResolveRun(store, run)));
  REQUIRE(report);
  CHECK(report->id == id);
}

TEST_CASE("calls of bench and their rows; gc keeps their environments") {
  TemporaryFolder temporary;
  Store store = Store::OpenOrCreate(temporary.path / "store");
  BenchRecord r;
  r.label = "before";
  r.environment_json = Environment("a", "GPU-1");
  BenchRecord first = BeginBench(store, r);
  r.label = "after";
  BenchRecord second = BeginBench(store, r);
  CHECK(first.name.size() == 8);
  CHECK(first.host == "a");
  BenchRow row;
  row.model = "resnet50";
  row.batch = 64;
  row.status = "ok";
  row.images_per_second = 123.5;
  row.milliseconds = 10;
  row.bytes = 1 << 30;
  row.result_json = "{\"a\":1}";
  AddBenchRow(store, first.id, 0, row);
  row.status = "mem lim";
  row.images_per_second = row.milliseconds = 0;
  row.reason = "too much \xff";
  AddBenchRow(store, first.id, 1, row);
  SetBenchDevice(store, first.id, "H200", "{\"x\":{}}");
  CollectGarbage(store, false);

  CHECK(FindBench(store, "@").id == second.id);
  CHECK(FindBench(store, "@~1").id == first.id);
  CHECK(FindBench(store, "before").id == first.id);
  CHECK(FindBench(store, first.name.substr(0, 7)).id == first.id);
  BenchRecord loaded = FindBench(store, first.name);
  CHECK(loaded.device == "H200");
  CHECK(loaded.environment_json == r.environment_json);
  for (const char* bad : {"", "@~2", "@x", "@~", "zzz", "@~99999999999999999999"}) {
    CHECK_THROWS_AS(FindBench(store, bad), Error);
  }
  std::vector<BenchRow> rows = LoadBenchRows(store, first.id);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].images_per_second == 123.5);
  CHECK(rows[0].bytes == 1 << 30);
  CHECK(rows[1].status == "mem lim");
  CHECK(LoadBenchRows(store, second.id).empty());
  CHECK(ListBenches(store).size() == 2);
}

}  // namespace
}  // namespace xp::record
