#include "exp/data/loader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/philox.h"
#include "exp/data/jpeg.h"
#include "exp/data/shapes.h"
#include "tests/data/drawn_set.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::Drawn;
using data::test::TempDir;

namespace {

template <typename T>
void Add(Hasher* hasher, const std::vector<T>& values) {
  hasher->Update(values.data(), values.size() * sizeof(T));
}

std::string HashOf(const Batch& b) {
  Hasher h;
  int shape[] = {b.n, b.height, b.width, b.max_boxes, b.max_ignore};
  h.Update(shape, sizeof(shape));
  Add(&h, b.images);
  Add(&h, b.image_sizes);
  Add(&h, b.scale_factors);
  Add(&h, b.original_sizes);
  Add(&h, b.image_ids);
  Add(&h, b.flips);
  Add(&h, b.boxes);
  Add(&h, b.labels);
  Add(&h, b.box_counts);
  return h.Digest().Hex();
}

std::vector<std::string> Epoch(Loader* loader, uint32_t epoch, int64_t start = 0) {
  std::vector<std::string> hashes;
  Batch batch;
  loader->StartEpoch(epoch, start);
  while (loader->Next(&batch)) hashes.push_back(HashOf(batch));
  return hashes;
}

}  // namespace

TEST_CASE("batches don't depend on workers, prefetch or where the epoch was entered") {
  Drawn drawn;
  LoaderOptions options = drawn.Options();
  options.workers = 1;
  options.prefetch = 1;
  Loader one(drawn.set, options);
  options.workers = 5;
  options.prefetch = 4;
  Loader five(drawn.set, options);
  for (uint32_t epoch : {0u, 1u}) {
    auto a = Epoch(&one, epoch), b = Epoch(&five, epoch);
    CHECK(a == b);
    CHECK(a.size() == static_cast<size_t>(one.batches_per_epoch()));
    auto rest = Epoch(&five, epoch, 3);
    CHECK(rest == std::vector<std::string>(a.begin() + 3, a.end()));
  }
  CHECK(Epoch(&one, 0) != Epoch(&one, 1));
  // Entered again in the middle of another epoch.
  Batch batch;
  five.StartEpoch(0);
  REQUIRE(five.Next(&batch));
  CHECK(Epoch(&five, 1) == Epoch(&one, 1));
  CHECK_THROWS_AS(five.StartEpoch(0, 100), Error);
}

TEST_CASE("an epoch holds each image once, in the shapes that Buckets lists") {
  Drawn drawn;
  for (LastBatch last : {LastBatch::kSmaller, LastBatch::kDrop, LastBatch::kRepeat}) {
    LoaderOptions options = drawn.Options();
    options.last_batch = last;
    Loader loader(drawn.set, options);
    std::set<std::tuple<int, int, int>> allowed, seen;
    for (const Bucket& b : loader.Buckets()) {
      CHECK(b.height % 32 == 0);
      CHECK(b.width % 32 == 0);
      allowed.insert({b.n, b.height, b.width});
    }
    std::map<int64_t, int> count;
    for (uint32_t epoch = 0; epoch < 8; ++epoch) {
      Batch batch;
      loader.StartEpoch(epoch);
      while (loader.Next(&batch)) {
        seen.insert({batch.n, batch.height, batch.width});
        for (int64_t id : batch.image_ids) ++count[id];
        for (int i = 0; i < batch.n; ++i) {
          CHECK((batch.original_sizes[2 * i] > batch.original_sizes[2 * i + 1]) ==
                (batch.height > batch.width));
        }
      }
    }
    CHECK(std::includes(allowed.begin(), allowed.end(), seen.begin(), seen.end()));
    CHECK(count.size() == 11);
    int total = 0;
    for (auto [id, n] : count) total += n;
    // 7 landscape and 4 portrait images in twos.
    CHECK(total == 8 * (last == LastBatch::kSmaller ? 11 : last == LastBatch::kDrop ? 10 : 12));
    CHECK(allowed.size() == (last == LastBatch::kSmaller ? 6 : 4));
  }
}

