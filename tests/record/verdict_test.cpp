#include "exp/record/verdict.h"

#include <bit>
#include <cmath>

#include "catch.h"
#include "exp/record/diff.h"
#include "temporary.h"

using namespace xp::record;

namespace {

Run MakeRun(int epochs) {
  Run run;
  run.state = "finished";
  run.kind = "train";
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

namespace {

// Another program's: numbers without hashes.
Run MakeCommand(const std::string& state, std::vector<Named> metrics) {
  Run run;
  run.state = state;
  run.kind = "command";
  for (size_t e = 0; e < metrics.size(); ++e) {
    EpochRecord record;
    record.epoch = static_cast<int>(e);
    record.step = 2 * static_cast<int64_t>(e + 1);
    record.metrics = std::move(metrics[e]);
    run.epochs.push_back(std::move(record));
  }
  return run;
}

Curves Loss(std::vector<std::pair<int64_t, double>> points) {
  Curves curves;
  for (const auto& [step, value] : points) curves["loss"].push_back({step, 0, 1, value});
  return curves;
}

CheckpointRecord File(const std::string& path, const std::string& hash) {
  CheckpointRecord c;
  c.path = path;
  c.hash = hash;
  return c;
}

}  // namespace

TEST_CASE("what only one of two finished runs recorded is a difference") {
  const Run one = MakeCommand("finished", {{{"a", 1.0}}}),
            two = MakeCommand("finished", {{{"a", 1.0}}, {{"a", 2.0}}});
  Verdict more = CompareRuns(one, two, {}, {});
  CHECK_FALSE(more.same);
  CHECK(more.summary == "diverged in epoch 2: epoch absent -> there");
  CHECK(CompareRuns(two, one, {}, {}).summary ==
        "incomplete: 1 of 2 epochs were run again, and they are the same");
  CHECK(CompareRuns(one, two, {}, {}, 1).same);

  const Run none = MakeCommand("finished", {});
  const Curves long_one = Loss({{0, 1.0}, {1, 2.0}}), short_one = Loss({{0, 1.0}});
  CHECK(CompareRuns(none, none, long_one, long_one).same);
  CHECK(CompareRuns(none, none, long_one, short_one).summary ==
        "diverged at step 1: loss 2 -> absent");
  CHECK(CompareRuns(none, none, short_one, long_one).summary ==
        "diverged at step 1: loss absent -> 2");
  CHECK(CompareRuns(none, none, long_one, {}).summary == "diverged at step 0: loss 1 -> absent");
  // Steps behind the last epoch, too: it may have been counted otherwise.
  CHECK(CompareRuns(one, one, Loss({{9, 1.0}}), Loss({{9, 1.5}})).summary ==
        "diverged at step 9: loss 1 -> 1.5");
}

TEST_CASE("of a run that ended early, all that it had recorded must be there again") {
  const Run killed = MakeCommand("killed", {{{"a", 1.0}}}),
            whole = MakeCommand("finished", {{{"a", 1.0}}, {{"a", 2.0}}});
  CHECK(CompareRuns(killed, whole, Loss({{0, 1.0}, {2, 3.0}}), Loss({{0, 1.0}, {2, 3.0}, {3, 4.0}}))
            .same);
  CHECK_FALSE(CompareRuns(killed, whole, Loss({{0, 1.0}, {2, 3.0}}), Loss({{0, 1.0}})).same);
  // Our own trainer stops where the last whole epoch ended: the steps behind it have no partner.
  Run own = MakeRun(1), again = MakeRun(1);
  own.state = "killed";
  CHECK(CompareRuns(own, again, Loss({{9, 1.0}, {10, 2.0}}), Loss({{9, 1.0}})).same);
  CHECK_FALSE(CompareRuns(own, again, Loss({{8, 0.5}, {9, 1.0}}), Loss({{9, 1.0}})).same);
}

TEST_CASE("points that a full disk took prove nothing") {
  Run first = MakeCommand("finished", {});
  first.attempts.emplace_back().lost_points = 1;
  const Run second = MakeCommand("finished", {});
  CHECK(CompareRuns(first, second, Loss({{0, 1.0}}), Loss({{0, 1.0}, {1, 2.0}})).same);
  CHECK_FALSE(CompareRuns(first, second, Loss({{0, 1.0}}), Loss({{0, 1.5}, {1, 2.0}})).same);
}

TEST_CASE("points of one step are compared in the order written") {
  const Run run = MakeCommand("finished", {});
  const Curves twice = Loss({{0, 1.0}, {0, 2.0}, {1, 3.0}});
  Verdict v = CompareRuns(run, run, twice, twice);
  CHECK(v.same);
  CHECK(v.steps_compared == 3);
  CHECK(CompareRuns(run, run, twice, Loss({{0, 1.0}, {1, 3.0}})).summary ==
        "diverged at step 0: loss 2 -> absent");
  CHECK(CompareRuns(run, run, twice, Loss({{0, 2.0}, {0, 1.0}, {1, 3.0}})).summary ==
        "diverged at step 0: loss 1 -> 2");
}

TEST_CASE("metrics that one run lacks are no difference where the weights are known equal") {
  Run a = MakeRun(2), b = MakeRun(2);
  b.epochs[0].metrics.clear();  // evaluated at the end alone
  CHECK(CompareRuns(a, b, {}, {}).same);
  a.epochs[0].weights_hash = b.epochs[0].weights_hash = "";
  Verdict v = CompareRuns(a, b, {}, {});
  CHECK_FALSE(v.same);
  CHECK(v.epochs[0].quantity == "metric bbox_mAP");
  CHECK(v.epochs[0].after == "absent");
}

TEST_CASE("epochs without a number, or with times alone, are nothing to compare") {
  for (const Named& numbers : {Named{}, Named{{"train/iter_time", 0.25}}}) {
    const Run run = MakeCommand("finished", {numbers});
    Verdict v = CompareRuns(run, run, {}, {});
    CHECK_FALSE(v.comparable);
    CHECK_FALSE(v.same);
  }
  Run a = MakeCommand("finished", {{{"a", 1.0}}}), b = a;
  b.epochs[0].step = 3;
  CHECK(CompareRuns(a, b, {}, {}).summary == "diverged in epoch 1: steps done 2 -> 3");
}

TEST_CASE("values that differ never read the same") {
  auto shown = [](Value x, Value y) {
    const Run a = MakeCommand("finished", {{{"a", std::move(x)}}}),
              b = MakeCommand("finished", {{{"a", std::move(y)}}});
    const Verdict v = CompareRuns(a, b, {}, {});
    CHECK_FALSE(v.same);
    return v.epochs[0].before + " | " + v.epochs[0].after;
  };
  CHECK(shown(1.0, int64_t{1}) == "1 (a float) | 1 (an integer)");
  CHECK(shown(JsonText{"\"" + std::string(60, 'a') + "b\""},
              JsonText{"\"" + std::string(60, 'a') + "c\""}) ==
        "\"" + std::string(39, 'a') + "... (63 bytes) (differs from byte 62) | \"" +
            std::string(39, 'a') + "... (63 bytes) (differs from byte 62)");
  CHECK(shown(std::bit_cast<double>(uint64_t{0x7ff8000000000000}),
              std::bit_cast<double>(uint64_t{0x7ff8000000000001})) ==
        "NaN (0x7ff8000000000000) | NaN (0x7ff8000000000001)");
}

TEST_CASE("another program's checkpoints are compared by name; numbers have the last word") {
  Run a = MakeCommand("finished", {}), b = a;
  a.work_dir = "/w/a";
  b.work_dir = "/w/b";
  a.checkpoints = {File("/w/a/x.pth", "old"), File("/w/a/x.pth", "1"), File("/else/y.pth", "2")};
  b.checkpoints = {File("/w/b/x.pth", "1"), File("/else/y.pth", "2")};
  Verdict v = CompareRuns(a, b, {}, {});
  CHECK(v.same);
  CHECK(v.summary == "the same, bit for bit: all checkpoints, 2 files");
  b.checkpoints[0].hash = "3";
  v = CompareRuns(a, b, {}, {});
  CHECK(v.comparable);
  CHECK_FALSE(v.same);
  CHECK(v.summary == "diverged: other checkpoints: x.pth");
  v = CompareRuns(a, b, Loss({{0, 1.0}}), Loss({{0, 1.0}}));
  CHECK(v.same);
  CHECK(v.summary ==
        "the same, bit for bit: all 1 recorded numbers; its checkpoint files differ: x.pth");
  a.kind = "train";  // which names the run in them
  CHECK_FALSE(CompareRuns(a, b, {}, {}).comparable);
}

TEST_CASE("code of which files weren't kept isn't called the same") {
  Run a = MakeRun(1), b = MakeRun(1);
  a.code_json = b.code_json = R"({"kind":"git","identity":"i","omitted":{"count":3,"code":2},
      "repositories":[{"commit":"1234567890ab","changes":{}}]})";
  VerdictRow row = CompareRuns(a, b, {}, {}).rows[1];
  CHECK(row.sameness == Sameness::kUnknown);
  CHECK(row.detail == "1234567890: 2 files weren't kept, so not compared; the rest is the same");
  a.code_json = b.code_json = R"({"kind":"none","identity":"i","manifest":{"object":"x"}})";
  b.code_json.replace(b.code_json.find("\"i\""), 3, "\"j\"");
  CHECK(CompareRuns(a, b, {}, {}).rows[1].detail == "changed or untracked files differ");
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

TEST_CASE("the same images, known by names and sizes only in one of two runs, are the same") {
  TemporaryFolder t;
  Store store = Store::OpenOrCreate(t.path);
  DatasetRecord full, cheap;
  full.role = cheap.role = "train";
  full.ann_hash = cheap.ann_hash = "x";
  full.mode = "full";
  full.fingerprint = "f";
  full.image_list = "0123 5 a.jpg\n4567 6 b.jpg\n";
  cheap.mode = "cheap";
  cheap.fingerprint = "g";
  cheap.image_list = "- 5 a.jpg\n- 6 b.jpg\n";
  Run a = MakeRun(1), b = MakeRun(1);
  a.datasets = {full};
  b.datasets = {cheap};
  const auto row = [&] { return CompareRuns(a, b, {}, {}).rows[3]; };
  CHECK(row().sameness == Sameness::kSame);
  CHECK_THAT(row().detail, ContainsSubstring("names and sizes only"));
  CHECK(DiffRuns(store, {a, b}).empty());
  b.datasets[0].image_list = "- 5 a.jpg\n- 7 b.jpg\n";
  CHECK(row().detail == "train: 1 images changed: b.jpg");
  REQUIRE(DiffRuns(store, {a, b}).size() == 2);
  CHECK(DiffRuns(store, {a, b})[1].name == "train b.jpg");
  // Without their lists the hashes are all that is known.
  a.datasets[0].image_list.clear();
  CHECK(row().sameness == Sameness::kDiffers);
}

TEST_CASE("diff tells numbers apart that differ in their last bit") {
  TemporaryFolder t;
  Store store = Store::OpenOrCreate(t.path);
  const double x = 0.1234567;
  auto summary = [](const char* kind, const char* name, Value last) {
    SummaryRecord s;
    s.kind = kind;
    s.name = name;
    s.last = std::move(last);
    return s;
  };
  auto shown = [&](const std::vector<Value>& values) {
    std::vector<Run> runs;
    for (const Value& v : values) {
      runs.push_back(MakeRun(1));
      runs.back().summaries = {summary("metric", "m", v), summary("step", "s", 1.0)};
    }
    std::vector<Difference> d = DiffRuns(store, runs);
    REQUIRE(d.size() <= 1);
    return d.empty() ? std::vector<std::string>() : d[0].values;
  };
  using V = std::vector<std::string>;
  CHECK(shown({x, x}).empty());
  CHECK(shown({x, 0.12345671}) == V{"0.1234567", "0.12345671"});
  CHECK(shown({x, std::nextafter(x, 1), x}) == V{"0.1234567", "0.12345670000000002", "0.1234567"});
  CHECK(shown({1.0, int64_t{1}}) == V{"1 (a float)", "1 (an integer)"});
  CHECK(shown({0.0, -0.0}) == V{"0", "-0"});
  CHECK(shown({std::nan(""), std::nan("")}).empty());
  CHECK(shown({1e300, HUGE_VAL, -HUGE_VAL}) == V{"1e+300", "+Inf", "-Inf"});
  // Of runs that recorded steps and no epoch, these tell.
  Run a, b;
  a.summaries = {summary("step", "loss", x), summary("step", "time/step", 1.0)};
  b.summaries = {summary("step", "loss", std::nextafter(x, 1)), summary("step", "acc", 1.0),
                 summary("step", "time/step", 2.0)};
  std::vector<Difference> d = DiffRuns(store, {a, b});
  REQUIRE(d.size() == 2);
  CHECK((d[0].name == "step.acc" && d[0].values == V{"", "1"}));
  CHECK((d[1].name == "step.loss" && d[1].values == V{"0.1234567", "0.12345670000000002"}));
  // Weights may differ where no metric does.
  a = MakeRun(1), b = MakeRun(1);
  b.epochs[0].weights_hash = "other";
  d = DiffRuns(store, {a, b});
  REQUIRE(d.size() == 1);
  CHECK(d[0].values == V{"w0", "other"});
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
