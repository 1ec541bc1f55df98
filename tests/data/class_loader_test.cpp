#include "exp/data/class_loader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/data/audit.h"
#include "exp/data/jpeg.h"
#include "src/data/crop.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::Fixture;
using data::test::ReadPpm;
using data::test::TempDir;

namespace {

// Three classes of 5, 4 and 3 images of one colour each: 200 x 150 pixels.
void Fill(const std::filesystem::path& root) {
  int label = 0;
  for (const char* name : {"ant", "bee", "cat"}) {
    std::filesystem::create_directories(root / name);
    for (int i = 0; i < 5 - label; ++i) {
      RgbImage image;
      image.Reset(200, 150);
      for (size_t p = 0; p < image.pixels.size(); ++p)
        image.pixels[p] = p % 3 == static_cast<size_t>(label) ? 200 : 20;
      WriteFileAtomic(root / name / (std::to_string(i) + ".JPG"), EncodeJpeg(image, 95));
    }
    ++label;
  }
  WriteFileAtomic(root / "ant" / "notes.txt", "not an image");
}

std::vector<std::string> Epoch(ClassLoader* loader, uint32_t epoch, int64_t start = 0) {
  std::vector<std::string> hashes;
  ClassBatch b;
  loader->StartEpoch(epoch, start);
  while (loader->Next(&b)) {
    Hasher h;
    h.Update(b.images.data(), b.images.size());
    h.Update(b.labels.data(), b.labels.size() * 4);
    hashes.push_back(h.Digest().Hex());
  }
  return hashes;
}

}  // namespace

TEST_CASE("a folder of class folders is listed") {
  TempDir dir("folder");
  Fill(dir.path);
  ImageList list = ListImageFolder(dir.path);
  CHECK(list.classes == std::vector<std::string>{"ant", "bee", "cat"});
  CHECK(list.files.size() == 12);
  CHECK(list.files[5] == "bee/0.JPG");
  CHECK(list.labels[5] == 1);
  CHECK(ListImageFolder(dir.path, {"cat", "ant"}).labels ==
        std::vector<int32_t>{0, 0, 0, 1, 1, 1, 1, 1});
  CHECK_THROWS_WITH(ListImageFolder(dir.path, {"dog"}), ContainsSubstring("dog"));
  std::filesystem::create_directories(dir.path / "dog");
  CHECK_THROWS_WITH(ListImageFolder(dir.path), ContainsSubstring("no image"));
  CHECK_THROWS_WITH(ListImageFolder(dir.path / "ant"), ContainsSubstring("no class folder"));
  CHECK_THROWS_WITH(ListImageFolder(dir.path / "none"), ContainsSubstring("No such file"));
}

