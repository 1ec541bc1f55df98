#include "exp/train/coco_eval.h"

#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"

using namespace xp;
using namespace xp::train;
using nlohmann::json;

namespace {

Detections ReadDetections(const std::filesystem::path& path) {
  Detections detections;
  for (const json& d : json::parse(ReadFile(path))) {
    std::array<double, 4> box = d["bbox"];
    detections.Add(d["image_id"], box, d["score"], d["category_id"]);
  }
  return detections;
}

// gt.json, dets.json and what pycocotools said, expected.json (make_coco_sets.py).
void Compare(const std::filesystem::path& folder) {
  INFO(folder.string());
  data::CocoDataset dataset = data::LoadCoco(folder / "gt.json", {.policy = data::Policy::kIgnore});
  json expected = json::parse(ReadFile(folder / "expected.json"));
  Detections detections = ReadDetections(folder / "dets.json");
  CocoResult result = EvaluateBbox(dataset, detections);
  for (size_t i = 0; i < 12; ++i) {
    INFO(kCocoStatNames[i]);
    CHECK(std::abs(result.stats[i] - expected["stats"][i].get<double>()) < 1e-9);
  }
  REQUIRE(result.classes.size() == expected["classes"].size());
  for (size_t k = 0; k < result.classes.size(); ++k) {
    const ClassResult& c = result.classes[k];
    const json& e = expected["classes"][k];
    CHECK(c.category_id == e[0].get<int64_t>());
    const double values[] = {c.ap, c.ap50, c.ap75, c.ap_small, c.ap_medium, c.ap_large, c.ar100};
    for (size_t i = 0; i < 7; ++i) CHECK(std::abs(values[i] - e[i + 1].get<double>()) < 1e-9);
  }
  CHECK(EvaluateBbox(dataset, detections, 1).stats == EvaluateBbox(dataset, detections, 3).stats);
}

void CompareAll(const std::filesystem::path& folder) {
  int sets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    Compare(entry.path());
    ++sets;
  }
  CHECK(sets > 0);
}

data::CocoDataset OneImage(std::vector<data::CocoAnnotation> annotations) {
  data::CocoDataset d;
  d.path = "one.json";
  d.categories = {{1, "thing"}, {4, "other"}};
  d.images = {{7, "a.jpg", 100, 100}};
  d.image_index = {{7, 0}};
  d.first = {0, static_cast<int32_t>(annotations.size())};
  d.annotations = std::move(annotations);
  return d;
}

data::CocoAnnotation Box(double x, double y, double w, double h) {
  data::CocoAnnotation a;
  a.x = x, a.y = y, a.w = w, a.h = h, a.area = w * h;
  return a;
}

}  // namespace

TEST_CASE("the twelve numbers and each class's are pycocotools'") {
  CompareAll(std::string(EXP_SOURCE_DIR) + "/tests/train/fixtures/coco_eval");
}

TEST_CASE("live comparison with pycocotools", "[.][pycocotools]") {
  const char* folder = std::getenv("EXP_COCO_SETS");
  REQUIRE(folder != nullptr);
  CompareAll(folder);
}

TEST_CASE("perfect detections give 1, none give 0, and no boxes give -1") {
  data::CocoDataset d = OneImage({Box(10, 10, 20, 20), Box(50, 50, 40, 40)});
  Detections found;
  found.Add(7, {10, 10, 20, 20}, 0.9, 1);
  found.Add(7, {50, 50, 40, 40}, 0.8, 1);
  CocoResult r = EvaluateBbox(d, found);
  CHECK(r.map() == Approx(1).epsilon(1e-12));
  CHECK(r.stats[3] == Approx(1).epsilon(1e-12));
  CHECK(r.stats[4] == Approx(1).epsilon(1e-12));
  CHECK(r.stats[5] == -1);   // no large box
  CHECK(r.stats[6] == 0.5);  // one detection an image finds one of two
  CHECK(r.classes[1].ap == -1);
  REQUIRE(r.precision.size() == 10 * 101 * 2);
  CHECK(r.precision[0] == Approx(1).epsilon(1e-12));
  CHECK(r.precision[1] == -1);
  CHECK(EvaluateBbox(d, {}).map() == 0);
  CHECK(EvaluateBbox(OneImage({}), found).map() == -1);
}

TEST_CASE("a detection inside a crowd is neither right nor wrong (mmdetection#10019)") {
  data::CocoAnnotation crowd = Box(50, 50, 50, 50);
  crowd.crowd = true;
  data::CocoDataset d = OneImage({Box(10, 10, 20, 20), crowd});
  Detections found;
  found.Add(7, {10, 10, 20, 20}, 0.5, 1);
  for (double x : {52, 60, 70}) found.Add(7, {x, 60, 10, 10}, 0.9, 1);
  CHECK(EvaluateBbox(d, found).map() == Approx(1).epsilon(1e-12));
  // Outside of it they would count.
  d.annotations[1].crowd = false;
  CHECK(EvaluateBbox(d, found).map() < 0.2);
}

TEST_CASE("detections that can't be evaluated are refused") {
  data::CocoDataset d = OneImage({Box(10, 10, 20, 20)});
  Detections unknown;
  unknown.Add(8, {1, 1, 2, 2}, 0.9, 1);
  CHECK_THROWS_WITH(EvaluateBbox(d, unknown), ContainsSubstring("image 8"));
  Detections infinite;
  infinite.Add(7, {1, 1, std::numeric_limits<double>::quiet_NaN(), 2}, 0.9, 1);
  CHECK_THROWS_WITH(EvaluateBbox(d, infinite), ContainsSubstring("not finite"));
  Detections uneven;
  uneven.scores.push_back(1);
  CHECK_THROWS_AS(EvaluateBbox(d, uneven), Error);
  Detections other;
  other.Add(7, {10, 10, 20, 20}, 0.9, 99);  // a category that isn't evaluated
  CHECK(EvaluateBbox(d, other).map() == 0);
}

TEST_CASE("many classes take no more memory than there are boxes") {
  // As in LVIS or Objects365: few of the classes are in an image.
  constexpr int kImages = 4000, kClasses = 1500;
  data::CocoDataset dataset;
  for (int k = 0; k < kClasses; ++k) dataset.categories.push_back({k + 1, std::to_string(k)});
  Detections detections;
  dataset.first = {0};
  for (int i = 0; i < kImages; ++i) {
    dataset.images.push_back({i, std::to_string(i), 100, 100});
    dataset.image_index[i] = i;
    data::CocoAnnotation a;
    a.id = i + 1;
    a.image = i;
    a.category = i % kClasses;
    a.w = a.h = 50;
    a.area = 2500;
    dataset.annotations.push_back(a);
    dataset.first.push_back(i + 1);
    detections.Add(i, {0, 0, 50, 50}, 0.9, a.category + 1);
  }
  auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = peak();
  CocoResult result = EvaluateBbox(dataset, detections);
  CHECK(result.stats[0] == Approx(1));
#ifdef __SANITIZE_ADDRESS__
  constexpr long kMost = 600 << 10;  // freed memory is kept aside for a while
#else
  constexpr long kMost = 300 << 10;
#endif
  CHECK(peak() - before < kMost);
}
