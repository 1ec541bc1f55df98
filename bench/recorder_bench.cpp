// Measures the recorder: prints one JSON object. bench/recorder.sh runs it beside its peers.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>
#include <vector>

#include "exp/record/reader.h"
#include "exp/record/writer.h"

namespace fs = std::filesystem;
using namespace xp::record;
using Clock = std::chrono::steady_clock;

namespace {

double Since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

double Processor() {
  timespec t;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

uintmax_t FolderBytes(const fs::path& folder) {
  uintmax_t bytes = 0;
  for (const auto& f : fs::directory_iterator(folder)) {
    if (f.path().filename().string().rfind("exp.db", 0) == 0) bytes += f.file_size();
  }
  return bytes;
}

void Caller(const fs::path& dir, int64_t points) {
  std::vector<int64_t> ns;
  ns.reserve(static_cast<size_t>(points));
  Clock::time_point start = Clock::now();
  double used = 0;  // by all threads
  {
    RunWriter run(dir, {.name = "speed"});
    fmt::print("\"begin_ms\": {:.1f}, ", Since(start) * 1e3);
    int series = run.Series("loss");
    start = Clock::now();
    used = Processor();
    for (int64_t i = 0; i < points; ++i) {
      Clock::time_point before = Clock::now();
      run.Point(series, i, 0.001 * static_cast<double>(i));
      ns.push_back((Clock::now() - before).count());
    }
    run.End(EndState::kFinished);
  }
  double seconds = Since(start);
  used = Processor() - used;
  std::sort(ns.begin(), ns.end());
  fmt::print("\"caller_ns_median\": {}, \"caller_ns_p99\": {}, \"durable_points_per_s\": {:.0f}, ",
             ns[ns.size() / 2], ns[ns.size() * 99 / 100], static_cast<double>(points) / seconds);
  fmt::print("\"processor_us_per_point\": {:.2f}, \"bytes_per_point\": {:.1f}, ",
             used / static_cast<double>(points) * 1e6,
             static_cast<double>(FolderBytes(dir)) / static_cast<double>(points));
  Store store = Store::Open(dir);
  start = Clock::now();
  size_t n = LoadCurve(store, 1, "loss").size();
  fmt::print("\"read_series_ms\": {:.2f}, \"read_points\": {}, ", Since(start) * 1e3, n);
}

void Visible(const fs::path& dir) {
  std::vector<double> seconds;
  RunWriter run(dir, {.name = "visible"});
  Store store = Store::Open(dir);
  for (int i = 0; i < 5; ++i) {
    std::string name = "x" + std::to_string(i);
    Clock::time_point start = Clock::now();
    run.Point(name, 0, 1.0);
    while (LoadCurve(store, 1, name).empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    seconds.push_back(Since(start));
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("\"visible_ms\": {:.0f}, ", seconds[2] * 1e3);
}

// 1,500 points at 1 kHz, killed behind the 1,500th: what is left?
void Killed(const fs::path& dir) {
  int ends[2];
  if (::pipe(ends) != 0) return;
  pid_t pid = ::fork();
  if (pid == 0) {
    RunWriter run(dir, {.name = "victim"});
    for (int64_t i = 0; i < 1500; ++i) {
      run.Point("loss", i, 1.0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ssize_t n = ::write(ends[1], "x", 1);
    static_cast<void>(n);
    ::pause();
  }
  char c;
  ssize_t n = ::read(ends[0], &c, 1);
  static_cast<void>(n);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  fmt::print("\"left_of_1500_after_kill\": {}, ", LoadCurve(Store::Open(dir), 1, "loss").size());
}

void Listing(const fs::path& dir, int runs) {
  for (int i = 0; i < runs; ++i) {
    RunInfo info{.name = "r" + std::to_string(i)};
    info.config = {{"optimizer.lr", fmt::format("{}", 0.001 * (i % 100)), "a.yaml:1:1"}};
    RunWriter run(dir, info, {.flush_millis = 1000});
    EpochRow row{.epoch = 0, .step = 1};
    row.metrics = {{"bbox_mAP", 0.01 * (i % 50)}};
    run.Point("loss", 0, 1.0);
    run.Epoch(row);
    run.End(EndState::kFinished);
  }
  Store store = Store::Open(dir);
  Clock::time_point start = Clock::now();
  size_t n = ListRuns(store, {.keys = {"optimizer.lr", "metric.bbox_mAP"}}).size();
  double ms = Since(start) * 1e3;
  fmt::print("\"listed_runs\": {}, \"list_ms\": {:.1f}, ", n, ms);
}

}  // namespace

int main(int argc, char** argv) {
  fs::path dir = argc > 1 ? argv[1] : "/tmp/exp_recorder_bench";
  int runs = argc > 2 ? std::atoi(argv[2]) : 1000;
  fmt::print("{{\"name\": \"exp\", ");
  Caller(dir / "speed", 1'000'000);
  Visible(dir / "visible");
  std::fflush(stdout);
  Killed(dir / "killed");
  Listing(dir / "list", runs);
  fmt::print("\"synchronous\": \"FULL\"}}\n");
}
