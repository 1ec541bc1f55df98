// Evaluations are rows beside a run: they come after its end, leave it as it is, and travel with
// it.
#include "exp/record/evaluation.h"

#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/record/export.h"
#include "exp/record/maintain.h"
#include "exp/record/reader.h"
#include "exp/record/writer.h"
#include "temporary.h"

using namespace xp::record;

namespace {

std::string MakeRun(const std::filesystem::path& store) {
  RunWriter run(store, RunInfo{.name = "a", .config_json = "{}"});
  run.End(EndState::kFinished);
  return run.id();
}

Evaluation Some(double map) {
  Evaluation e;
  e.device = "cpu";
  e.command_json = R"(["exp","eval","a"])";
  e.weights = "/w/epoch_1.safetensors";
  e.weights_hash = "00ff";
  e.part = "val";
  e.ann_file = "/d/val.json";
  e.report_json = nlohmann::json{{"metrics", {{"bbox_mAP", map}}}}.dump();
  return e;
}

}  // namespace

TEST_CASE("evaluations of a run are numbered and listed in order") {
  TemporaryFolder t;
  std::string id = MakeRun(t.path / "s");
  MakeRun(t.path / "s");
  Store store = Store::Open(t.path / "s");
  int64_t seq = ResolveRun(store, id);
  CHECK(ListEvaluations(store, seq).empty());
  CHECK(AddEvaluation(store, seq, Some(0.25)).number == 1);
  CHECK(AddEvaluation(store, seq, Some(0.5)).number == 2);
  CHECK(ListEvaluations(store, seq + 1).empty());
  std::vector<Evaluation> all = ListEvaluations(store, seq);
  REQUIRE(all.size() == 2);
  CHECK(all[1].number == 2);
  CHECK(all[1].report_json == Some(0.5).report_json);
  CHECK(all[1].weights == "/w/epoch_1.safetensors");
  CHECK(all[0].at_ns > 0);
  CHECK_FALSE(all[0].host.empty());
  CHECK(LoadRun(store, seq).state == "finished");
}

TEST_CASE("evaluations come along in an export, and older exports have none") {
  TemporaryFolder t;
  std::string id = MakeRun(t.path / "a");
  Store a = Store::Open(t.path / "a"), b = Store::OpenOrCreate(t.path / "b");
  Store c = Store::OpenOrCreate(t.path / "c");
  AddEvaluation(a, ResolveRun(a, id), Some(0.25));
  nlohmann::json exported = ExportJson(a, ResolveRun(a, id));
  ImportJson(b, exported);
  std::vector<Evaluation> there = ListEvaluations(b, ResolveRun(b, id));
  REQUIRE(there.size() == 1);
  CHECK(there[0].report_json == Some(0.25).report_json);
  nlohmann::json bad = exported;
  bad["tables"]["evaluation"][0]["report"] = "no JSON";
  SealExport(bad);
  CHECK_THROWS_AS(ImportJson(c, bad), xp::Error);
  exported["tables"].erase("evaluation");
  SealExport(exported);
  ImportJson(c, exported);
  CHECK(ListEvaluations(c, ResolveRun(c, id)).empty());
}
