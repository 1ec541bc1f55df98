// An examination that is stopped, and tests that take long.
#include <atomic>
#include <thread>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/stopwatch.h"
#include "exp/doctor/doctor.h"
#include "exp/doctor/measure.h"
#include "exp/doctor/smoke.h"
#include "exp/graph/backend.h"
#include "exp/graph/memory_check.h"

namespace xp::doctor {
namespace {

constexpr double kSoon = 5;  // seconds, on a machine that is busy with other tests

// Runs `body`, which looks at the flag that is set after a tenth of a second; how long it took.
template <class Body>
double StoppedSoon(Body body) {
  std::atomic<bool> stop{false};
  Stopwatch watch;
  std::thread signal([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop = true;
  });
  try {
    body(&stop);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kInterrupted);
  }
  const double took = watch.Seconds();
  signal.join();
  return took;
}

TEST_CASE("an examination that is stopped has what was found until then") {
  for (size_t kept : {size_t{0}, size_t{1}, size_t{9}, size_t{20}}) {
    std::atomic<bool> stop{kept == 0};
    size_t seen = 0;
    DoctorOptions options;
    options.device = "cpu";
    options.measure = false;
    options.data = options.work = "/tmp";
    options.stop = &stop;
    options.on_finding = [&](const Finding&) { stop = ++seen >= kept; };
    const Report report = Examine(options);
    INFO(kept);
    CHECK(report.interrupted);
    CHECK(report.findings.size() == kept);
    CHECK(seen == kept);
    const std::string json = ReportJson(report, "{}");
    CHECK(json.find("\"interrupted\": true") != std::string::npos);
    CHECK(ReportFromJson(json)->interrupted);
    if (kept == 0) continue;
    CHECK(SummaryText(report, 1000)
              .ends_with("; what comes after " + report.findings.back().id + " wasn't looked at"));
  }
}

TEST_CASE("one that came to its end is whole, also where a signal came with its last finding") {
  std::atomic<bool> stop{false};
  size_t count = 0;
  DoctorOptions options;
  options.device = "cpu";
  options.measure = false;
  options.data = options.work = "/tmp";
  options.on_finding = [&](const Finding&) { ++count; };
  Report report = Examine(options);
  CHECK_FALSE(report.interrupted);
  CHECK(report.findings.size() == count);
  options.stop = &stop;
  options.on_finding = [&](const Finding&) { stop = --count == 0; };
  report = Examine(options);
  CHECK_FALSE(report.interrupted);
  CHECK(ReportJson(report, "{}").find("interrupted") == std::string::npos);
  CHECK(SummaryText(report, 1000).find("interrupted") == std::string::npos);
}

TEST_CASE("a smoke test that is stopped is followed by no further one") {
  auto cpu = graph::CreateCpuBackend(1);
  std::atomic<bool> stop{false};
  std::vector<std::string> ids;
  CHECK_THROWS_AS(SmokeTests(*cpu, *cpu,
                             [&](const Finding& f) {
                               ids.push_back(f.id);
                               stop = ids.size() == 2;
                               ThrowIfStopped(&stop);
                             }),
                  Error);
  CHECK(ids == std::vector<std::string>{"smoke.conv", "smoke.conv_bf16"});
}

TEST_CASE("tests that take long end soon when they are stopped") {
  // Each would take a minute or more.
  CHECK(StoppedSoon([](StopFlag stop) { graph::CheckHostMemory(uint64_t{64} << 20, 4000, stop); }) <
        kSoon);
  CHECK(StoppedSoon([](StopFlag stop) {
          auto cpu = graph::CreateCpuBackend(1);
          LoadDevice(*cpu, graph::DType::kF32, 0, 60, stop);
        }) < kSoon);
  CHECK(StoppedSoon([](StopFlag stop) { MeasureDecode({}, 60, stop); }) < kSoon);
  CHECK(StoppedSoon([](StopFlag stop) { MeasureReads("/usr", 60, stop); }) < kSoon);
  CHECK(StoppedSoon([](StopFlag stop) {
          TwoProcesses({"sh", "-c", "echo ready; exec sleep 60"}, stop);
        }) < kSoon);
}

TEST_CASE("children that a signal ended before it was seen here are no finding") {
  CHECK(StoppedSoon([](StopFlag stop) {
          TwoProcesses({"sh", "-c", "sleep 0.03; exit 1"}, stop);
          FAIL("a finding of children that a signal ended");
        }) < kSoon);
}

}  // namespace
}  // namespace xp::doctor
