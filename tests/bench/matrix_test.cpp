// The matrix file of `exp bench`: its product, and what it can't be.
#include "exp/bench/matrix.h"

#include "catch.h"
#include "exp/base/error.h"
#include "exp/bench/report.h"
#include "exp/config/load.h"

namespace xp::bench {
namespace {

config::Node Yaml(const std::string& text) {
  config::LoadOptions options;
  options.schema_keys = false;
  return config::LoadText(text, "matrix.yaml", {}, options).root;
}

TEST_CASE("a matrix file is the product of its lists") {
  Matrix m = ReadMatrix(Yaml("models: [resnet50, ssd300_vgg16]\nbatches: [1, 2, 4]\n"
                             "precisions: [fp32, bf16]\ngraph: [true, false]\nrepeats: 7\n"
                             "largest_batch: true\n"
                             "loader: {workers: [1, 2], batches: 8}\n"
                             "end_to_end: {models: resnet18, batches: 4, workers: 2, epochs: 4}\n"),
                        Case{});
  CHECK(m.cases.size() == 2 * 3 * 2 * 2);
  CHECK(m.cases[0].repeats == 7);
  CHECK(m.cases[1].batch == 2);
  REQUIRE(m.largest.size() == 2 * 2 * 2);  // once for all batches
  CHECK(m.largest[2].captured);
  CHECK(m.largest[2].precision == "bf16");
  CHECK(m.loader_part.workers == std::vector<int>{1, 2});
  REQUIRE(m.loader.size() == 2 * m.loader_part.batches.size());
  CHECK(m.loader[1].workers == 2);
  CHECK(m.loader[1].kind == "loader");
  CHECK(m.end_to_end_part.models == std::vector<std::string>{"resnet18"});
  CHECK(m.end_to_end_part.epochs == 4);
  CHECK(ReadMatrix(Yaml("{}"), Case{}).cases.size() == 1);
  m = ReadMatrix(
      Yaml("precisions: [fp32, bf16]\nparts:\n  - {models: [resnet18], batches: [1, 2]}\n"
           "  - {models: [ssd300_vgg16], batches: 4, precisions: bf16}\n"),
      Case{});
  REQUIRE(m.cases.size() == 5);
  CHECK(m.cases[3].precision == "bf16");
  CHECK(m.cases[4].model == "ssd300_vgg16");
  CHECK(m.cases[4].batch == 4);
  Case low;
  low.height = 100;  // the width is each model's own
  m = ReadMatrix(Yaml("models: [resnet18, ssd300_vgg16]\n"), low);
  CHECK(m.cases[0].width == 224);
  CHECK(m.cases[1].width == 300);
  CHECK(m.cases[1].height == 100);
}

TEST_CASE("cases that parts say twice are measured once; several devices are told apart") {
  Matrix m = ReadMatrix(Yaml("parts:\n  - {models: [resnet18], batches: [1, 2]}\n"
                             "  - {models: [resnet18], batches: [2, 4]}\n"),
                        Case{});
  CHECK(m.cases.size() == 3);
  CHECK(Mode(m.cases[0]) == "graph fused deterministic");
  m = ReadMatrix(Yaml("devices: [cpu, 'cuda:0', 'cuda:1']\nbatches: [1]\n"), Case{});
  REQUIRE(m.cases.size() == 3);
  CHECK(Mode(m.cases[1]) == "graph fused deterministic cuda:0");
  Row a, b;
  a.c = m.cases[0], b.c = m.cases[1];
  a.images_per_second = 1, b.images_per_second = 50;
  std::vector<Row> rows = {a, b};
  std::vector<Pair> pairs = PairUp(rows, rows);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].ratio == 1);
  CHECK(RowFromJson(RowJson(b)).c.tell_device);
}

TEST_CASE("a matrix may have no steps where it has a loader or training from JPEGs") {
  Matrix m =
      ReadMatrix(Yaml("parts: []\nlargest_batch: true\nrepeats: 7\nloader: {workers: [2, 3]}\n"
                      "end_to_end: {models: [resnet18]}\n"),
                 Case{});
  CHECK(m.cases.empty());
  CHECK(m.largest.empty());
  CHECK(TorchCases(m).empty());
  REQUIRE(m.loader.size() == 2);
  CHECK(m.loader[1].workers == 3);
  CHECK(m.loader[1].repeats == 7);
  REQUIRE(m.end_to_end.size() == 1);
  CHECK(m.end_to_end[0].model == "resnet18");
}

