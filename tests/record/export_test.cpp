#include "exp/record/export.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/record/maintain.h"
#include "exp/record/reader.h"
#include "exp/record/writer.h"
#include "src/record/sqlite.h"
#include "temporary.h"

namespace fs = std::filesystem;
using namespace xp::record;

namespace {

const double kOddNan = std::bit_cast<double>(uint64_t{0x7ff8dead00000001});

std::string MakeRun(const fs::path& store) {
  RunInfo info{
      .name = "a 'quoted', name", .config_json = "{\"a\":1}", .environment_json = "{\"x\":2}"};
  info.config = {{"a.b", "\"x,\\\"y\"", "c.yaml:1:1"}};
  info.objects = {{"file", std::string("\x00\xff\x01", 3), ""}};
  info.sources = {{"source", "a: 1\n", "c.yaml"}};
  info.tags = {"t"};
  RunWriter run(store, info);
  run.Point("loss/a@b", 0, kOddNan);
  run.Point("loss/a@b", 1, -0.0);
  run.Point("loss/a@b", 2, HUGE_VAL);
  run.Point("loss", 0, int64_t{INT64_MAX});
  run.Point("text", 0, JsonText{"\"NaN, \\\"quoted\\\"\""});
  EpochRow row{.epoch = 0, .step = 3, .weights_hash = "w"};
  row.metrics = {{"bbox_mAP", 0.125}};
  run.Epoch(row);
  run.Checkpoint({"/x/c.pth", "hash", 0, 3, 5});
  run.Warning("code", "text", 1);
  run.End(EndState::kFinished);
  return run.id();
}

uint64_t Length(const std::string& bytes, size_t at) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; --i)
    v = v << 8 | static_cast<unsigned char>(bytes[at + static_cast<size_t>(i)]);
  return v;
}

}  // namespace

TEST_CASE("an exported run comes back bit for bit") {
  TemporaryFolder t;
  std::string id = MakeRun(t.path / "a");
  Store a = Store::Open(t.path / "a"), b = Store::OpenOrCreate(t.path / "b");
  MakeRun(t.path / "b");  // so that numbers differ
  std::string text = ExportJson(a, 1).dump();
  CHECK(ImportJson(b, nlohmann::json::parse(text)) == id);
  CHECK_THROWS_WITH(ImportJson(b, nlohmann::json::parse(text)), ContainsSubstring("already"));
  int64_t seq = ResolveRun(b, id);
  CHECK(ExportJson(b, seq)["curves"] == ExportJson(a, 1)["curves"]);
  CHECK(ExportJson(b, seq)["curve_order"] == ExportJson(a, 1)["curve_order"]);
  std::vector<CurvePoint> points = LoadCurve(b, seq, "loss/a@b");
  REQUIRE(points.size() == 3);
  CHECK(SameBits(points[0].value, Value(kOddNan)));
  CHECK(SameBits(points[1].value, Value(-0.0)));
  CHECK(SameBits(points[2].value, Value(HUGE_VAL)));
  Run run = LoadRun(b, seq);
  CHECK(run.state == "finished");
  CHECK(run.epochs.at(0).weights_hash == "w");
  CHECK(run.checkpoints.size() == 1);
  CHECK(run.config.at(0).value == "\"x,\\\"y\"");
  CHECK(LoadObject(b, run.sources.at(0).second) == "a: 1\n");
  CHECK(VerifyStore(b, false).problems.empty());
}

namespace {

// Every place in the JSON, containers and members, a few of long lists.
void Places(const nlohmann::json& node, const std::string& at, std::vector<std::string>& out) {
  out.push_back(at);
  if (node.is_object()) {
    for (const auto& [key, child] : node.items()) {
      std::string name;
      for (char c : key) name += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      Places(child, at + "/" + name, out);
    }
  } else if (node.is_array()) {
    for (size_t i = 0; i < node.size() && i < 2; ++i)
      Places(node[i], at + "/" + std::to_string(i), out);
  }
}

}  // namespace

