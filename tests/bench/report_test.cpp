// Rows as JSON and as tables, and two calls side by side.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/bench/report.h"
#include "src/bench/into_row.h"

namespace xp::bench {
namespace {

Row Made(const char* program, int batch, double speed) {
  Row r;
  r.c.program = program;
  r.c.batch = batch;
  r.images_per_second = speed;
  r.milliseconds = 1e3 * batch / speed;
  r.repeats = 5;
  r.spread = 0.01;
  r.watts = 500;
  r.bytes = 3u << 30;
  r.throttled = {"heat 10 %"};
  return r;
}

TEST_CASE("a row survives JSON") {
  Row r = Made("exp", 64, 1234.5);
  r.c.largest = true;
  r.c.precision = "bf16";
  r.c.captured = false;
  r.flop = 1e12;
  r.profile.push_back({"conv1", "Conv2d", 0.5});
  Row back = RowFromJson(RowJson(r));
  CHECK(Key(back.c) == Key(r.c));
  CHECK(back.images_per_second == r.images_per_second);
  CHECK(back.throttled == r.throttled);
  CHECK(back.profile.size() == 1);
  CHECK(RowJson(back) == RowJson(r));
  CHECK(nlohmann::json::parse(RowJson(r))["images_per_second_per_watt"] == 1234.5 / 500);
  for (const char* bad : {"", "[]", "{\"batch\": \"x\"}", "{\"throttled\": 3}"}) {
    CHECK(RowFromJson(bad).status == Status::kFailed);
  }
}

TEST_CASE("a loss of nothing is written, one that isn't finite is told, none is none") {
  Row r = Made("exp", 1, 100);
  CHECK_FALSE(nlohmann::json::parse(RowJson(r)).contains("loss"));
  PutLoss(0, &r);
  CHECK(nlohmann::json::parse(RowJson(r))["loss"] == 0.0);
  CHECK(RowFromJson(RowJson(r)).loss == 0);
  CHECK(r.reason.empty());
  r.reason = "tf32 is fp32 on a CPU";
  PutLoss(std::nan(""), &r);
  CHECK_FALSE(nlohmann::json::parse(RowJson(r)).contains("loss"));
  CHECK(r.reason == "tf32 is fp32 on a CPU; the loss is nan: no training goes on like this");
  CHECK(std::isnan(RowFromJson(RowJson(r)).loss));
}

TEST_CASE("two calls side by side") {
  std::vector<Row> a = {Made("exp", 64, 100), Made("exp", 128, 200), Made("torch", 64, 80)};
  std::vector<Row> b = {Made("exp", 64, 150), Made("exp", 256, 300)};
  a[1].status = Status::kMemoryLimit;
  a[1].images_per_second = 0;
  std::vector<Pair> pairs = PairUp(a, b);
  REQUIRE(pairs.size() == 4);
  CHECK(pairs[0].ratio == 1.5);
  CHECK(pairs[1].b == nullptr);
  CHECK(MeanRatio(pairs) == 1.5);
  CHECK(MeanRatio({}) == 0);
  std::string text = CompareText("a", "b", pairs);
  CHECK(text.find("1.500") != std::string::npos);
  CHECK(text.find("mem lim") != std::string::npos);
  CHECK(text.find("no case is in both") == std::string::npos);
  CHECK(CompareText("a", "b", PairUp({a[0]}, {b[1]})).find("no case is in both") !=
        std::string::npos);
  std::string markdown = CompareMarkdown("a", "b", {{"driver", "1", "2"}}, pairs);
  CHECK(markdown.find("| 100.0 | 150.0 | 1.500 |") != std::string::npos);
  CHECK(markdown.find("| driver | 1 | 2 |") != std::string::npos);
  b[0].measured_ns = 1;
  b[0].machine = "m3";
  CHECK(
      CompareCsv({"f0", "a,1", "m1", {{"driver", "1"}, {"CPU", "x"}}, {}, {}},
                 {"f1", "b", "m2", {}, {}, {}}, PairUp(a, b)) ==
      "program,kind,model,batch,largest,precision,mode,\"a,1\",b,ratio,a_measured_at,a_machine,"
      "a_environment,b_measured_at,b_machine,b_environment\n"
      "exp,step,resnet50,64,0,fp32,graph fused deterministic,100,150,1.5,,m1,driver: 1; CPU: x,"
      "1970-01-01T00:00:00Z,m3,\n"
      "exp,step,resnet50,128,0,fp32,graph fused deterministic,mem lim,,,,m1,driver: 1; CPU: x,,,\n"
      "torch,step,resnet50,64,0,fp32, deterministic,80,,,,m1,driver: 1; CPU: x,,,\n"
      "exp,step,resnet50,256,0,fp32,graph fused deterministic,,300,,,,,,m2,\n");
  std::string html = CompareHtml("a", "<b>", Differences({{"driver", "1"}}, {}), pairs);
  CHECK(html.find("<tr><td>driver</td><td>1</td><td>-</td></tr>") != std::string::npos);
  CHECK(html.find("<b>") == std::string::npos);
  // Of the model's fastest, 300.
  CHECK(html.find("class=\"bar second\" style=\"width:50.0%\"></span></span><span "
                  "class=\"value\">150.0 (1.500)<") != std::string::npos);
  CHECK(html.find("class=\"bar first\" style=\"width:0.0%\"></span></span><span "
                  "class=\"value\">mem lim<") != std::string::npos);
}

TEST_CASE("a loader is the same loader whatever the steps of its call were") {
  Row a = Made("exp", 64, 100), b = Made("exp", 64, 120);
  a.c.kind = b.c.kind = "loader";
  a.c.workers = b.c.workers = 4;
  b.c.model = "ssd300_vgg16", b.c.precision = "bf16";
  CHECK(PairUp({a}, {b}).size() == 1);
  CHECK(CompareText("a", "b", PairUp({a}, {b})).find("loader 64 4 workers") != std::string::npos);
  b.c.height = b.c.width = 300;  // other images are another case
  CHECK(PairUp({a}, {b}).size() == 2);
}

TEST_CASE("a row of a CSV says when, on which machine and in which state it was measured") {
  Row a = Made("exp", 64, 100), b = Made("exp", 128, 200), old = Made("exp", 256, 300);
  a.measured_ns = 1'780'000'000'000'000'000;
  b.measured_ns = a.measured_ns + 86'400'000'000'000;  // a day later, on another card
  b.machine = "m2";
  const std::string csv =
      Csv({{"f0", "x", "m1", {{"driver", "580"}, {"CPU", "y, 8 threads"}}, {}, {a, b}},
           {"f1", "", "m3", {{"driver", "590"}}, {}, {old}}});
  CHECK(csv.find(",reason,measured_at,call,label,machine,environment\n") != std::string::npos);
  CHECK(csv.find(",2026-05-28T20:26:40Z,f0,x,m1,\"driver: 580; CPU: y, 8 threads\"\n") !=
        std::string::npos);
  CHECK(csv.find(",2026-05-29T20:26:40Z,f0,x,m2,\"driver: 580; CPU: y, 8 threads\"\n") !=
        std::string::npos);
  CHECK(csv.find(",,f1,,m3,driver: 590\n") != std::string::npos);  // of before times were kept
  for (const std::string& page : {Markdown({}, {a, b}), Html("T", {}, {a, b})}) {
    CHECK(page.find("2026-05-29T20:26:40Z") != std::string::npos);
    CHECK(page.find("on another machine: m2") != std::string::npos);
  }
  CHECK(Markdown({}, {old}).find("| measured |") == std::string::npos);
}

TEST_CASE("a case through all calls, against its oldest measurement") {
  Row first = Made("exp", 64, 100), second = Made("exp", 64, 150), failed = Made("exp", 64, 0);
  failed.status = Status::kFailed;
  Row other = Made("exp", 64, 10);
  other.c.model = "resnet18";
  // The newest first, as the store lists them.
  const std::vector<Call> calls = {{"f2", "new|<b>", "m", {}, {{"driver", "590"}}, {second, other}},
                                   {"f1", "", "m", {}, {{"driver", "580"}}, {first}},
                                   {"f0", "", "m", {}, {}, {failed}}};
  const std::vector<CaseHistory> cases = Through(calls, {});
  REQUIRE(cases.size() == 2);
  CHECK(cases[0].text == "resnet50 64 fp32 graph fused deterministic");
  REQUIRE(cases[0].points.size() == 3);
  CHECK((cases[0].points[0].ratio == 0 && cases[0].points[1].ratio == 1));
  CHECK((cases[0].points[2].ratio == 1.5 && cases[0].points[2].call == &calls[0]));
  CHECK(cases[1].points.front().ratio == 1);
  REQUIRE(Through(calls, {"resnet18"}).size() == 1);
  CHECK(Through(calls, {"ssd300_vgg16"}).empty());
  const std::string markdown = HistoryMarkdown(calls, cases);
  CHECK(markdown.find("- f1; driver: 580\n") != std::string::npos);
  CHECK(markdown.find("graph fused deterministic | f0 |  | fail |  |\n") != std::string::npos);
  CHECK(markdown.find("| f2 (new\\|&lt;b>) |  | 150.0 | 1.500 |") != std::string::npos);
  const std::string html = HistoryHtml(calls, cases);
  CHECK(html.find("width:66.7%\"></span></span><span class=\"value\">100.0 (1.000)<") !=
        std::string::npos);
  CHECK(html.find("<td>driver</td><td>590</td>") != std::string::npos);
  CHECK(html.find("<b>") == std::string::npos);
}

TEST_CASE("what two machines differ in") {
  Facts a = {{"driver", "580"}, {"CPU", "x"}, {"cuDNN", "9"}};
  Facts b = {{"driver", "590"}, {"CPU", "x"}, {"container", "docker"}};
  std::vector<Difference> d = Differences(a, b);
  REQUIRE(d.size() == 3);
  CHECK((d[0].name == "driver" && d[0].a == "580" && d[0].b == "590"));
  CHECK((d[1].name == "cuDNN" && d[1].a == "9" && d[1].b == "-"));
  CHECK((d[2].name == "container" && d[2].a == "-" && d[2].b == "docker"));
  CHECK(Differences(a, a).empty());
}

TEST_CASE("Markdown, CSV and HTML hold every row and escape what must be") {
  std::vector<Row> rows = {Made("exp", 64, 100), Made("torch", 64, 80)};
  rows.push_back(Made("exp", 512, 1));
  rows[2].status = Status::kMemoryLimit;
  rows[2].images_per_second = rows[2].milliseconds = 0;
  rows[2].reason = "mem lim: a | b, \"<c>\"\nnext";
  Facts facts = {{"device", "<b>H200</b>"}, {"call", "1 (a\nb)"}};
  std::string md = Markdown(facts, rows);
  CHECK(md.find("- device: &lt;b>H200") != std::string::npos);
  CHECK(md.find("- call: 1 (a b)\n") != std::string::npos);
  std::vector<Pair> pairs = PairUp(rows, rows);
  CHECK(CompareMarkdown("x|y\nz", "<i>", {}, pairs).find("x\\|y z") != std::string::npos);
  CHECK(CompareMarkdown("x", "<i>", {}, pairs).find("<i>") == std::string::npos);
  CHECK(md.find("| exp | resnet50 | 64 |") != std::string::npos);
  CHECK(md.find("a \\| b") != std::string::npos);
  std::string csv = Csv({{"f0", "", "m", {}, {}, rows}});
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 4);
  CHECK(csv.find("\"mem lim: a | b, \"\"<c>\"\" next\"") != std::string::npos);
  std::string html = Html("T", facts, rows);
  CHECK(html.find("&lt;b&gt;H200") != std::string::npos);
  CHECK(html.find("<b>H200") == std::string::npos);
  CHECK(html.find("width:80.0%") != std::string::npos);
  CHECK(html.find("@media print") != std::string::npos);
  CHECK(html.find("<script") == std::string::npos);
  CHECK(HeadLine().find("img/s") != std::string::npos);
  CHECK(RowLine(rows[2]).find("mem lim") != std::string::npos);
}

}  // namespace
}  // namespace xp::bench