TEST_CASE("mistakes in a matrix file name the place") {
  for (const char* text : {"modls: [resnet50]",
                           "models: [resnet51]",
                           "batches: [0]",
                           "batches: [many]",
                           "precisions: [fp8]",
                           "graph: [maybe]",
                           "seconds_a_repeat: -1",
                           "repeats: 0",
                           "seconds_a_case: 0",
                           "{repeats: 5, seconds_a_repeat: 2, seconds_a_case: 10}",
                           "loader: {worker: 3}",
                           "loader: {workers: 0}",
                           "end_to_end: {models: [none]}",
                           "torch_modes: [fast]",
                           "graph: []",
                           "parts: [{batch: 3}]",
                           "models: []",
                           "batches: []",
                           "precisions: []",
                           "devices: []",
                           "devices: [gpu]",
                           "devices: ['cuda:']",
                           "devices: ['cuda:x']",
                           "devices: ['cuda:99999999999']",
                           "parts: []",
                           "torch_modes: []",
                           "repeats: [2, 3]",
                           "loader: {images: /nonexistent}",
                           "loader: {images: /proc/self/fd}",  // no JPEG
                           "loader: {workers: []}",
                           "end_to_end: {models: [fasterrcnn_resnet50_fpn]}"}) {
    INFO(text);
    try {
      ReadMatrix(Yaml(text), Case{});
      FAIL("it was taken");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kUsage);
      CHECK(std::string(e.what()).find("matrix.yaml:1:") != std::string::npos);
    }
  }
}

TEST_CASE("of a list the value that is wrong is named") {
  auto where = [](const char* text) {
    try {
      ReadMatrix(Yaml(text), Case{});
    } catch (const Error& e) {
      return e.text().where + " " + e.text().what.substr(0, e.text().what.find(" "));
    }
    return std::string("it was taken");
  };
  CHECK(where("batches: [1, 2, 0]") == "matrix.yaml:1:17 `batches.2`");
  CHECK(where("models:\n- resnet18\n- resnet51") == "matrix.yaml:3:3 `models.1`");
  CHECK(where("precisions: [fp32, fp8]") == "matrix.yaml:1:20 `precisions.1`");
  CHECK(where("devices: [cpu, gpu]") == "matrix.yaml:1:16 `devices.1`");
  CHECK(where("fusion: [true, 3]") == "matrix.yaml:1:16 `fusion.1`");
  CHECK(where("torch_modes: jit") == "matrix.yaml:1:14 `torch_modes`");
}

TEST_CASE("an unknown key is told with those of its place, and the nearest") {
  auto told = [](const char* text) {
    try {
      ReadMatrix(Yaml(text), Case{});
    } catch (const Error& e) {
      return e.text();
    }
    FAIL("it was taken");
    return ErrorText{};
  };
  CHECK(told("modles: [resnet18]").next == "did you mean `models`?");
  CHECK(told("{parts: [{repeats: 3}]}").expected ==
        "devices, models, precisions, batches, graph, fusion, deterministic");
  CHECK(told("{parts: [{repeats: 3}]}").what == "`parts.0.repeats` is no key of a bench matrix");
  CHECK(told("{loader: {model: resnet18}}").expected == "images, count, size, workers, batches");
  CHECK(told("{end_to_end: {epoch: 3}}").next == "did you mean `epochs` or `images_an_epoch`?");
}

TEST_CASE("a value that a list has twice counts once; a matrix of far too many rows is a mistake") {
  Matrix m = ReadMatrix(Yaml("{models: [resnet18, resnet18], batches: [2, 1, 2], graph: [true, "
                             "true], loader: {workers: [1, 1], batches: [4, 4]}}"),
                        Case{});
  REQUIRE(m.cases.size() == 2);
  CHECK(m.cases[0].batch == 2);
  CHECK(m.loader.size() == 1);
  std::string batches;
  for (int i = 1; i <= 3000; ++i) batches += std::to_string(i) + ",";
  try {
    ReadMatrix(Yaml("{batches: [" + batches + "], precisions: [fp32, tf32, bf16, fp16]}"), Case{});
    FAIL("it was taken");
  } catch (const Error& e) {
    CHECK(e.text().what == "the matrix has 12000 rows");
    CHECK(e.text().where == "matrix.yaml:1:1");
  }
}

TEST_CASE("what the command line says of all cases the file can say, too") {
  Matrix m = ReadMatrix(
      Yaml("{height: 64, threads: 2, profile: true, models: [resnet18], seconds_a_case: 9.5, "
           "repeats: 9}"),
      Case{});
  REQUIRE(m.cases.size() == 1);
  CHECK(m.cases[0].height == 64);
  CHECK(m.cases[0].width == 224);
  CHECK(m.cases[0].threads == 2);
  CHECK(m.cases[0].profile);
  CHECK(m.cases[0].seconds_a_case == 9.5);
}

}  // namespace
}  // namespace xp::bench
