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
  const Row lost = MeasureLoader(c, none, *OpenPhotos(none));
  CHECK(lost.status == Status::kFailed);
  CHECK(lost.reason.starts_with("/no/such/folder"));
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
  samples.resize(20);  // the card was lost: of what isn't told no share is known
  CHECK(Summarise(samples).throttled == std::vector<std::string>{"power cap 30 %"});
  CHECK(Summarise({}).watts == 0);
}

}  // namespace
}  // namespace xp::bench