TEST_CASE("folders as people have them: links, hidden files, other formats, images in no class") {
  namespace fs = std::filesystem;
  TempDir dir("folders");
  RgbImage grey;
  grey.Reset(8, 8);
  const std::string pixel = EncodeJpeg(grey, 90);
  for (const char* name :
       {"train/cat/a.jpg", "train/cat/deep/er/b.JPEG", "train/dog/a.png", "more/c.webp",
        "train/.ipynb_checkpoints/a.jpg", "train/__MACOSX/cat/._a.jpg", "train/cat/._a.jpg",
        "train/cat/.thumbs/a.jpg", "train/cat/x.bmp", "train/dog/y.TIFF", "train/dog/notes.txt",
        "train/stray.jpg"}) {
    fs::create_directories((dir.path / name).parent_path());
    dir.Write(name, pixel);
  }
  const fs::path train = dir.path / "train";
  fs::create_directory_symlink(dir.path / "more", train / "cat/linked");
  fs::create_directory_symlink("..", train / "cat/up");          // round
  fs::create_directory_symlink("../cat", train / "cat/itself");  // round
  fs::create_directory_symlink("../../dog", train / "cat/deep/dog");
  fs::create_symlink("nowhere.jpg", train / "dog/gone.jpg");
  ImageList list = ListImageFolder(train);
  CHECK(list.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(list.files == std::vector<std::string>{"cat/a.jpg", "cat/deep/dog/a.png",
                                               "cat/deep/dog/gone.jpg", "cat/deep/er/b.JPEG",
                                               "cat/linked/c.webp", "dog/a.png", "dog/gone.jpg"});
  std::vector<std::string> problems;
  for (const Problem& p : list.problems) {
    CHECK(p.dropped);
    problems.push_back(p.code + " " + fs::path(p.where).lexically_relative(train).string());
  }
  CHECK(problems == std::vector<std::string>{
                        "image.other_format cat/deep/dog/y.TIFF", "image.other_format cat/x.bmp",
                        "image.other_format dog/y.TIFF", "image.no_class stray.jpg"});
  // A link that leads nowhere isn't fewer images, nor fewer classes.
  AuditOptions options;
  auto shared = std::make_shared<ImageList>(list);
  options.parts.push_back({.name = "train",
                           .dataset = std::make_shared<CocoDataset>(DatasetOf(list)),
                           .img_prefix = train.string(),
                           .list = shared});
  options.contents = false;
  AuditReport report = Audit(options);
  std::map<std::string, int64_t> found;
  for (const Finding& f : report.parts[0].findings) found[f.code] = f.count;
  CHECK(found == std::map<std::string, int64_t>{
                     {"image.missing", 2}, {"image.no_class", 1}, {"image.other_format", 3}});
  fs::create_symlink("nowhere", train / "bird");
  CHECK_THROWS_WITH(ListImageFolder(train), ContainsSubstring("bird"));
}

TEST_CASE("a list of files with labels is read, and its mistakes are placed") {
  TempDir dir("list");
  auto read = [&](const std::string& text, const std::vector<std::string>& classes) {
    return ReadImageList(dir.Write("list.txt", text), dir.path, classes);
  };
  ImageList list = read("# comment\na b.jpg 2\r\n\nc.jpg\t0\n", {});
  CHECK(list.files == std::vector<std::string>{"a b.jpg", "c.jpg"});
  CHECK(list.labels == std::vector<int32_t>{2, 0});
  CHECK(list.classes.size() == 3);
  CHECK(read("a.jpg dog\nb.jpg 0\n", {"cat", "dog"}).labels == std::vector<int32_t>{1, 0});
  list = read(
      "\xef\xbb\xbf"
      "a b.jpg traffic light\n  c.jpg \t light \nd.jpg 1\n",
      {"light", "traffic light"});
  CHECK(list.files == std::vector<std::string>{"a b.jpg", "c.jpg", "d.jpg"});
  CHECK(list.labels == std::vector<int32_t>{1, 0, 1});
  CHECK_THROWS_WITH(read("\xff\xfe"
                         "a",
                         {}),
                    ContainsSubstring("UTF-16"));
  CHECK_THROWS_WITH(read("a.jpg,1\n", {}), ContainsSubstring("not a comma"));
  CHECK_THROWS_WITH(read("a.jpg dog\nb.jpg cow\n", {"cat", "dog"}),
                    ContainsSubstring("list.txt:2: `cow`"));
  CHECK_THROWS_WITH(read("a.jpg 2\n", {"cat", "dog"}), ContainsSubstring("list.txt:1"));
  CHECK_THROWS_WITH(read("a.jpg -1\n", {}), ContainsSubstring("`-1`"));
  CHECK_THROWS_WITH(read("a.jpg\n", {}), ContainsSubstring("without a label"));
  CHECK_THROWS_WITH(read("\n", {}), ContainsSubstring("empty"));
}

TEST_CASE("drawn parts are inside, and of the areas and aspects asked for") {
  RandomStream stream(3, RandomPurpose::kTest, 0, 0);
  double areas = 0;
  std::set<std::pair<int, int>> sizes;
  for (int i = 0; i < 2000; ++i) {
    JpegRegion r = DrawResizedCrop({500, 375}, {0.08, 1}, {0.75, 4.0 / 3}, &stream);
    REQUIRE(r.x >= 0);
    REQUIRE(r.y >= 0);
    REQUIRE(r.x + r.width <= 500);
    REQUIRE(r.y + r.height <= 375);
    double aspect = static_cast<double>(r.width) / r.height,
           area = r.width * r.height / (500.0 * 375);
    CHECK(aspect > 0.74);
    CHECK(aspect < 1.35);
    CHECK(area > 0.078);
    areas += area;
    sizes.insert({r.width, r.height});
  }
  // RandomResizedCrop.get_params of torchvision, transcribed to Python, gives .432 over 100,000
  // draws.
  CHECK(std::abs(areas / 2000 - 0.432) < 0.015);
  CHECK(sizes.size() > 1000);
  // An image that is too long for any aspect: the centre.
  JpegRegion r = DrawResizedCrop({1000, 10}, {1, 1}, {0.75, 4.0 / 3}, &stream);
  CHECK(r.width == 13);
  CHECK(r.x == 493);
}

TEST_CASE("the centre of an image is what Pillow and torchvision's rules make of it") {
  auto list = std::make_shared<ImageList>();
  list->root = Fixture("");
  list->classes = {"a"};
  list->files = {"rgb444.jpg"};
  list->labels = {0};
  ClassLoaderOptions options;
  options.train = false;
  options.size = 20;
  options.resize = 26;
  ClassLoader loader(list, options);
  ClassBatch batch;
  loader.StartEpoch(0);
  REQUIRE(loader.Next(&batch));
  CHECK(batch.images == ReadPpm(Fixture("centre.ppm")).pixels);
}

TEST_CASE("the centre of a very long image is resized without the rest") {
  // The whole would be 256 x 15,360,000 pixels.
  constexpr int kLong = 60000, kSize = 224;
  RgbImage image;
  image.Reset(1, kLong);
  for (int y = 0; y < kLong; ++y) std::memset(image.Row(y), y == kLong / 2 ? 200 : 100, 3);
  TempDir dir("long");
  WriteFileAtomic(dir.path / "long.jpg", EncodeJpeg(image, 100));
  const ResizeWindow window = CentreOfResized({1, kLong}, 256, kSize);
  CHECK(window.height == 15'360'000);
  CHECK(window.y == 15'360'000 / 2 - kSize / 2);
  std::vector<uint8_t> out(static_cast<size_t>(kSize) * kSize * 3);
  ResizeAntialias(image.pixels.data(), 1, kLong, 3, {0, 0, 1, kLong}, window, out.data(), kSize,
                  kSize, static_cast<size_t>(kSize) * 3);
  // Half a pixel above and below the border between two rows: from the middle of the one towards
  // the middle of the other.
  for (int y = 0; y < kSize; ++y) {
    const double at = (y - kSize / 2.0 + 0.5) / 256;  // rows from the border
    const double expected = 150 + 100 * at;
    REQUIRE(std::abs(out[static_cast<size_t>(y) * kSize * 3] - expected) <= 1);
  }
  auto list = std::make_shared<ImageList>();
  list->root = dir.path.string();
  list->classes = {"a"};
  list->files = {"long.jpg"};
  list->labels = {0};
  ClassLoaderOptions options;
  options.train = false;
  ClassLoader loader(list, options);
  ClassBatch batch;
  loader.StartEpoch(0);
  REQUIRE(loader.Next(&batch));
  CHECK(std::abs(batch.images[0] - 150 + 100 * 111.5 / 256) <= 6);  // JPEG's losses
}

TEST_CASE("the centre of a resized image is the same as when the whole is resized") {
  RandomStream stream(5, RandomPurpose::kTest, 0, 0);
  for (int trial = 0; trial < 30; ++trial) {
    const int w = 1 + static_cast<int>(stream.Below(90)),
              h = 1 + static_cast<int>(stream.Below(90));
    const int size = 1 + static_cast<int>(stream.Below(40)),
              shorter = size + static_cast<int>(stream.Below(20));
    RgbImage image;
    image.Reset(w, h);
    for (uint8_t& p : image.pixels) p = static_cast<uint8_t>(stream.NextU32());
    const ResizeWindow window = CentreOfResized({w, h}, shorter, size);
    RgbImage whole, part;
    whole.Reset(static_cast<int>(window.width), static_cast<int>(window.height));
    part.Reset(size, size);
    const ResizeBox box{0, 0, static_cast<double>(w), static_cast<double>(h)};
    ResizeAntialias(image.pixels.data(), w, h, static_cast<size_t>(w) * 3, box, whole.pixels.data(),
                    whole.width, whole.height, static_cast<size_t>(whole.width) * 3);
    ResizeAntialias(image.pixels.data(), w, h, static_cast<size_t>(w) * 3, box, window,
                    part.pixels.data(), size, size, static_cast<size_t>(size) * 3);
    for (int y = 0; y < size; ++y) {
      REQUIRE(std::memcmp(part.Row(y), whole.Row(static_cast<int>(window.y) + y) + 3 * window.x,
                          static_cast<size_t>(size) * 3) == 0);
    }
  }
}

TEST_CASE("classification batches don't depend on workers or where an epoch was entered") {
  TempDir dir("class");
  Fill(dir.path);
  auto list = std::make_shared<ImageList>(ListImageFolder(dir.path));
  ClassLoaderOptions options;
  options.samples_per_gpu = 5;
  options.size = 32;
  options.seed = 3;
  options.photometric.probability = 0.5;
  options.photometric.swap_channels = false;
  for (bool fast : {true, false}) {
    options.fast_decode = fast;
    options.workers = 1;
    ClassLoader one(list, options);
    options.workers = 4;
    ClassLoader four(list, options);
    CHECK(one.batches_per_epoch() == 3);
    CHECK(one.Buckets() == std::vector<Bucket>{{5, 32, 32}, {2, 32, 32}});
    auto a = Epoch(&one, 1), b = Epoch(&four, 1);
    CHECK(a == b);
    CHECK(Epoch(&four, 1, 1) == std::vector<std::string>(a.begin() + 1, a.end()));
    CHECK(Epoch(&one, 2) != a);
  }
  options.photometric.probability = 0;
  ClassLoader loader(list, options);
  ClassBatch batch;
  std::map<int, int> count;
  loader.StartEpoch(0);
  while (loader.Next(&batch)) {
    for (int i = 0; i < batch.n; ++i) {
      ++count[batch.labels[i]];
      const uint8_t* middle = &batch.images[(static_cast<size_t>(i) * 32 * 32 + 16 * 32 + 16) * 3];
      CHECK(std::abs(middle[batch.labels[i]] - 200) < 4);
    }
  }
  CHECK(count == std::map<int, int>{{0, 5}, {1, 4}, {2, 3}});
}

TEST_CASE("a broken image of a class is named, or replaced") {
  TempDir dir("broken");
  Fill(dir.path);
  auto list = std::make_shared<ImageList>(ListImageFolder(dir.path));
  std::string bytes = ReadFile(dir.path / "bee/2.JPG");
  WriteFileAtomic(dir.path / "bee/2.JPG", bytes.substr(0, bytes.size() / 3));
  ClassLoaderOptions options;
  options.size = 16;
  options.train = false;
  options.resize = 20;
  ClassLoader strict(list, options);
  ClassBatch batch;
  strict.StartEpoch(0);
  CHECK_THROWS_WITH(strict.Next(&batch), ContainsSubstring("bee/2.JPG"));
  options.image_policy = Policy::kDrop;
  ClassLoader drop(list, options);
  drop.StartEpoch(0);
  REQUIRE(drop.Next(&batch));
  CHECK(batch.indices[7] == 8);
  CHECK(drop.TakeWarnings().size() == 1);
  options.leave_out = true;
  ClassLoader evaluation(list, options);
  evaluation.StartEpoch(0);
  REQUIRE(evaluation.Next(&batch));
  CHECK(batch.indices[7] == 7);
  CHECK(std::count(batch.left_out.begin(), batch.left_out.end(), 1) == 1);
  CHECK(batch.left_out[7] == 1);
  CHECK_THAT(evaluation.TakeWarnings().at(0), ContainsSubstring("it is left out"));
  options.size = 0;
  CHECK_THROWS_AS(ClassLoader(list, options), Error);
}