// Report 7 (mmdetection#10019): crowds come apart and are never positives.
TEST_CASE("boxes go with the pixels through resize and mirrors") {
  // A white image with one black rectangle: where the pixels are dark is where the box must be.
  TempDir dir("boxes");
  RgbImage image;
  image.Reset(100, 60);
  std::fill(image.pixels.begin(), image.pixels.end(), 255);
  for (int y = 10; y < 30; ++y) std::fill(image.Row(y) + 3 * 20, image.Row(y) + 3 * 60, 0);
  dir.Write("a.jpg", EncodeJpeg(image, 100));
  auto set = std::make_shared<CocoDataset>(LoadCoco(dir.Write("a.json", R"({
    "images": [{"id": 5, "file_name": "a.jpg", "width": 100, "height": 60}],
    "annotations": [{"id": 1, "image_id": 5, "category_id": 1, "bbox": [20, 10, 40, 20]},
                    {"id": 2, "image_id": 5, "category_id": 1, "bbox": [90, 50, 30, 30]},
                    {"id": 3, "image_id": 5, "category_id": 1, "bbox": [0, 0, 50, 50], "iscrowd": 1},
                    {"id": 4, "image_id": 5, "category_id": 1, "bbox": [1, 1, 0, 9]}],
    "categories": [{"id": 1, "name": "thing"}]})")));
  LoaderOptions options;
  options.img_prefix = dir.path.string();
  options.scales = {{200, 130}};
  options.flip_ratio = 0.5;
  options.vertical_flip_ratio = 0.5;
  Loader loader(set, options);
  CHECK(loader.max_boxes() == 2);
  CHECK(loader.max_ignore() == 1);
  std::set<int> flips;
  for (uint32_t epoch = 0; epoch < 16; ++epoch) {
    Batch b;
    loader.StartEpoch(epoch);
    REQUIRE(loader.Next(&b));
    CHECK(b.height == 128);
    CHECK(b.width == 224);
    CHECK(b.image_sizes == std::vector<int32_t>{120, 200});
    CHECK(b.scale_factors == std::vector<float>{2, 2});
    CHECK(b.box_counts == std::vector<int32_t>{2});
    CHECK(b.ignore_counts == std::vector<int32_t>{1});
    CHECK(b.labels == std::vector<int32_t>{0, 0});
    flips.insert(b.flips[0]);
    int x1 = 999, y1 = 999, x2 = 0, y2 = 0;
    for (int y = 0; y < 120; ++y) {
      for (int x = 0; x < 200; ++x) {
        if (b.images[(y * 224 + x) * 3] > 127) continue;
        x1 = std::min(x1, x), y1 = std::min(y1, y), x2 = std::max(x2, x + 1),
        y2 = std::max(y2, y + 1);
      }
    }
    CHECK(std::vector<float>(b.boxes.begin(), b.boxes.begin() + 4) ==
          std::vector<float>{float(x1), float(y1), float(x2), float(y2)});
    // The second box is clipped to the image.
    CHECK(b.boxes[6] - b.boxes[4] == 20);
    CHECK(b.boxes[7] - b.boxes[5] == 20);
    for (int y = 0; y < 128; ++y) {
      for (int x = y < 120 ? 200 : 0; x < 224; ++x) REQUIRE(b.images[(y * 224 + x) * 3 + 1] == 0);
    }
  }
  CHECK(flips == std::set<int>{0, 1, 2, 3});
}

TEST_CASE("a sliver that a mirror leaves no area in single precision isn't trained on") {
  TempDir dir("sliver");
  RgbImage image;
  image.Reset(800, 600);
  WriteFileAtomic(dir.path / "a.jpg", EncodeJpeg(image, 90));
  const std::string json = dir.Write("a.json", R"({
 "images": [{"id": 1, "file_name": "a.jpg", "width": 800, "height": 600}],
 "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1e-6, 5, 2e-6, 50]},
                 {"id": 2, "image_id": 1, "category_id": 2, "bbox": [10, 20, 30, 40]},
                 {"id": 3, "image_id": 1, "category_id": 1, "bbox": [5, 1e-7, 9, 1e-7], "iscrowd": 1}],
 "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]})");
  LoaderOptions options;
  options.img_prefix = dir.path.string();
  options.scales = {{800, 600}};
  options.samples_per_gpu = 1;
  options.flip_ratio = options.vertical_flip_ratio = 1;
  Loader loader(std::make_shared<CocoDataset>(LoadCoco(json)), options);
  Batch batch;
  loader.StartEpoch(0);
  REQUIRE(loader.Next(&batch));
  CHECK(batch.box_counts[0] == 1);
  CHECK(batch.ignore_counts[0] == 0);
  CHECK(std::vector<float>(batch.boxes.begin(), batch.boxes.begin() + 4) ==
        std::vector<float>{760, 540, 790, 580});
  CHECK(batch.labels[0] == 1);
  CHECK(batch.labels[1] == -1);
  CHECK(batch.boxes[4] == 0);
}

