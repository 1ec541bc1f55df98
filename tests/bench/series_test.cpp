// Which cases of a matrix needn't be measured, with made-up measurements.
#include "exp/bench/series.h"
#include "catch.h"
#include "src/bench/guarded.h"

namespace xp::bench {
namespace {

Case On(int batch, double seconds_a_case, const std::string& precision = "fp32") {
  Case c;
  c.device = "cpu";
  c.batch = batch;
  c.seconds_a_case = seconds_a_case;
  c.precision = precision;
  return c;
}

// A device that takes `an_image` seconds an image and holds `most` images; measuring takes ten
// steps.
struct Device {
  double an_image = 1;
  int most = 1 << 20, largest = 0;
  std::vector<int> measured;  // batches

  StepSeries Series() {
    return StepSeries(
        [this](const Case& c) {
          measured.push_back(c.batch);
          Row row;
          row.c = c;
          row.milliseconds = 1e3 * an_image * c.batch;
          row.images_per_second = 1 / an_image;
          bool slow = c.seconds_a_case > 0 && 10 * an_image * c.batch > c.seconds_a_case;
          if (slow) row.status = Status::kTimeLimit, row.reason = "a step takes long";
          if (c.batch > most) row.status = Status::kMemoryLimit, row.reason = "is full";
          return row;
        },
        [this](const Case&, int limit) { return std::min(limit, largest); });
  }
};

TEST_CASE("batches above one that takes too long or doesn't fit aren't measured") {
  Device device;
  StepSeries series = device.Series();
  CHECK(series.Measure(On(1, 45)).status == Status::kOk);
  CHECK(series.Measure(On(8, 45)).status == Status::kTimeLimit);
  Row row = series.Measure(On(16, 45));
  CHECK(row.status == Status::kTimeLimit);
  CHECK(row.reason == "batch 8 takes too long already");
  CHECK(row.c.batch == 16);
  CHECK(series.Measure(On(4, 45)).status == Status::kOk);
  CHECK(device.measured == std::vector<int>{1, 8, 4});
  Case plain = On(16, 45);  // says nothing of another case
  plain.fusion = false;
  series.Measure(plain);
  CHECK(device.measured.back() == 16);
  CHECK(series.Measure(On(16, 0)).status == Status::kOk);  // without a bound
  device.most = 20;
  CHECK(series.Measure(On(32, 0)).reason == "is full");
  row = series.Measure(On(64, 0));
  CHECK(row.status == Status::kMemoryLimit);
  CHECK(row.reason == "batch 32 doesn't fit already");
}

TEST_CASE("a case of which one step alone takes longer than its bound isn't begun") {
  Device device;
  StepSeries series = device.Series();
  series.Measure(On(2, 45));
  Row row = series.Measure(On(46, 45));
  CHECK(row.status == Status::kTimeLimit);
  CHECK(row.reason ==
        "not measured: one step would take 46 s, at 1 s an image as with smaller batches; the "
        "bound is 45 s a case");
  CHECK(device.measured == std::vector<int>{2});
}

TEST_CASE("what a CPU computes in another precision is measured once, and skipped once") {
  Device device;
  device.most = 8;
  StepSeries series = device.Series();
  for (const char* precision : {"fp32", "tf32"}) {
    for (int batch : {1, 8, 16, 32}) series.Measure(On(batch, 45, precision));
  }
  CHECK(device.measured == std::vector<int>{1, 8});
  Row row = series.Measure(On(8, 45, "tf32"));
  CHECK(row.status == Status::kTimeLimit);
  CHECK(row.reason.find("measured once, above; a step takes long") != std::string::npos);
  // Where fp32 isn't asked for, its rows are known all the same.
  Device alone;
  alone.most = 8;
  StepSeries other = alone.Series();
  other.Measure(On(16, 0, "tf32"));
  CHECK(other.Measure(On(32, 0, "tf32")).reason == "batch 16 doesn't fit already");
  CHECK(other.Measure(On(32, 0, "tf32")).c.precision == "fp32");
}

TEST_CASE("the largest batch is searched down to one that fits, within the bound") {
  Device device;
  device.largest = 200, device.most = 190;
  StepSeries series = device.Series();
  Row row = series.MeasureLargest(On(1, 0), 4096);
  CHECK(row.status == Status::kOk);
  CHECK(row.c.largest);
  CHECK(row.c.batch == 183);  // 3 % below 200, then 6 % below that
  CHECK(device.measured == std::vector<int>{200, 194, 183});
  device.measured.clear();
  series.Measure(On(2, 45));
  row = series.MeasureLargest(On(1, 45), 4096);
  CHECK(row.status == Status::kTimeLimit);
  CHECK(row.c.batch == 200);
  CHECK(row.reason.find("one step would take 200 s") != std::string::npos);
  CHECK(device.measured == std::vector<int>{2});
  StepSeries slow = device.Series();
  slow.Measure(On(8, 45));
  CHECK(slow.MeasureLargest(On(1, 45), 4096).reason == "batch 8 takes too long already");
  row = series.MeasureLargest(On(1, 45, "tf32"), 4096);
  CHECK(row.reason.find("measured once, above") != std::string::npos);
  device.largest = 0;
  CHECK(device.Series().MeasureLargest(On(1, 0), 4096).reason == "not even one image fits");
}

TEST_CASE("steps, loader and training that take longer than the bound are rows that say so") {
  Case c = On(2, 0);
  c.model = "resnet18", c.threads = 1, c.height = c.width = 64;
  c.seconds_a_repeat = 0.01, c.settle_seconds = 0.01;
  c.repeats = 3, c.warmup = 3;
  CHECK(MeasureSteps(c).status == Status::kOk);
  c.seconds_a_case = 600;
  CHECK(MeasureSteps(c).status == Status::kOk);
  c.seconds_a_case = 1e-6;
  Row row = MeasureSteps(c);
  CHECK(row.status == Status::kTimeLimit);
  CHECK(row.reason.starts_with("the first step took 0."));
  CHECK(row.reason.ends_with(" s; the bound is 1e-06 s a case"));
  CHECK(row.milliseconds > 0);
  CHECK(row.images_per_second == 0);
  c.seconds_a_case = 30;
  c.repeats = 100000;  // of a step each
  c.seconds_a_repeat = 1e-6;
  row = MeasureSteps(c);
  CHECK(row.status == Status::kTimeLimit);
  CHECK(row.reason.starts_with("a step takes "));
  CHECK(row.reason.find(" s, 1 more to warm up and 100000 repeats at least ") != std::string::npos);

  EndToEndPart part;
  part.count = 4, part.size = 32, part.epochs = 2;
  auto photos = OpenPhotos(part);
  c.workers = 1, c.repeats = 3, c.seconds_a_repeat = 20;
  row = MeasureLoader(c, part, *photos);
  CHECK(row.status == Status::kTimeLimit);
  CHECK(row.reason.find(" 3 repeats at least 60 s; the bound is 30 s a case") != std::string::npos);
  part.images_an_epoch = 1 << 20;  // the third step shows it
  row = MeasureEndToEnd(c, part, *photos);
  CHECK(row.status == Status::kTimeLimit);
  CHECK(row.reason.find("1048576 of them in 2 epochs ") != std::string::npos);
  part.images_an_epoch = 4;  // two steps: the whole epoch shows it
  c.seconds_a_case = 1e-6;
  CHECK(MeasureEndToEnd(c, part, *photos).reason.find(" 4 of them in 2 epochs ") !=
        std::string::npos);
  c.seconds_a_case = 600;
  CHECK(MeasureEndToEnd(c, part, *photos).status == Status::kOk);
}

TEST_CASE("a row that took too long survives JSON") {
  Row row;
  row.c = On(4, 0);
  Guarded(&row, [] { throw TimeLimit(1.5, "a step takes 1.5 s"); });
  CHECK(row.milliseconds == 1500);
  CHECK(RowFromJson(RowJson(row)).status == Status::kTimeLimit);
  CHECK(std::string(StatusText(row.status)) == "time lim");
}

}  // namespace
}  // namespace xp::bench
