#include "exp/data/audit.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/data/jpeg.h"
#include "exp/data/shapes.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::Fixture;
using data::test::TempDir;
using nlohmann::json;

namespace {

std::map<std::string, int64_t> Codes(const std::vector<Finding>& findings) {
  std::map<std::string, int64_t> codes;
  for (const Finding& f : findings) {
    CHECK_FALSE(f.title.empty());
    codes[f.code] = f.count;
  }
  return codes;
}

AuditPart Part(const std::string& name, const std::string& json,
               const std::filesystem::path& images) {
  return {name, std::make_shared<CocoDataset>(LoadCoco(json)), images.string()};
}

json Image(int id, const std::string& file, int width = 37, int height = 29) {
  return {{"id", id}, {"file_name", file}, {"width", width}, {"height", height}};
}

json Box(int id, int image, std::vector<double> box, int category = 1, int crowd = 0) {
  return {{"id", id},
          {"image_id", image},
          {"category_id", category},
          {"bbox", box},
          {"iscrowd", crowd}};
}

// Of a part with one image of 640 x 480 and one category.
AuditReport AuditOf(const TempDir& dir, const json& annotations) {
  AuditOptions options;
  options.files = false;
  options.parts = {Part("train",
                        dir.Write("a.json", json{{"images", {Image(1, "a.jpg", 640, 480)}},
                                                 {"annotations", annotations},
                                                 {"categories", {{{"id", 1}, {"name", "one"}}}}}
                                                .dump()),
                        dir.path)};
  return Audit(options);
}

}  // namespace

TEST_CASE("each kind of image file is recognised") {
  TempDir dir("audit");
  const std::vector<std::string> files = {"rgb.jpg",         "grey.jpg",   "cmyk.jpg",
                                          "progressive.jpg", "exif6.jpg",  "alpha.png",
                                          "grey16.png",      "lossy.webp", "plain.gif"};
  json images = json::array();
  for (const std::string& file : files) {
    std::filesystem::copy_file(Fixture(file), dir.path / file);
    images.push_back(Image(static_cast<int>(images.size()) + 1, file));
  }
  images[4]["width"] = 29;  // exif6, as it is upright
  images[4]["height"] = 37;
  std::string jpeg = ReadFile(Fixture("rgb444.jpg"));
  dir.Write("cut.jpg", jpeg.substr(0, jpeg.size() / 2));
  dir.Write("appended.jpg", jpeg + "some more");
  dir.Write("copy.png", jpeg);
  images.push_back(Image(20, "cut.jpg"));
  images.push_back(Image(21, "appended.jpg"));
  images.push_back(Image(22, "copy.png"));
  images.push_back(Image(23, "absent.jpg"));
  images.push_back(Image(24, "rgb.jpg", 40, 40));
  std::string path = dir.Write("a.json", json{{"images", images},
                                              {"annotations", json::array()},
                                              {"categories", {{{"id", 1}, {"name", "thing"}}}}}
                                             .dump());
  AuditOptions options;
  options.parts = {Part("train", path, dir.path)};
  AuditReport report = Audit(options);
  REQUIRE(report.parts.size() == 1);
  auto codes = Codes(report.parts[0].findings);
  std::map<std::string, int64_t> expected = {
      {"category.unused", 1},   {"image.alpha", 1},          {"image.cmyk", 1},
      {"image.depth", 1},       {"image.duplicate_file", 1}, {"image.empty", 14},
      {"image.extension", 1},   {"image.grey", 2},           {"image.missing", 1},
      {"image.progressive", 1}, {"image.rotated", 1},        {"image.size_differs", 1},
      {"image.unreadable", 2}};
  CHECK(codes == expected);
  CHECK(report.Count(Severity::kError) == 4);
  CHECK(report.parts[0].findings[0].severity == Severity::kError);
  CHECK(report.parts[0].content.files == 13);

  options.contents = false;
  codes = Codes(Audit(options).parts[0].findings);
  CHECK(codes["image.missing"] == 1);
  CHECK_FALSE(codes.contains("image.unreadable"));
  CHECK_FALSE(codes.contains("image.grey"));

  std::string page = AuditHtml(report);
  CHECK_THAT(page, ContainsSubstring("image.unreadable") &&
                       ContainsSubstring("data:image/jpeg;base64,/9j/"));
  // Nothing of a file's name becomes markup.
  CHECK(json::parse(AuditJson(report))["errors"] == 4);
  CHECK_THAT(AuditText(report), ContainsSubstring("absent.jpg") && ContainsSubstring("4 errors"));
}

