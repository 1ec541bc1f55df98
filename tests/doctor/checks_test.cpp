// All checks together.
#include "catch.h"
#include "doctor/fake_system.h"

namespace xp::doctor {
namespace {

TEST_CASE("a healthy machine has nothing to complain of") {
  FakeSystem s = HealthyMachine();
  for (const Finding& f : CheckAll(s.Of(TestBuild()))) {
    INFO(f.id << ": " << f.found);
    CHECK(f.level == Level::kOk);
  }
}

TEST_CASE("every warning and error says what is needed, why and what to do") {
  FakeSystem s = HealthyMachine();
  s.gpus.devices[0].about.power_limit_mw = 400000;
  s.gpus.devices[0].errors.uncorrected = 3;
  s.spaces["/store"].free_bytes = 1000;
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "470.42.01";
  s.gpus.cuda_driver = "11.4";
  int bad = 0;
  for (const Finding& f : CheckAll(s.Of(TestBuild()))) {
    if (f.level != Level::kWarning && f.level != Level::kError) continue;
    ++bad;
    INFO(f.id);
    CHECK_FALSE(f.found.empty());
    CHECK_FALSE(f.needed.empty());
    CHECK_FALSE(f.why.empty());
    CHECK_FALSE(f.fix.empty());
  }
  CHECK(bad >= 4);
}

TEST_CASE("files of another machine: what can't be asked from here is absent, not wrong") {
  FakeSystem s = HealthyMachine();
  s.here = false;
  s.answers.clear(), s.outputs.clear(), s.variables.clear(), s.spaces.clear(), s.writable.clear();
  s.gpus = {};
  s.gpus.why = "files of another machine are looked at";
  const Findings all = CheckAll(s.Of(TestBuild()));
  for (const Finding& f : all) {
    INFO(f.id << ": " << f.found);
    CHECK((f.level == Level::kAbsent || f.level == Level::kOk));
  }
  CHECK(Get(all, "driver").found ==
        "kernel module 580.159.03; files of another machine are looked at");
  for (const char* id : {"cudnn", "nccl", "nvcc", "shm", "disk.store", "disk.cache"}) {
    CHECK(Get(all, id).level == Level::kAbsent);
  }
  CHECK(Get(all, "cudnn").found.starts_with("/opt/cuda/lib64/libcudnn.so.9; "));
  CHECK(Get(all, "memory.limit").level == Level::kOk);
  s.files.erase("/proc/self/cgroup");  // there may be a limit all the same
  CHECK(Get(CheckAll(s.Of(TestBuild())), "memory.limit").level == Level::kAbsent);
  CHECK(Get(CheckAll(s.Of(TestBuild())), "cpu.processes").level == Level::kAbsent);
}

TEST_CASE("an empty machine: nothing is told, nothing is wrong, nothing crashes") {
  FakeSystem s;
  for (const Finding& f : CheckAll({s, TestBuild(), "/no/such/binary", "", "", ""})) {
    INFO(f.id << ": " << f.found);
    CHECK((f.level == Level::kAbsent || f.level == Level::kOk || f.id == "disk.cache"));
  }
}

}  // namespace
}  // namespace xp::doctor