TEST_CASE("a range of scales stays within its padded shapes, and reaches both ends either way") {
  Drawn drawn;
  for (bool falling : {false, true}) {
    LoaderOptions options = drawn.Options();
    options.scales = {{200, 64}, {200, 80}};
    if (falling) std::swap(options.scales[0], options.scales[1]);
    options.multiscale = MultiscaleMode::kRange;
    options.samples_per_gpu = 1;
    Loader loader(drawn.set, options);
    std::set<int> shorter;
    for (uint32_t epoch = 0; epoch < 20; ++epoch) {
      Batch b;
      loader.StartEpoch(epoch);
      while (loader.Next(&b)) {
        CHECK(b.image_sizes[0] <= b.height);
        CHECK(b.image_sizes[1] <= b.width);
        shorter.insert(std::min(b.image_sizes[0], b.image_sizes[1]));
      }
    }
    CHECK(*shorter.begin() == 64);
    CHECK(*shorter.rbegin() == 80);
    CHECK(shorter.size() == 17);
  }
}

TEST_CASE("a range whose bounds go opposite ways is largest between its ends, and fits") {
  Drawn drawn;  // 80x64 and 64x80
  LoaderOptions options = drawn.Options();
  // The longer side is 75 and 101 at the ends, and about 120 where the bounds meet.
  options.scales = {{320, 60}, {101, 100}};
  options.multiscale = MultiscaleMode::kRange;
  options.range_steps = 1;
  options.samples_per_gpu = 1;
  options.size_divisor = 1;
  Loader loader(drawn.set, options);
  int longest = 0;
  for (uint32_t epoch = 0; epoch < 20; ++epoch) {
    Batch b;
    loader.StartEpoch(epoch);
    while (loader.Next(&b)) {
      REQUIRE(b.image_sizes[0] <= b.height);
      REQUIRE(b.image_sizes[1] <= b.width);
      longest = std::max({longest, b.image_sizes[0], b.image_sizes[1]});
    }
  }
  CHECK(longest > 110);
  CHECK(longest < 125);
}

// A whole folder may be missing, whose images lie one after another.

// Report 8 (detectron2#143): never a hang; tests/data/hostile_test.cpp has what isn't even a file.