TEST_CASE("the page draws the boxes of its sample images where they are") {
  TempDir dir("page");
  std::filesystem::copy_file(Fixture("rgb.jpg"), dir.path / "a.jpg");
  AuditOptions options;
  options.parts = {Part("train",
                        dir.Write("a.json", json{{"images", {Image(1, "a.jpg")}},
                                                 {"annotations", {Box(1, 1, {3, 4, 20, 10})}},
                                                 {"categories", {{{"id", 1}, {"name", "thing"}}}}}
                                                .dump()),
                        dir.path)};
  CHECK_THAT(AuditHtml(Audit(options)),
             ContainsSubstring("<rect x=\"3.0\" y=\"4.0\" width=\"20.0\" height=\"10.0\""));
}

TEST_CASE("damage inside a file is found by decoding") {
  TempDir dir("decode");
  std::string jpeg = ReadFile(Fixture("rgb444.jpg"));
  size_t scan = jpeg.find("\xFF\xDA");
  REQUIRE(scan != std::string::npos);
  for (size_t i = scan + 40; i < scan + 70; ++i) jpeg[i] = '\0';
  dir.Write("a.jpg", jpeg.substr(0, jpeg.size() - 200) + "\xFF\xD9");
  std::string path = dir.Write("a.json", json{{"images", {Image(1, "a.jpg")}},
                                              {"annotations", {Box(1, 1, {1, 1, 9, 9})}},
                                              {"categories", {{{"id", 1}, {"name", "thing"}}}}}
                                             .dump());
  AuditOptions options;
  options.parts = {Part("train", path, dir.path)};
  CHECK(Audit(options).Count(Severity::kError) == 0);
  options.decode = true;
  CHECK(Codes(Audit(options).parts[0].findings) ==
        std::map<std::string, int64_t>{{"image.unreadable", 1}});
}

TEST_CASE("annotations are summed up, and what is doubtful is said") {
  TempDir dir("boxes");
  json annotations = {Box(1, 1, {0, 0, 20, 10}),        Box(2, 1, {0, 0, 20, 10}),
                      Box(3, 1, {100, 100, 50, 50}, 2), Box(4, 2, {10, 10, 300, 100}),
                      Box(5, 2, {5, 5, 50, 50}, 1, 1),  Box(6, 2, {5, 5, 0, 3}),
                      Box(7, 2, {5, 5, 0.5, 100})};
  std::string path =
      dir.Write("a.json", json{{"images",
                                {Image(1, "a.jpg", 640, 480), Image(2, "b.jpg", 640, 480),
                                 Image(3, "c.jpg", 100, 100)}},
                               {"annotations", annotations},
                               {"categories",
                                {{{"id", 1}, {"name", "one"}},
                                 {{"id", 2}, {"name", "two"}},
                                 {{"id", 3}, {"name", "three"}}}}}
                              .dump());
  AuditOptions options;
  options.files = false;
  options.anchors.img_scale = {640, 480};
  options.parts = {Part("train", path, dir.path)};
  options.num_classes = 4;
  options.num_classes_where = "a.yaml:3:5";
  AuditReport report = Audit(options);
  const PartReport& part = report.parts[0];
  CHECK(Codes(part.findings) == std::map<std::string, int64_t>{{"annotation.crowd", 1},
                                                               {"box.duplicate", 1},
                                                               {"box.no_area", 1},
                                                               {"box.tiny", 1},
                                                               {"category.unused", 1},
                                                               {"image.empty", 1}});
  CHECK(Codes(report.findings) == std::map<std::string, int64_t>{{"classes.head", 1}});
  CHECK_THAT(report.findings[0].examples[0].message,
             ContainsSubstring("the head has 4 classes") && ContainsSubstring("one, two, three"));
  CHECK(part.boxes == 5);
  CHECK(part.crowds == 1);
  CHECK(part.empty_images == 1);
  CHECK(part.classes[0].boxes == 4);
  CHECK(part.classes[0].images == 2);
  CHECK(part.boxes_by_area == std::array<int64_t, 3>{3, 1, 1});
  CHECK(part.box_side[4] == Approx(std::sqrt(30000)));
  CHECK(part.image_sizes[0].second == 2);
  json text = json::parse(AuditJson(report));
  CHECK(text["parts"][0]["boxes"] == 5);
  CHECK(text["findings"][0]["code"] == "classes.head");
}

