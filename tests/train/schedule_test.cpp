// Against torch.optim.lr_scheduler's own numbers, step by step (tests/fixtures/schedules.json).
#include "exp/train/schedule.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"

using namespace xp;
using namespace xp::train;
using nlohmann::json;

namespace {

// As a config says it.
ScheduleConfig Parse(const json& lr, double base, int64_t epochs, int64_t per_epoch) {
  const json config = {{"optimizer", {{"type", "SGD"}, {"lr", base}}}, {"lr_config", lr}};
  return ReadSchedule(config::Reader(config::LoadText(config.dump(), "test.yaml").root), epochs,
                      per_epoch);
}

ScheduleConfig Valid() {
  ScheduleConfig c;
  c.policy = SchedulePolicy::kMultiStep;
  c.base_lr = 0.02;
  c.steps_per_epoch = 10;
  c.total_steps = 120;
  c.milestones = {8, 11};
  return c;
}

template <typename Change>
std::string Refused(Change change) {
  ScheduleConfig c = Valid();
  change(c);
  try {
    Schedule schedule(c);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kUsage);
    return e.text().what;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("every schedule gives torch's rate at every step") {
  json all = json::parse(ReadFile(EXP_SOURCE_DIR "/tests/fixtures/schedules.json"));
  REQUIRE(all["cases"].size() == 45);
  for (const json& one : all["cases"]) {
    INFO(one["name"].get<std::string>());
    Schedule schedule(
        Parse(one["lr_config"], all["base_lr"], all["max_epochs"], all["iters_per_epoch"]));
    auto expected = one["lrs"].get<std::vector<double>>();
    REQUIRE(expected.size() == 120);
    for (size_t step = 0; step < expected.size(); ++step) {
      double lr = schedule.LrAt(static_cast<int64_t>(step));
      // torch multiplies step by step, so it carries rounding errors that a closed form doesn't.
      if (std::abs(lr - expected[step]) > 1e-12 * expected[0] + 1e-10 * expected[step]) {
        FAIL("step " << step << ": " << lr << " instead of " << expected[step]);
      }
    }
  }
}

TEST_CASE(
    "the rate depends on the step alone") {  // mmdetection#6572, detectron2#3381, open_clip#413
  ScheduleConfig c = Valid();
  c.warmup = WarmupKind::kLinear;
  c.warmup_steps = 25;
  c.warmup_ratio = 0.001;
  Schedule whole(c);
  for (int64_t step : {13, 24, 25, 79, 80, 81, 109, 110}) {
    Schedule resumed(c);  // asked for this step first, as after a resume
    CHECK(resumed.LrAt(step) == whole.LrAt(step));
  }
  CHECK(whole.LrAt(79) == 0.02);
  CHECK(whole.LrAt(80) == Approx(0.002));
  CHECK(whole.LrAt(0) == Approx(0.02 * 0.001));
}

TEST_CASE("after the last step the rate stays where it ended") {
  ScheduleConfig c = Valid();
  c.policy = SchedulePolicy::kCosine;
  c.by_epoch = false;
  c.min_lr = 1e-4;
  CHECK(Schedule(c).LrAt(120) == Approx(1e-4).epsilon(1e-12));
  CHECK(Schedule(c).LrAt(100000) == Approx(1e-4).epsilon(1e-12));
  c.policy = SchedulePolicy::kPoly;
  c.power = 0.9;
  CHECK(Schedule(c).LrAt(100000) == Approx(1e-4).epsilon(1e-12));
  c.policy = SchedulePolicy::kOneCycle;
  c.max_lr = 0.1;
  CHECK(Schedule(c).LrAt(119) == Schedule(c).LrAt(5000));
  c.pct_start = 0;  // no way up
  CHECK(Schedule(c).LrAt(0) == Approx(0.1).epsilon(1e-2));
  c.pct_start = 1;  // no way down
  CHECK(Schedule(c).LrAt(119) == Approx(0.1));
  c = Valid();
  c.policy = SchedulePolicy::kExponential;
  c.min_lr = 1e-3;
  CHECK(Schedule(c).LrAt(119) == 1e-3);
}

TEST_CASE("values out of range are refused by the name in the config") {
  CHECK(Refused([](ScheduleConfig&) {}) == "accepted");
  CHECK_THAT(Refused([](ScheduleConfig& c) { c.base_lr = 0; }), ContainsSubstring("optimizer.lr"));
  CHECK_THAT(Refused([](ScheduleConfig& c) { c.base_lr = std::nan(""); }),
             ContainsSubstring("optimizer.lr"));
  CHECK_THAT(Refused([](ScheduleConfig& c) {
               c.milestones = {11, 8};
             }),
             ContainsSubstring("lr_config.step"));
  CHECK_THAT(Refused([](ScheduleConfig& c) { c.milestones = {-1}; }),
             ContainsSubstring("lr_config.step"));
  CHECK_THAT(Refused([](ScheduleConfig& c) { c.step_size = 0; }),
             ContainsSubstring("lr_config.step"));
  CHECK_THAT(Refused([](ScheduleConfig& c) { c.gamma = 0; }), ContainsSubstring("lr_config.gamma"));
  CHECK_THAT(Refused([](ScheduleConfig& c) { c.min_lr = -1; }),
             ContainsSubstring("lr_config.min_lr"));
  CHECK_THAT(Refused([](ScheduleConfig& c) { c.steps_per_epoch = 0; }),
             ContainsSubstring("steps an epoch"));
  CHECK_THAT(Refused([](ScheduleConfig& c) { c.warmup = WarmupKind::kLinear; }),
             ContainsSubstring("warmup_iters"));
  CHECK_THAT(Refused([](ScheduleConfig& c) {
               c.warmup = WarmupKind::kExp;
               c.warmup_steps = 5;
               c.warmup_ratio = 0;
             }),
             ContainsSubstring("warmup_ratio"));
  CHECK_THAT(Refused([](ScheduleConfig& c) {
               c.policy = SchedulePolicy::kOneCycle;
               c.max_lr = 1;
               c.warmup = WarmupKind::kLinear;
               c.warmup_steps = 5;
             }),
             ContainsSubstring("OneCycle"));
}

TEST_CASE("what is hardly meant is doubted, what can't be meant refused") {
  ScheduleConfig c = Valid();  // 12 epochs of 10 steps
  CHECK(Schedule(c).Doubts().empty());
  c.milestones = {8, 12, 20};
  c.warmup = WarmupKind::kLinear;
  c.warmup_steps = 120;
  const std::vector<std::string> doubts = Schedule(c).Doubts();
  REQUIRE(doubts.size() == 3);
  CHECK_THAT(doubts[0], ContainsSubstring("the warm-up takes 120 steps, training only 120"));
  CHECK_THAT(doubts[1],
             ContainsSubstring("at epoch 12 never happens, training ends after 12 epochs"));
  c.by_epoch = false;
  c.milestones = {119, 120};
  c.warmup_steps = 119;
  CHECK(Schedule(c).Doubts().size() == 1);
  // A lowest rate above the highest one.
  CHECK_THAT(Refused([](ScheduleConfig& o) { o.min_lr = 0.03; }),
             ContainsSubstring("min_lr` is 0.03, above optimizer.lr, 0.02"));
  // A warm-up of no length is no warm-up, but it must be said (mmcv asserts it, too).
  const json warm = {{"policy", "fixed"}, {"warmup", "linear"}};
  CHECK_THROWS_WITH(Parse(warm, 0.02, 12, 10), ContainsSubstring("warmup_iters"));
}