TEST_CASE("a broken image is named, or replaced under the policy") {
  Drawn drawn;
  std::string bad = drawn.set->images[4].file_name;
  std::filesystem::path path = drawn.dir.path / "images" / bad;
  std::string bytes = ReadFile(path);
  std::string good_hash;
  for (const char* kind : {"truncated", "missing", "another size"}) {
    INFO(kind);
    if (kind[0] == 't') WriteFileAtomic(path, bytes.substr(0, bytes.size() / 2));
    if (kind[0] == 'm') std::filesystem::remove(path);
    if (kind[0] == 'a') {
      RgbImage small;
      small.Reset(10, 10);
      WriteFileAtomic(path, EncodeJpeg(small, 90));
    }
    LoaderOptions options = drawn.Options();
    Loader strict(drawn.set, options);
    strict.StartEpoch(0);
    Batch b;
    int errors = 0, batches = 0;
    while (true) {
      try {
        if (!strict.Next(&b)) break;
        ++batches;
      } catch (const Error& e) {
        CHECK(e.text().where == path.string());
        ++errors;
      }
    }
    CHECK(errors == 1);
    CHECK(batches == strict.batches_per_epoch() - 1);

    options.image_policy = Policy::kDrop;
    Loader drop(drawn.set, options);
    std::vector<std::string> hashes = Epoch(&drop, 0);
    std::vector<std::string> warnings = drop.TakeWarnings();
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], ContainsSubstring(bad));
    CHECK(drop.TakeWarnings().empty());
    if (good_hash.empty()) good_hash = hashes[0];
    options.image_policy = Policy::kIgnore;
    options.workers = 4;
    Loader ignore(drawn.set, options);
    CHECK(Epoch(&ignore, 0) == hashes);
    CHECK(ignore.TakeWarnings().empty());

    // Evaluation sees no image twice: the place stays empty.
    options.image_policy = Policy::kDrop;
    options.leave_out = true;
    Loader evaluation(drawn.set, options);
    evaluation.StartEpoch(0);
    std::set<int64_t> seen;
    int left_out = 0;
    while (evaluation.Next(&b)) {
      for (int i = 0; i < b.n; ++i) {
        CHECK(seen.insert(b.image_ids[static_cast<size_t>(i)]).second);
        if (b.left_out[static_cast<size_t>(i)] == 0) continue;
        ++left_out;
        CHECK(b.image_indices[static_cast<size_t>(i)] == 4);
        CHECK(b.box_counts[static_cast<size_t>(i)] == 0);
        const size_t pixels = static_cast<size_t>(b.height) * b.width * 3;
        CHECK(std::all_of(b.images.begin() + static_cast<std::ptrdiff_t>(i * pixels),
                          b.images.begin() + static_cast<std::ptrdiff_t>((i + 1) * pixels),
                          [](uint8_t v) { return v == 0; }));
      }
    }
    CHECK(left_out == 1);
    CHECK(seen.size() == drawn.set->images.size());
    warnings = evaluation.TakeWarnings();
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], ContainsSubstring(bad) && ContainsSubstring("it is left out"));
  }
}

TEST_CASE("an image that is left out is named once, however many times an epoch has it") {
  Drawn drawn;
  CocoDataset set = *drawn.set;
  const size_t images = set.images.size();
  std::erase_if(set.annotations, [](const CocoAnnotation& a) { return a.image == 1; });
  set.first[2] = set.first[1];
  for (size_t i = 2; i < set.first.size(); ++i)
    set.first[i] = static_cast<int32_t>(
        std::count_if(set.annotations.begin(), set.annotations.end(),
                      [&](const CocoAnnotation& a) { return a.image < static_cast<int>(i); }));
  LoaderOptions options = drawn.Options();
  options.filter_empty_gt = true;
  Loader loader(std::make_shared<CocoDataset>(Repeated(set, 3)), options);
  CHECK(loader.images() == static_cast<int64_t>(3 * (images - 1)));
  const std::vector<std::string> warnings = loader.TakeWarnings();
  REQUIRE(warnings.size() == 1);
  const std::string& name = set.images[1].file_name;
  CHECK_THAT(warnings[0],
             ContainsSubstring(": 1 of " + std::to_string(images) + " images are left out"));
  CHECK(warnings[0].find(name) == warnings[0].rfind(name));
}

TEST_CASE("ranks share an epoch without overlap") {
  Drawn drawn;
  LoaderOptions options = drawn.Options();
  options.last_batch = LastBatch::kDrop;
  Loader all(drawn.set, options);
  auto whole = Epoch(&all, 2);
  options.world = 2;
  std::vector<std::string> joined;
  options.rank = 0;
  Loader first(drawn.set, options);
  options.rank = 1;
  Loader second(drawn.set, options);
  auto a = Epoch(&first, 2), b = Epoch(&second, 2);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    joined.push_back(a[i]);
    joined.push_back(b[i]);
  }
  whole.resize(joined.size());
  CHECK(joined == whole);
}

TEST_CASE("options out of range are refused") {
  Drawn drawn;
  auto with = [&](auto change) {
    LoaderOptions options = drawn.Options();
    change(&options);
    CHECK_THROWS_AS(Loader(drawn.set, options), Error);
  };
  with([](LoaderOptions* o) { o->samples_per_gpu = 0; });
  with([](LoaderOptions* o) { o->workers = 0; });
  with([](LoaderOptions* o) { o->scales.clear(); });
  with([](LoaderOptions* o) { o->scales = {{0, 10}}; });
  with([](LoaderOptions* o) { o->flip_ratio = 1.5; });
  with([](LoaderOptions* o) { o->rank = 1; });
}