TEST_CASE("boxes written as corners are recognised") {
  TempDir dir("corners");
  auto corners = [&](std::vector<std::vector<double>> boxes) {
    json annotations = json::array();
    for (auto& b : boxes)
      annotations.push_back(Box(static_cast<int>(annotations.size()) + 1, 1, b));
    return Codes(AuditOf(dir, annotations).parts[0].findings)["box.corners"];
  };
  CHECK(corners({{10, 10, 60, 60}, {300, 200, 500, 400}, {400, 300, 600, 470}}) == 1);
  CHECK(corners({{10, 10, 60, 60}, {300, 200, 50, 40}, {400, 300, 100, 90}}) == 0);
}

TEST_CASE("boxes written as shares of the image are recognised, and parts without any box") {
  TempDir dir("shares");
  auto codes = [&](const json& annotations) {
    AuditReport report = AuditOf(dir, annotations);
    return std::pair(Codes(report.parts[0].findings), report.Count(Severity::kError));
  };
  auto [shares, no_errors] = codes({Box(1, 1, {0.1, 0.2, 0.3, 0.4}), Box(2, 1, {0.5, 0, 0.5, 1})});
  CHECK(shares["box.normalised"] == 1);
  CHECK(no_errors == 0);
  auto [pixels, none] = codes({Box(1, 1, {0.1, 0.2, 0.3, 0.4}), Box(2, 1, {0.5, 0, 30, 1})});
  CHECK(pixels["box.normalised"] == 0);
  CHECK(pixels["box.none"] == 0);
  json malformed = Box(1, 1, {10, 10, 0, 0});
  malformed["bbox"] = "10 10 20 20";
  for (const json& unusable : {Box(1, 1, {10, 10, 0, 0}), malformed}) {
    auto [found, errors] = codes(json::array({unusable}));
    CHECK(found["box.none"] == 1);
    CHECK(found["box.normalised"] == 0);
    CHECK(errors == 1);
  }
  // Images to predict on.
  auto [found, errors] = codes(json::array());
  CHECK(found["box.none"] == 0);
  CHECK(errors == 0);
}

TEST_CASE("images in two parts, and parts whose classes differ, are found") {
  TempDir dir("leak");
  DrawShapes(dir.path, {.images = 4, .val = 3, .width = 64, .height = 64});
  std::filesystem::copy_file(dir.path / "images/train_000002.jpg",
                             dir.path / "images/val_000003.jpg",
                             std::filesystem::copy_options::overwrite_existing);
  AuditOptions options;
  std::string train = (dir.path / "instances_train.json").string(),
              val = (dir.path / "instances_val.json").string();
  options.parts = {Part("train", train, dir.path / "images"),
                   Part("val", val, dir.path / "images")};
  AuditReport report = Audit(options);
  CHECK(Codes(report.findings) == std::map<std::string, int64_t>{{"leak.content", 1}});
  CHECK_THAT(report.findings[0].examples[0].message,
             ContainsSubstring("val_000003.jpg of val is train_000002.jpg of train"));
  options.parts[1].dataset =
      std::make_shared<CocoDataset>(LoadCoco(val, {.classes = {"square", "circle"}}));
  CHECK(Codes(Audit(options).findings)["classes.differ"] == 1);
  // The same file in both, known without reading.
  options.contents = false;
  options.parts[1] = options.parts[0];
  options.parts[1].name = "val";
  CHECK(Codes(Audit(options).findings) == std::map<std::string, int64_t>{{"leak.content", 4}});
}

TEST_CASE("a box like an anchor is covered wholly") {
  AnchorSettings anchors;
  CHECK(BestAnchorIou({64 - 16, 64 - 16, 64 + 16, 64 + 16}, anchors) == Approx(1));
  double half = 16 * std::sqrt(2.0);
  CHECK(BestAnchorIou({64 - half, 64 - half / 2, 64 + half, 64 + half / 2}, anchors) == Approx(1));
  CHECK(BestAnchorIou({0, 0, 4, 4}, anchors) == Approx(16.0 / (32 * 32)));
}