TEST_CASE("an export that is changed anywhere is refused", "[input]") {
  TemporaryFolder t;
  MakeRun(t.path / "a");
  Store a = Store::Open(t.path / "a"), b = Store::OpenOrCreate(t.path / "b");
  nlohmann::json good = ExportJson(a, 1);
  std::vector<std::string> places;
  Places(good, "", places);
  REQUIRE(places.size() > 100);
  std::vector<nlohmann::json> values = {5,
                                        -1.5,
                                        "x",
                                        nullptr,
                                        true,
                                        nlohmann::json::array(),
                                        nlohmann::json::object(),
                                        UINT64_MAX,
                                        std::string("a\0b", 3),
                                        {{"blob", "AAAA"}},
                                        {{"real", "x"}}};
  // All places are minutes: a hundred of them, each with three of the values; EXP_LONG_TESTS tries
  // all.
  const bool all = std::getenv("EXP_LONG_TESTS") != nullptr;
  for (size_t i = 0; i < places.size(); i += all ? 1 : std::max<size_t>(1, places.size() / 100)) {
    const std::string& place = places[i];
    for (size_t k = 0; k < 3; ++k) {
      const nlohmann::json& value = values[(i + 4 * k) % values.size()];
      nlohmann::json bad = good;
      bad[nlohmann::json::json_pointer(place)] = value;
      if (bad == good) continue;
      INFO(place << " = " << value.dump());
      CHECK_THROWS_AS(ImportJson(b, bad), xp::Error);
    }
  }
  CHECK(ListRuns(b, {}).empty());
  // Whoever makes the checksum fit again gets a run that can be read, or an error; nothing else.
  // Each import is a transaction on the disk, and its exports are files: not all places.
  int taken = 0;
  const size_t stride = all ? 1 : std::max<size_t>(1, places.size() / 40);
  for (size_t i = 0; i < places.size(); i += stride) {
    if (places[i].empty() || places[i] == "/checksum") continue;
    for (size_t k = 0; k < (all ? values.size() : 2); ++k) {
      const nlohmann::json& value = values[(i + 5 * k) % values.size()];
      nlohmann::json bad = good;
      bad[nlohmann::json::json_pointer(places[i])] = value;
      if (!bad.is_object()) continue;
      SealExport(bad);
      INFO(places[i] << " = " << value.dump());
      try {
        int64_t seq = ResolveRun(b, ImportJson(b, bad));
        ++taken;
        LoadRun(b, seq);
        ExportJson(b, seq);
        ExportTensorBoard(b, seq, t.path / "tb");
        ExportMlflow(b, seq, t.path / "ml");
      } catch (const xp::Error& e) {
        INFO(e.what());
        CHECK(e.exit_code() == 2);
      }
      fs::remove_all(t.path / "ml");
      fs::remove_all(t.path / "tb");
      b.db().Exec("DELETE FROM run");  // one without an end would count as running
    }
  }
  CHECK(taken > 0);
  CHECK(CollectGarbage(b, false).objects >= 0);
  CHECK(VerifyStore(b, false).problems.empty());
  std::string deep = std::string(100000, '[') + std::string(100000, ']');
  CHECK_THROWS_AS(ParseExport(deep, "f"), xp::Error);
  CHECK_THROWS_AS(ParseExport("{", "f"), xp::Error);
  nlohmann::json other = good;
  for (auto& [hash, content] : other["objects"].items()) content = "AAAA";
  SealExport(other);
  CHECK_THROWS_WITH(ImportJson(b, other), ContainsSubstring("other content"));
}

TEST_CASE("an export of a newer program is told from one that is damaged", "[input]") {
  TemporaryFolder t;
  MakeRun(t.path / "a");
  Store a = Store::Open(t.path / "a"), b = Store::OpenOrCreate(t.path / "b");
  const nlohmann::json good = ExportJson(a, 1);
  auto refused = [&](const char* place, const nlohmann::json& value, const char* why) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(place)] = value;
    SealExport(bad);
    INFO(place << " = " << value.dump());
    CHECK_THROWS_WITH(ImportJson(b, bad), ContainsSubstring(why));
    CHECK(ListRuns(b, {}).empty());
  };
  refused("/version", 2, "newer program: its version is 2, this program reads 1");
  refused("/version", "x", "no exported run");
  refused("/tables/notes", nlohmann::json::array(), "newer program: it has a table `notes`");
  refused("/tables/run/0/mood", 1, "newer program: it has a column `run.mood`");
  // What no counter or clock can be.
  refused("/tables/run/0/seed", "99999999999999999999", "run.seed is `99999999999999999999`");
  refused("/tables/run/0/seed", "-1", "run.seed");
  refused("/tables/run/0/created_ns", INT64_MAX, "run.created_ns is 9223372036854775807");
  refused("/tables/run/0/created_ns", INT64_MIN, "run.created_ns");
  refused("/tables/run/0/threads", int64_t{1} << 40, "run.threads is 1099511627776");
  refused("/tables/epoch/0/epoch", INT32_MAX, "epoch.epoch is 2147483647");
  refused("/curves/loss/0/1", INT64_MAX, "point.at_ms");
  refused("/tables/attempt/0/number", 2, "attempts aren't numbered 1, 2");
  CHECK_THROWS_WITH(ParseExport("{\"a\":1e400}", "f"), ContainsSubstring("beyond a double"));
  nlohmann::json bad = good;
  bad["tables"]["run"][0]["seed"] = "18446744073709551615";
  bad["tables"]["epoch"][0]["epoch"] = INT32_MAX - 1;
  SealExport(bad);
  CHECK(LoadRun(b, ResolveRun(b, ImportJson(b, bad))).seed == "18446744073709551615");
}