TEST_CASE("the drawn set has these bytes on every machine") {
  TempDir dir("shapes");
  DrawShapes(dir.path, {.images = 3, .val = 2, .seed = 7, .width = 96, .height = 64});
  Hasher hasher;
  for (const char* name : {"instances_train.json", "instances_val.json"})
    hasher.Update(ReadFile(dir.path / name));
  CHECK(hasher.Digest().Hex() == "4fdce6f8118af77670ac38f798a4a845");
  RgbImage image = ReadJpeg((dir.path / "images/train_000002.jpg").string());
  CHECK(HashBytes(image.pixels.data(), image.pixels.size()).Hex() ==
        "830d2f4eb620661f5e9baa1118a84d81");
  CocoDataset val = LoadCoco(dir.path / "instances_val.json", {.policy = Policy::kStrict});
  CHECK(val.images.size() == 2);
  CHECK_THROWS_AS(DrawShapes(dir.path, {.images = 0}), Error);
}

TEST_CASE("a repeated set shows each image that many times an epoch, each time augmented anew") {
  Drawn drawn;
  const size_t images = drawn.set->images.size();
  auto thrice = std::make_shared<CocoDataset>(Repeated(*drawn.set, 3));
  REQUIRE(thrice->images.size() == 3 * images);
  REQUIRE(thrice->annotations.size() == 3 * drawn.set->annotations.size());
  for (size_t i = 0; i < thrice->images.size(); ++i) {
    REQUIRE(thrice->Of(static_cast<int>(i)).size() ==
            drawn.set->Of(static_cast<int>(i % images)).size());
    for (const CocoAnnotation& a : thrice->Of(static_cast<int>(i))) {
      CHECK(a.image == static_cast<int32_t>(i));
    }
  }
  LoaderOptions options = drawn.Options();
  options.flip_ratio = 0.5;
  Loader loader(thrice, options);
  std::map<int64_t, int> seen;
  std::map<int64_t, std::set<bool>> mirrored;
  loader.StartEpoch(0);
  Batch batch;
  while (loader.Next(&batch)) {
    for (size_t i = 0; i < batch.image_ids.size(); ++i) {
      ++seen[batch.image_ids[i]];
      mirrored[batch.image_ids[i]].insert((batch.flips[i] & 1) != 0);
    }
  }
  CHECK(seen.size() == images);
  for (const auto& [id, times] : seen) CHECK(times == 3);
  size_t both = 0;
  for (const auto& [id, ways] : mirrored) both += ways.size() == 2;
  CHECK(both > images / 3);  // three quarters are expected
}

TEST_CASE("augmented batches stay in their shapes and don't depend on workers") {
  Drawn drawn;
  LoaderOptions options = drawn.Options();
  options.augment.mosaic.probability = 0.5;
  options.augment.mixup.probability = 0.5;
  options.augment.photometric.probability = 0.5;
  options.augment.expand.probability = 0.5;
  options.augment.min_iou_crop.probability = 0.5;
  options.augment.random_crop.probability = 0.5;
  for (bool keep_ratio : {true, false}) {
    options.keep_ratio = keep_ratio;
    options.workers = 1;
    Loader one(drawn.set, options);
    options.workers = 4;
    Loader four(drawn.set, options);
    CHECK(one.max_boxes() % 8 == 0);
    for (uint32_t epoch = 0; epoch < 3; ++epoch) {
      CHECK(Epoch(&one, epoch) == Epoch(&four, epoch));
      Batch b;
      one.StartEpoch(epoch);
      while (one.Next(&b)) {
        Bucket shape{b.n, b.height, b.width};
        CHECK(std::find(one.Buckets().begin(), one.Buckets().end(), shape) != one.Buckets().end());
        for (int i = 0; i < b.n; ++i) {
          CHECK(b.image_sizes[2 * i] <= b.height);
          CHECK(b.image_sizes[2 * i + 1] <= b.width);
          for (int k = 0; k < b.box_counts[i]; ++k) {
            const float* box = &b.boxes[(i * b.max_boxes + k) * 4];
            CHECK(box[0] >= 0);
            CHECK(box[0] < box[2]);
            CHECK(box[1] < box[3]);
            CHECK(box[2] <= b.image_sizes[2 * i + 1] + 1e-3);
            CHECK(box[3] <= b.image_sizes[2 * i] + 1e-3);
          }
        }
      }
    }
  }
}
