#include "exp/record/verdict.h"

#include <cmath>

#include "catch.h"
#include "exp/record/diff.h"
#include "temporary.h"

using namespace xp::record;

namespace {

Run MakeRun(int epochs) {
  Run run;
  run.config_hash = "c";
  run.seed = "0";
  run.environment_json =
      R"({"cpu":{"threads_used":2,"flags":["avx","sse"]},"gpu":{"cudnn":"9.1"},"os":{"host":"a"}})";
  run.code_json =
      R"({"kind":"git","identity":"i","repositories":[{"commit":"1234567890ab","changes":{}}]})";
  for (int e = 0; e < epochs; ++e) {
    EpochRecord record;
    record.epoch = e;
    record.step = 10 * (e + 1);
    record.losses = {{"loss_cls", 0.5 / (e + 1)}, {"total", 1.0 / (e + 1)}};
    record.metrics = {{"bbox_mAP", 0.1 * e}};
    record.weights_hash = "w" + std::to_string(e);
    record.optimizer_hash = "o" + std::to_string(e);
    run.epochs.push_back(record);
  }
  return run;
}

}  // namespace

TEST_CASE("equal records are the same, elapsed times aside") {
  Run a = MakeRun(3), b = MakeRun(3);
  b.epochs[1].train_seconds = 99;
  Curves ca = {{"loss", {{0, 5, 1, 1.0}, {1, 9, 1, 0.5}}}, {"time/step", {{0, 0, 1, 0.1}}}};
  Curves cb = {{"loss", {{0, 7, 1, 1.0}, {1, 8, 1, 0.5}}}, {"time/step", {{0, 0, 1, 0.2}}}};
  Verdict v = CompareRuns(a, b, ca, cb);
  CHECK(v.same);
  CHECK(v.comparable);
  CHECK(v.epochs.size() == 3);
  CHECK(v.steps_compared == 2);
  CHECK_THAT(v.summary, ContainsSubstring("bit for bit"));
}

TEST_CASE("the first epoch and quantity that differ are named, down to the step") {
  Run a = MakeRun(3), b = MakeRun(3);
  b.epochs[1].losses[0].second = std::nextafter(0.25, 1.0);
  b.epochs[1].weights_hash = "other";
  Curves ca = {{"loss", {{0, 0, 1, 1.0}, {12, 0, 1, 0.5}}}};
  Curves cb = {{"loss", {{0, 0, 1, 1.0}, {12, 0, 1, std::nextafter(0.5, 1.0)}}}};
  Verdict v = CompareRuns(a, b, ca, cb);
  CHECK_FALSE(v.same);
  CHECK(v.epochs[0].same);
  CHECK(v.epochs[1].quantity == "loss loss_cls");
  CHECK(v.epochs[1].before != v.epochs[1].after);  // shown with all digits
  REQUIRE(v.step);
  CHECK(v.step->step == 12);
  CHECK_THAT(v.summary, ContainsSubstring("epoch 2"));
  CHECK_THAT(v.summary, ContainsSubstring("step 12"));
}

TEST_CASE("weights alone may differ; NaN equals itself; -0 isn't 0") {
  Run a = MakeRun(1), b = MakeRun(1);
  a.epochs[0].losses[1].second = b.epochs[0].losses[1].second = std::nan("");
  CHECK(CompareRuns(a, b, {}, {}).same);
  b.epochs[0].optimizer_hash = "x";
  CHECK(CompareRuns(a, b, {}, {}).epochs[0].quantity == "optimizer state");
  b = MakeRun(1);
  a = MakeRun(1);
  a.epochs[0].losses[0].second = 0.0;
  b.epochs[0].losses[0].second = -0.0;
  CHECK_FALSE(CompareRuns(a, b, {}, {}).same);
}

TEST_CASE("fewer epochs: all that were asked for must be there") {
  Run a = MakeRun(3), b = MakeRun(2);
  CHECK_FALSE(CompareRuns(a, b, {}, {}).same);
  CHECK_THAT(CompareRuns(a, b, {}, {}).summary, ContainsSubstring("2 of 3"));
  CHECK(CompareRuns(a, b, {}, {}, 2).same);
  Run none = MakeRun(0);
  CHECK_FALSE(CompareRuns(none, none, {}, {}).comparable);
}

TEST_CASE("differences of the environment are weighed by what they can do") {
  Run a = MakeRun(1), b = MakeRun(1);
  b.environment_json =
      R"({"cpu":{"threads_used":4,"flags":["avx","avx2"]},"gpu":{"cudnn":"9.1"},"os":{"host":"b"}})";
  b.epochs[0].weights_hash = "x";
  std::vector<EnvironmentDifference> d =
      CompareEnvironments(a.environment_json, b.environment_json);
  REQUIRE(d.size() == 3);
  CHECK(d[0].weight == 3);
  CHECK(d[2].path == "os/host");
  CHECK(d[2].weight == 0);
  for (const EnvironmentDifference& x : d) {
    if (x.path == "cpu/flags") CHECK(x.after == "[\"avx2\"]");  // only what is new
  }
  Verdict v = CompareRuns(a, b, {}, {});
  CHECK(v.rows[2].sameness == Sameness::kDiffers);
  REQUIRE(v.suspects.size() == 2);  // the host's name explains nothing
  CHECK_THAT(v.suspects[0], ContainsSubstring("cpu/"));
}

TEST_CASE("config, code and data differences are said and suspected") {
  Run a = MakeRun(1), b = MakeRun(1);
  a.config = {{"optimizer.lr", "0.1", ""}};
  b.config = {{"optimizer.lr", "0.2", ""}};
  b.config_hash = "d";
  b.code_json =
      R"({"kind":"git","identity":"j","repositories":[{"commit":"ffff567890ab","changes":{}}]})";
  DatasetRecord data;
  data.role = "train";
  data.ann_hash = "x";
  data.fingerprint = "f";
  a.datasets = {data};
  data.fingerprint = "g";
  b.datasets = {data};
  b.epochs[0].weights_hash = "x";
  Verdict v = CompareRuns(a, b, {}, {});
  CHECK(v.rows[0].detail == "optimizer.lr 0.1 -> 0.2");
  CHECK_THAT(v.rows[1].detail, ContainsSubstring("1234567890 -> ffff567890"));
  CHECK(v.rows[3].detail == "train: other images");
  CHECK(v.suspects.size() == 3);
}

TEST_CASE("diff shows only what differs, the telling first, with origins") {
  TemporaryFolder t;
  Store store = Store::OpenOrCreate(t.path);
  Run a = MakeRun(1), b = MakeRun(1);
  a.config = {{"optimizer.lr", "0.1", "a.yaml:1:1"},
              {"work_dir", "\"x\"", "a.yaml:2:1"},
              {"same", "1", ""}};
  b.config = {
      {"optimizer.lr", "0.2", "--set #1"}, {"work_dir", "\"y\"", "a.yaml:2:1"}, {"same", "1", ""}};
  std::vector<Difference> d = DiffRuns(store, {a, b});
  REQUIRE(d.size() == 2);
  CHECK(d[0].name == "optimizer.lr");
  CHECK(d[0].origins == std::vector<std::string>{"a.yaml:1:1", "--set #1"});
  CHECK(d[1].name == "work_dir");
  CHECK(DiffRuns(store, {a, a}).empty());
}
