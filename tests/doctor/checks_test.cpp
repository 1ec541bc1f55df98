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

TEST_CASE("an empty machine: nothing is told, nothing is wrong, nothing crashes") {
  FakeSystem s;
  for (const Finding& f : CheckAll({s, TestBuild(), "/no/such/binary", "", "", ""})) {
    INFO(f.id << ": " << f.found);
    CHECK((f.level == Level::kAbsent || f.level == Level::kOk || f.id == "disk.cache"));
  }
}

}  // namespace
}  // namespace xp::doctor
