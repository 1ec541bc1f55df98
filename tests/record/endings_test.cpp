// Kills, full disks and failing writes: what is left must be whole. EXP_LONG_TESTS=1 tries every
// write and many more kills.
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/record/maintain.h"
#include "exp/record/query.h"
#include "exp/record/reader.h"
#include "exp/record/writer.h"
#include "fault_vfs.h"
#include "temporary.h"

namespace fs = std::filesystem;
using namespace xp::record;

namespace {

bool Long() { return std::getenv("EXP_LONG_TESTS") != nullptr; }

int64_t Number(const Store& store, const std::string& sql) {
  return std::get<int64_t>(*Query(store, sql).rows.at(0).at(0));
}

struct Progress {
  std::atomic<int64_t> points, epochs;
  std::atomic<bool> began;
};

Progress* Shared() {
  void* p =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(p != MAP_FAILED);
  return new (p) Progress{};
}

[[noreturn]] void WriteForEver(const fs::path& store, Progress* progress, int pause_micros) {
  RunWriter run(store, {.name = "victim"});
  progress->began = true;
  int series = run.Series("loss");
  for (int64_t step = 0;; ++step) {
    run.Point(series, step, static_cast<double>(step));
    progress->points = step + 1;
    if (step % 50 == 49) {
      EpochRow row{.epoch = static_cast<int>(step / 50), .step = step + 1};
      run.Epoch(row);
      progress->epochs = step / 50 + 1;
    }
    if (pause_micros > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_micros));
  }
}

}  // namespace

TEST_CASE("killed at random points: the store is whole, ended epochs are there, states are right",
          "[kill]") {
  TemporaryFolder t;
  std::mt19937 random(1);
  int kills = Long() ? 1000 : 200;
  Progress* progress = Shared();
  int64_t runs = 0;
  double window_us = 30000;  // grows on a machine too busy to begin a run in that time
  for (int k = 0; k < kills; ++k) {
    progress->points = progress->epochs = 0;
    progress->began = false;
    pid_t pid = ::fork();
    if (pid == 0) WriteForEver(t.path, progress, 0);
    auto moment = static_cast<int64_t>(static_cast<double>(random()) / 4294967296.0 * window_us);
    std::this_thread::sleep_for(std::chrono::microseconds(moment));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    if (!progress->began && window_us < 2e6) window_us *= 1.02;
    int64_t acknowledged = progress->epochs;
    if (!fs::exists(t.path / "exp.db")) continue;
    Store store = Store::Open(t.path);
    int64_t now = Number(store, "SELECT count(*) FROM run");
    if (progress->began) CHECK(now == runs + 1);
    if (now == runs) continue;  // killed before its row was there
    runs = now;
    CHECK(ListRuns(store, {.limit = 1})[0].state == "killed");
    std::string seq = std::to_string(now);
    int64_t epochs = Number(store, "SELECT count(*) FROM live_epoch WHERE run=" + seq);
    CHECK(epochs >= acknowledged);
    CHECK(epochs <= acknowledged + 1);
    // A prefix of what was written, without a hole.
    QueryResult q =
        Query(store,
              "SELECT count(*), coalesce(max(p.step)+1,0), coalesce(sum(p.value=p.step),0) FROM "
              "point p JOIN series s ON s.id=p.series JOIN attempt a ON a.id=s.attempt "
              "WHERE a.run=" +
                  seq);
    CHECK(q.rows[0][0] == q.rows[0][1]);
    CHECK(q.rows[0][0] == q.rows[0][2]);
    CHECK(std::get<int64_t>(*q.rows[0][0]) >= acknowledged * 50);
  }
  Store store = Store::Open(t.path);
  CHECK(runs > 0);
  CHECK(VerifyStore(store, false).problems.empty());
  CHECK(Number(store, "SELECT count(*) FROM run WHERE run_state(seq)='killed'") == runs);
  CHECK(CollectGarbage(store, false).closed == runs);
}

TEST_CASE("no point older than a second is lost to a kill", "[kill]") {
  TemporaryFolder t;
  Progress* progress = Shared();
  for (int k = 0; k < (Long() ? 20 : 2); ++k) {
    progress->points = 0;
    pid_t pid = ::fork();
    if (pid == 0) WriteForEver(t.path, progress, 200);
    while (progress->points < 100) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(500 + 97 * k));
    int64_t then = progress->points;
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    Store store = Store::Open(t.path);
    int64_t kept = static_cast<int64_t>(LoadCurve(store, k + 1, "loss").size());
    INFO(then << " points were a second old, " << kept << " are there of " << progress->points);
    CHECK(kept >= then);
  }
}