TEST_CASE("CSV, TensorBoard and MLflow files hold the numbers") {
  TemporaryFolder t;
  std::string id = MakeRun(t.path / "a");
  Store store = Store::Open(t.path / "a");
  ExportCsv(store, 1, t.path / "csv");
  std::string curves = xp::ReadFile(t.path / "csv" / "curves.csv");
  CHECK_THAT(curves, ContainsSubstring("loss/a@b,0,1,"));
  CHECK_THAT(curves, ContainsSubstring(",NaN\r\n"));
  CHECK_THAT(curves, ContainsSubstring(",9223372036854775807\r\n"));
  CHECK_THAT(xp::ReadFile(t.path / "csv" / "epochs.csv"),
             ContainsSubstring("0,3,metric,bbox_mAP,0.125"));
  CHECK_THAT(xp::ReadFile(t.path / "csv" / "config.csv"),
             ContainsSubstring("a.b,\"\"\"x,\\\"\"y\"\"\",c.yaml:1:1"));
  ExportTensorBoard(store, 1, t.path / "tb");
  std::string events = xp::ReadFile(fs::directory_iterator(t.path / "tb")->path());
  int records = 0;
  size_t at = 0;
  while (at + 12 <= events.size()) {
    at += 16 + Length(events, at);
    ++records;
  }
  CHECK(at == events.size());
  CHECK(records == 1 + 4 + 1);  // the version, four scalars, one metric; the text is none
  CHECK(events.find("brain.Event:2") != std::string::npos);
  ExportMlflow(store, 1, t.path / "ml");
  fs::path root = t.path / "ml" / "0" / id;
  CHECK_THAT(xp::ReadFile(root / "meta.yaml"), ContainsSubstring("status: 3"));
  CHECK_THAT(xp::ReadFile(root / "metrics" / "bbox_mAP"), ContainsSubstring(" 0.125 3\n"));
  CHECK(fs::exists(root / "metrics" / "loss"));
  CHECK(fs::exists(root / "params" / "a.b"));
}

TEST_CASE("a metric below another's name has a file of its own in MLflow's layout") {
  TemporaryFolder t;
  RunWriter run(t.path / "a", {.name = "n", .config_json = "{}"});
  for (const char* name : {"x", "x/y", "x/y/z", "x_2", "x/w"}) run.Point(name, 0, 1.0);
  run.End(EndState::kFinished);
  Store store = Store::Open(t.path / "a");
  ExportMlflow(store, 1, t.path / "ml");
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(t.path / "ml")) {
    files +=
        entry.is_regular_file() && entry.path().string().find("/metrics/") != std::string::npos;
  }
  CHECK(files == 5);
}

TEST_CASE("MLflow's layout keeps every tag, reads back any name, and points into any folder") {
  TemporaryFolder t;
  RunInfo info{.name = "a \"b\"\\ \x1b[31m\u009b \u2028\u00e9: #", .config_json = "{}"};
  info.tags = {"a:b", "a b", "a?b", "a_b"};
  RunWriter run(t.path / "a", info);
  run.Point("huge", 0, JsonText{"18446744073709551615"});
  run.Point("text", 0, JsonText{"\"x\""});
  EpochRow row{.epoch = 0, .step = 3};
  row.metrics = {{"acc", 0.5}, {"note", JsonText{"\"x\""}}};
  row.losses = {{"total", 0.25}};
  run.Epoch(row);
  run.End(EndState::kFinished);
  Store store = Store::Open(t.path / "a");
  const fs::path folder = t.path / "m l#?%:\u00e9";
  ExportMlflow(store, 1, folder);
  const fs::path root = folder / "0" / run.id();
  std::vector<std::string> tags, metrics;
  for (const auto& entry : fs::directory_iterator(root / "tags"))
    tags.push_back(entry.path().filename().string());
  std::sort(tags.begin(), tags.end());
  CHECK(tags ==
        std::vector<std::string>{"mlflow.runName", "tag.a b", "tag.a_b", "tag.a_b_2", "tag.a_b_3"});
  for (const auto& entry : fs::recursive_directory_iterator(root / "metrics"))
    if (entry.is_regular_file())
      metrics.push_back(entry.path().lexically_relative(root / "metrics").string());
  std::sort(metrics.begin(), metrics.end());
  CHECK(metrics == std::vector<std::string>{"acc", "epoch/total", "huge"});
  CHECK_THAT(xp::ReadFile(root / "metrics" / "huge"),
             ContainsSubstring(" 1.8446744073709552e+19 0\n"));
  const std::string meta = xp::ReadFile(root / "meta.yaml");
  CHECK_THAT(meta, ContainsSubstring("artifact_uri: file://" + t.path.string() +
                                     "/m%20l%23%3F%25%3A%C3%A9/0/" + run.id() + "/artifacts\n"));
  CHECK_THAT(meta,
             ContainsSubstring("run_name: \"a \\\"b\\\"\\\\ \\x1b[31m\\x9b \\L\u00e9: #\"\n"));
  CHECK_THAT(xp::ReadFile(folder / "0" / "meta.yaml"),
             ContainsSubstring("artifact_location: file://" + t.path.string() +
                               "/m%20l%23%3F%25%3A%C3%A9/0\n"));
}
