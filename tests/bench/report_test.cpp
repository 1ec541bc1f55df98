// Rows as JSON and as tables, and two calls side by side.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/bench/report.h"

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
  CHECK(CompareMarkdown("a", "b", pairs).find("| 100.0 | 150.0 | 1.500 |") != std::string::npos);
  CHECK(CompareCsv("a,1", "b", pairs) ==
        "program,kind,model,batch,largest,precision,mode,\"a,1\",b,ratio\n"
        "exp,step,resnet50,64,0,fp32,graph fused deterministic,100,150,1.5\n"
        "exp,step,resnet50,128,0,fp32,graph fused deterministic,mem lim,,\n"
        "torch,step,resnet50,64,0,fp32, deterministic,80,,\n"
        "exp,step,resnet50,256,0,fp32,graph fused deterministic,,300,\n");
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
  CHECK(CompareMarkdown("x|y\nz", "<i>", pairs).find("x\\|y z") != std::string::npos);
  CHECK(CompareMarkdown("x", "<i>", pairs).find("<i>") == std::string::npos);
  CHECK(md.find("| exp | resnet50 | 64 |") != std::string::npos);
  CHECK(md.find("a \\| b") != std::string::npos);
  std::string csv = Csv(rows);
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
