#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/bench/matrix.h"
#include "exp/bench/photos.h"
#include "exp/bench/report.h"
#include "exp/bench/throughput.h"
#include "exp/config/load.h"
#include "exp/data/jpeg.h"
#include "src/bench/power.h"
#include "src/bench/trial.h"

namespace xp::bench {
namespace {

Case Small(int batch) {
  Case c;
  c.model = "resnet18";
  c.batch = batch;
  c.device = "cpu";
  c.threads = 2;
  c.height = c.width = 32;
  c.seconds_a_repeat = 0.02;
  c.settle_seconds = 0.05;
  c.repeats = 3;
  c.warmup = 1;
  return c;
}

config::Node Yaml(const std::string& text) {
  config::LoadOptions options;
  options.schema_keys = false;
  return config::LoadText(text, "matrix.yaml", {}, options).root;
}

TEST_CASE("windows: outliers are left out, at most a third, never the fast ones") {
  Windows w = JudgeWindows({1.00, 1.01, 0.99, 1.02, 2.5});
  CHECK(w.outliers == 1);
  CHECK(w.median == 1.01);
  CHECK(w.kept.back() == 1.02);
  w = JudgeWindows({1, 3, 3, 3, 3});
  CHECK(w.outliers == 0);
  CHECK(w.median == 3);
  w = JudgeWindows({1, 1, 1, 9, 9, 9});
  CHECK(w.kept.size() >= 4);
  w = JudgeWindows({2});
  CHECK(w.median == 2);
  CHECK(w.outliers == 0);
  w = JudgeWindows({1.0, 1.05, 1.09});  // within a tenth nothing is an outlier
  CHECK(w.outliers == 0);
}

TEST_CASE("steps are measured on the CPU, with work and memory") {
  Row r = MeasureSteps(Small(2));
  INFO(r.reason);
  REQUIRE(r.status == Status::kOk);
  CHECK(r.images_per_second > 0);
  CHECK(std::abs(r.images_per_second - 2 / (r.milliseconds * 1e-3)) < 1e-6 * r.images_per_second);
  CHECK(r.fastest <= r.milliseconds);
  CHECK(r.slowest >= r.milliseconds);
  CHECK(std::isfinite(r.loss));
  CHECK(r.bytes > 11'000'000 * 12);  // weights, gradients, momentum
  CHECK(r.setup_seconds > 0);
  CompareWithSpeeds({1e9, 1e9}, &r);
  CHECK(r.matrix_share > 0);
  Case plain = Small(2);
  plain.captured = plain.fusion = false;
  plain.profile = true;
  Row p = MeasureSteps(plain);
  REQUIRE(p.status == Status::kOk);
  CHECK(p.loss > 0);
  CHECK(p.profile.size() > 50);
  CHECK(p.moved_bytes > r.moved_bytes);  // fusion saves passes over memory
  CHECK(p.flop == r.flop);
}

TEST_CASE("FLOP of ResNet-50: 4.09 GMAC forward, three times that in training") {
  // torchvision's published figure: 4.09 GMACs at 224 x 224.
  Case c;
  c.batch = 2;
  train::OptimizerOptions optimizer;
  TrialGraph t = BuildTrialGraph(c, graph::DType::kF32, optimizer);
  double gmac = WorkOf(*t.graph).flop / 2 / c.batch * 1e-9;
  CHECK(gmac > 3 * 4.09 - 0.2);  // the first convolution needs no gradient of the image
  CHECK(gmac < 3 * 4.09);
}

TEST_CASE("a case that can't run is a row with its reason") {
  Case c = Small(2);
  c.model = "nonsense";
  CHECK(MeasureSteps(c).status == Status::kFailed);
  c = Small(1 << 16);
  c.height = c.width = 2048;
  Row r = MeasureSteps(c);
  CHECK(r.status == Status::kMemoryLimit);
  CHECK(r.reason.find("GiB") != std::string::npos);
  CHECK(r.reason.ends_with(fmt::format("; the plan of batch {} fits", LargestBatch(c, 65535))));
  c.batch = 1;
  c.height = c.width = 65536;
  CHECK(MeasureSteps(c).reason.ends_with("; not even one image fits"));
  c = Small(2);
  c.device = "cuda:77";
  CHECK(MeasureSteps(c).status == Status::kFailed);
}

TEST_CASE("a measurement that is stopped is no row") {
  std::atomic<bool> stop{true};
  auto interrupted = [](auto measure) {
    try {
      measure();
    } catch (const Error& e) {
      return e.kind() == ErrorKind::kInterrupted;
    }
    return false;
  };
  CHECK(interrupted([&] { MeasureSteps(Small(2), &stop); }));
  LoaderPart part;
  part.count = 2;
  auto photos = OpenPhotos(part);
  Case c = Small(2);
  c.workers = 1;
  CHECK(interrupted([&] { MeasureLoader(c, part, *photos, &stop); }));
  stop = false;
  CHECK(MeasureSteps(Small(2), &stop).status == Status::kOk);
}

TEST_CASE("what the CPU doesn't compute is computed in fp32, with a note") {
  Case c = Small(2);
  CHECK(PrecisionOf(c).note.empty());
  c.precision = "tf32";
  CHECK(PrecisionOf(c).precision == "fp32");
  CHECK(PrecisionOf(c).note.find("tf32") != std::string::npos);
}

TEST_CASE("memory grows with the batch, and the largest batch is the last that fits") {
  Case c = Small(4);
  uint64_t four = LeastBytes(c, graph::DType::kF32);
  c.batch = 8;
  CHECK(LeastBytes(c, graph::DType::kF32) > four);
  CHECK(LargestBatch(c, 8) == 8);  // the limit
  c.height = c.width = 1024;
  int largest = LargestBatch(c, 1 << 16);
  CHECK(largest > 0);
  CHECK(largest < 1 << 16);
  Row measured = MeasureSteps(Small(2));
  CHECK(LeastBytes(Small(2), graph::DType::kF32) <= measured.bytes);
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

TEST_CASE("the loader and training from JPEGs") {
  LoaderPart part;
  part.count = 8;
  part.size = 32;
  auto photos = OpenPhotos(part);
  Case c = Small(4);
  c.workers = 2;
  Row loader = MeasureLoader(c, part, *photos);
  INFO(loader.reason);
  REQUIRE(loader.status == Status::kOk);
  CHECK(loader.images_per_second > 0);
  CHECK(Mode(loader.c) == "2 workers 32x32");
  EndToEndPart whole;
  whole.count = 8;
  whole.size = 32;
  whole.epochs = 3;
  whole.images_an_epoch = 8;
  Row trained = MeasureEndToEnd(c, whole, *photos);
  INFO(trained.reason);
  REQUIRE(trained.status == Status::kOk);
  CHECK(trained.first_epoch_seconds > 0);
  // Of what the JPEGs come to, not of the steps' matrix; a model's own size isn't told.
  CHECK(Mode(trained.c).ends_with("2 workers 32x32"));
  CHECK(trained.epoch_seconds > 0);
  CHECK(std::abs(trained.images_per_second - 8 / trained.epoch_seconds) <
        1e-6 * trained.images_per_second);
  CHECK(std::isfinite(trained.loss));
  c.model = "ssd300_vgg16";
  CHECK(MeasureEndToEnd(c, whole, *photos).status == Status::kFailed);
  LoaderPart none;
  none.images = "/no/such/folder";
  CHECK_THROWS_AS(OpenPhotos(none), Error);
}

TEST_CASE("drawn photographs are JPEGs of the size, the same each time") {
  std::vector<std::string> a = DrawPhotos(2), b = DrawPhotos(2);
  CHECK(a == b);
  CHECK(a[0] != a[1]);
  data::JpegInfo info =
      data::ReadJpegInfo({reinterpret_cast<const uint8_t*>(a[0].data()), a[0].size()}, "drawn");
  CHECK(info.width == 500);
  CHECK(info.height == 375);
  CHECK(a[0].size() > 40'000);
  CHECK(a[0].size() < 140'000);
}

TEST_CASE("power and what held the clocks down") {
  std::vector<snapshot::Nvml::Sample> samples(10);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].power_mw = 600000;
    samples[i].sm_mhz = 1700;
    samples[i].celsius = 50 + static_cast<int>(i);
    samples[i].throttle = i < 3 ? 0x04 : 0x01;  // power cap; idle, which is no trouble
  }
  PowerSeen seen = Summarise(samples);
  CHECK(seen.watts == 600);
  CHECK(seen.celsius == 59);
  CHECK(seen.throttled == std::vector<std::string>{"power cap 30 %"});
  CHECK(Summarise({}).watts == 0);
}

}  // namespace
}  // namespace xp::bench