TEST_CASE("a full disk: the caller goes on, the loss is stated, the store is readable",
          "[report13]") {
  TemporaryFolder t;
  if (::mount("tmpfs", t.path.c_str(), "tmpfs", 0, "size=6m") != 0) {
    WARN("no tmpfs can be mounted here (needs root): skipped");
    return;
  }
  constexpr int64_t kPoints = 400000;
  WriteReport report;
  std::atomic<int> problems{0};
  double slowest = 0;
  {
    WriterOptions options;
    options.patience_millis = 300;
    options.on_problem = [&](const std::string& text) {
      if (text.find("full") != std::string::npos) ++problems;
    };
    RunWriter run(t.path / ".exp", {.name = "full"}, options);
    int series = run.Series("loss");
    for (int64_t s = 0; s < kPoints; ++s) {
      auto before = std::chrono::steady_clock::now();
      run.Point(series, s, 0.25);
      if (s % 100000 == 0) run.Epoch(EpochRow{.epoch = static_cast<int>(s / 100000), .step = s});
      slowest = std::max(
          slowest,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
    }
    report = run.End(EndState::kFinished);
  }
  CHECK(problems >= 1);
  CHECK(report.points_lost > 0);
  CHECK(report.points_written + report.points_lost == kPoints);
  CHECK(report.end_written);
  CHECK(slowest < 3);
  {
    Store store = Store::Open(t.path / ".exp");
    Run run = LoadRun(store, 1);
    CHECK(run.state == "finished");
    CHECK(run.attempts[0].lost_points == report.points_lost);
    CHECK(Number(store, "SELECT count(*) FROM point") == report.points_written);
    CHECK(VerifyStore(store, false).problems.empty());
  }
  ::umount(t.path.c_str());
}

TEST_CASE("each write of a run may fail: the store stays whole and holds a prefix", "[fault]") {
  TemporaryFolder t;
  FaultVfs vfs;
  constexpr int kEpochs = 3, kSteps = 20;
  auto record = [&](const fs::path& store, WriteReport& report) {
    WriterOptions options;
    options.patience_millis = 0;
    RunWriter run(
        store,
        {.name = "r", .config_json = "{}", .objects = {{"file", std::string(9000, 'o'), ""}}},
        options);
    for (int e = 0; e < kEpochs; ++e) {
      for (int s = 0; s < kSteps; ++s) run.Point("loss", e * kSteps + s, s);
      run.Epoch(EpochRow{.epoch = e, .step = (e + 1) * kSteps});
    }
    report = run.End(EndState::kFinished);
  };
  WriteReport report;
  record(t.path / "whole", report);
  int writes = vfs.count();
  REQUIRE(writes > 50);
  int tried = 0;
  for (FaultVfs::Mode mode :
       {FaultVfs::Mode::kOnce, FaultVfs::Mode::kFull, FaultVfs::Mode::kPowerCut}) {
    for (int n = 1; n <= writes; n += Long() ? 1 : 1 + static_cast<int>(mode) + n / 40) {
      fs::path folder = t.path / "s";
      fs::remove_all(folder);
      report = {};
      bool began = true;
      vfs.Arm(mode, n);
      try {
        record(folder, report);
      } catch (const xp::Error&) {
        began = false;  // it said so; nothing ran
      }
      vfs.Arm(FaultVfs::Mode::kOnce, 0);
      ++tried;
      INFO("mode " << static_cast<int>(mode) << ", write " << n);
      if (!fs::exists(folder / "exp.db")) continue;
      // Nor did this file, which comes after the first commit and not through SQLite, reach the
      // disk.
      if (mode == FaultVfs::Mode::kPowerCut && fs::file_size(folder / "exp.db") == 0)
        fs::remove(folder / "reserve");
      Store store = Store::OpenOrCreate(folder);
      CHECK(VerifyStore(store, false).problems.empty());
      int64_t runs = Number(store, "SELECT count(*) FROM run");
      CHECK(runs <= 1);
      QueryResult q = Query(store, "SELECT count(*), coalesce(max(step)+1,0) FROM point");
      CHECK(q.rows[0][0] == q.rows[0][1]);
      int64_t points = std::get<int64_t>(*q.rows[0][0]);
      int64_t epochs = Number(store, "SELECT count(*) FROM epoch");
      CHECK(points >= epochs * kSteps);
      if (mode == FaultVfs::Mode::kOnce && began) {
        CHECK(points == kEpochs * kSteps);  // a passing trouble loses nothing
        CHECK(report.points_lost == 0);
        CHECK(epochs == kEpochs);
      }
      if (mode == FaultVfs::Mode::kFull && began) {
        CHECK(report.points_written == points);
        CHECK(report.points_written + report.points_lost == kEpochs * kSteps);
      }
    }
  }
  CHECK(tried > 50);
}

TEST_CASE("eight writers of ten thousand points with readers: exact counts, nobody waits long",
          "[many]") {
  TemporaryFolder t;
  { Store::OpenOrCreate(t.path); }
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    pid_t pid = ::fork();
    if (pid == 0) {
      int code = 1;
      try {
        RunWriter run(t.path, {.name = "w" + std::to_string(i)});
        double slowest = 0;
        for (int s = 0; s < 10000; ++s) {
          auto before = std::chrono::steady_clock::now();
          run.Point("loss", s, 1.0);
          slowest = std::max(
              slowest,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
          if (s % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        WriteReport report = run.End(EndState::kFinished);
        code = report.points_written != 10000 ? 2 : slowest > 1 ? 3 : 0;
      } catch (const std::exception&) {
      }
      ::_exit(code);
    }
    children.push_back(pid);
  }
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      Store store = Store::Open(t.path);
      ListRuns(store, {.keys = {"step.loss"}});
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  for (pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  stop = true;
  reader.join();
  Store store = Store::Open(t.path);
  CHECK(Number(store, "SELECT count(*) FROM point") == 80000);
  CHECK(Number(store, "SELECT count(*) FROM run WHERE run_state(seq)='finished'") == 8);
}
