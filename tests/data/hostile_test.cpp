// Data sets as other people's converters, downloads and disks leave them: every one is a message or
// a finding that says what is wrong, never a crash, a hang or a silent misreading.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include <chrono>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/printable.h"
#include "exp/base/utf8.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/data/audit.h"
#include "exp/data/crops.h"
#include "exp/data/from_config.h"
#include "exp/data/image_io.h"
#include "exp/data/image_list.h"
#include "exp/data/loader.h"
#include "exp/data/shapes.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::Fixture;
using data::test::TempDir;
namespace fs = std::filesystem;

namespace {

// A COCO file of one image, with these annotations.
std::string Coco(const std::string& annotations, const std::string& file = "a.jpg",
                 const std::string& categories = R"({"id": 1, "name": "thing"})") {
  return R"({"images": [{"id": 1, "file_name": ")" + file +
         R"(", "width": 37, "height": 29}], "annotations": [)" + annotations +
         R"(], "categories": [)" + categories + "]}";
}

std::string Annotation(const std::string& more) {
  return R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4])" + more + "}";
}

// What loading says is wrong, with its hint.
std::string ErrorOf(const std::string& path) {
  try {
    LoadCoco(path);
  } catch (const Error& e) {
    CHECK(e.exit_code() == 2);
    return e.what();
  }
  return "no error";
}

AuditReport AuditOf(const std::string& json, const fs::path& images, bool contents = true) {
  AuditOptions options;
  AuditPart& part = options.parts.emplace_back();
  part.name = "train";
  part.dataset = std::make_shared<CocoDataset>(LoadCoco(json));
  part.img_prefix = images.string();
  options.contents = contents;
  return Audit(options);
}

const Finding* Find(const AuditReport& report, const std::string& code) {
  for (const Finding& f : report.parts[0].findings) {
    if (f.code == code) return &f;
  }
  return nullptr;
}

std::string FirstMessage(const AuditReport& report, const std::string& code) {
  const Finding* found = Find(report, code);
  return found == nullptr ? "no " + code : found->examples.at(0).message;
}

}  // namespace

TEST_CASE("a file that isn't JSON is called what it is") {
  TempDir dir("kind");
  auto error = [&](const std::string& bytes) { return ErrorOf(dir.Write("a.json", bytes)); };
  std::string good = Coco(Annotation(""));
  std::string wide;
  for (char c : good) wide += {c, '\0'};
  CHECK_THAT(error("\xFF\xFE" + wide), ContainsSubstring("UTF-16") && ContainsSubstring("iconv"));
  CHECK_THAT(error(wide), ContainsSubstring("this is UTF-16 text, not JSON"));
  CHECK_THAT(error("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12\n"),
             ContainsSubstring("a Git LFS pointer") && ContainsSubstring("git lfs pull"));
  CHECK_THAT(error("\n<!DOCTYPE HTML><html>404</html>"), ContainsSubstring("an HTML page"));
  CHECK_THAT(error("\x1F\x8B\x08" + good), ContainsSubstring("gzip data"));
  CHECK_THAT(error("PK\x03\x04" + good), ContainsSubstring("a ZIP archive"));
  CHECK_THAT(error(std::string("\xFF\xFE\0\0{\0\0\0", 8)), ContainsSubstring("UTF-32"));
  // Python refuses it, too, and a name from another code page would be nobody's.
  CHECK_THAT(error("{\"info\": \"\xE9\",\n" + Coco("", "caf\xE9.jpg").substr(1)),
             ContainsSubstring("a.json:2:") && ContainsSubstring("isn't UTF-8"));
  CHECK(LoadCoco(dir.Write("a.json", "\xEF\xBB\xBF" + good)).annotations.size() == 1);
}

TEST_CASE("what nobody can mean is an error with its place") {
  TempDir dir("twice");
  auto error = [&](const std::string& text) { return ErrorOf(dir.Write("a.json", text)); };
  CHECK_THAT(error(R"({"images": [], "images": [], "annotations": [], "categories": []})"),
             ContainsSubstring(":1:26: `images` is there twice"));
  CHECK_THAT(error(R"({"images": [1,], "annotations": []})"), ContainsSubstring("not an object"));
  CHECK_THAT(error(R"({"images": [{"id": 1,}]})"),
             ContainsSubstring(":1:22: malformed JSON: a comma before `}`"));
  CHECK_THAT(error(R"({"images": [{"id": 1}, ]})"),
             ContainsSubstring(":1:24: malformed JSON: a comma before `]`"));
  CHECK_THAT(error(Coco("", "a.jpg", R"({"id": 1}, {"id": 2, "name": 5})")),
             ContainsSubstring("no category can be used: category 1 has no name") &&
                 ContainsSubstring("a.json:1:"));
  const std::string quoted =
      R"({"images": [
 {"id": "7", "file_name": "a.jpg", "width": 9, "height": 9}], "annotations": [],
 "categories": [{"id": 1, "name": "a"}]})";
  CHECK_THAT(error(quoted), ContainsSubstring("a.json:2:2: no image of the file can be used") &&
                                ContainsSubstring("is \"7\", not an integer") &&
                                ContainsSubstring("policy: ignore"));
}

TEST_CASE("a key that stands twice in a record is said, and the last one counts") {
  TempDir dir("again");
  CocoDataset d = LoadCoco(
      dir.Write("a.json",
                R"({"images": [{"id": 1, "file_name": "a.jpg", "width": 90, "height": 90, "id": 2}],
"annotations": [
{"id": 5, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2], "bbox": [3, 3, 4, 4], "image_id": 2}],
"categories": [{"id": 1, "name": "a", "supercategory": "x", "supercategory": "y", "name": "b"}]})"));
  REQUIRE(d.problems.size() == 3);
  CHECK(d.problems[0].code == "category.duplicate_key");
  CHECK(d.problems[1].message == "image 2 has `id` twice, of which the last one counts");
  CHECK_THAT(d.problems[2].where, ContainsSubstring("a.json:3:1"));
  CHECK(d.problems[2].annotation_id == 5);
  CHECK(d.categories[0].name == "b");
  REQUIRE(d.annotations.size() == 1);
  CHECK(d.annotations[0].x == 3);
  CHECK_THROWS_WITH(LoadCoco(d.path, {.policy = Policy::kStrict}),
                    ContainsSubstring("category.duplicate_key"));
}

TEST_CASE("an audit uses what the policy uses, and lists what is wrong with it") {
  TempDir dir("policy");
  const std::string path = dir.Write(
      "a.json",
      R"({"images": [{"id": "1", "file_name": "a.jpg", "width": 90, "height": 90}], "annotations": [
{"id": 5, "image_id": "1", "category_id": 1, "bbox": [1, 1, 2, 2]},
{"id": 5, "image_id": "1", "category_id": 1, "bbox": [1, 1, 2, 2]}],
"categories": [{"id": 1, "name": "a"}]})");
  CHECK_THROWS_WITH(LoadCoco(path, ForAudit({.policy = Policy::kStrict})),
                    ContainsSubstring("no image of the file can be used"));
  CocoDataset d = LoadCoco(path, ForAudit({.policy = Policy::kIgnore}));
  CHECK(d.annotations.size() == 2);
  std::string codes;
  for (const Problem& problem : d.problems) {
    codes += problem.code + " ";
    CHECK_FALSE(problem.dropped);
  }
  CHECK(codes ==
        "image.bad_id annotation.bad_image_id annotation.duplicate_id annotation.bad_image_id ");
}

TEST_CASE("values of another type are named as they stand, and never taken for something else") {
  struct Case {
    std::string record, code, says;
    size_t kept;
  };
  const std::string head = R"({"image_id": 1, "bbox": [1, 2, 3, 4], "category_id": )";
  const Case cases[] = {
      {Annotation(R"(, "iscrowd": "1")"), "annotation.bad_crowd", "iscrowd is not 0 or 1", 1},
      {Annotation(R"(, "iscrowd": 2)"), "annotation.bad_crowd", "taken as 1", 1},
      {Annotation(R"(, "iscrowd": NaN)"), "annotation.bad_crowd", "taken as 0", 1},
      {head + R"(1, "id": 1e400})", "annotation.bad_id", "is 1e400, not an integer", 0},
      {head + R"(1, "id": -1e-400})", "annotation.bad_id", "is -1e-400, not an integer", 0},
      {Annotation(R"(, "area": "12")"), "annotation.bad_area", "its area is not a number", 1},
      {Annotation(R"(, "area": -3)"), "annotation.bad_area", "its area is not a number", 1},
      {Annotation(R"(, "area": NaN)"), "annotation.bad_area", "its area is not a number", 1},
      {Annotation(R"(, "area": 1e999)"), "annotation.bad_area", "its area is not a number", 1},
      {head + R"(null, "id": 1})", "annotation.bad_category_id", "the category_id is null", 0},
      {head + R"([1], "id": 1})", "annotation.bad_category_id", "the category_id is a list", 0},
      {head + R"(1, "id": 2.5})", "annotation.bad_id", "is 2.5, not an integer", 0},
      {head + R"(1, "id": true})", "annotation.bad_id", "is true or false, not", 0},
      {head + R"(1, "id": 9223372036854775808})", "annotation.bad_id",
       "is 9223372036854775808, not an integer of 64 bits", 0},
      {head + R"(1, "id": "\u001b[31mx"})", "annotation.bad_id", "not an integer", 0},
      {R"({"id": 1, "image_id": 1, "category_id": 1, "bbox": [5, 5, 1e-300, 1e-300]})",
       "box.no_area", "has no area", 1},
      {R"({"id": 1, "image_id": 1, "category_id": 1, "bbox": null, "segmentation": {"counts": "a"}})",
       "box.malformed", "there is no bbox", 0},
      {R"({"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4, 5]})", "box.malformed",
       "not a list of four numbers", 0},
      {R"({"id": 1, "image_id": 1, "category_id": 1, "bbox": ["1", "2", "3", "4"]})",
       "box.malformed", "not a list of four numbers", 0},
  };
  TempDir dir("types");
  for (const Case& c : cases) {
    INFO(c.record);
    CocoDataset d = LoadCoco(dir.Write("a.json", Coco(c.record)));
    REQUIRE(d.problems.size() == 1);
    CHECK(d.problems[0].code == c.code);
    CHECK_THAT(d.problems[0].message, ContainsSubstring(c.says));
    CHECK(d.annotations.size() == c.kept);
  }
  // Nothing to say about what pandas writes for "none".
  CocoDataset none =
      LoadCoco(dir.Write("a.json", Coco(Annotation(R"(, "area": null, "iscrowd": null)"))));
  CHECK(none.problems.empty());
  CHECK(none.annotations[0].area == 12);
  CHECK_FALSE(none.annotations[0].crowd);
  for (const bool crowd : {true, false}) {
    CocoDataset d = LoadCoco(dir.Write(
        "a.json", Coco(Annotation(crowd ? R"(, "iscrowd": true)" : R"(, "iscrowd": false)"))));
    CHECK(d.problems.empty());
    CHECK(d.annotations[0].crowd == crowd);
  }
}

TEST_CASE("a pipe, a device and a folder in the place of a file are named, not waited for") {
  TempDir dir("pipe");
  REQUIRE(::mkfifo((dir.path / "pipe.jpg").c_str(), 0600) == 0);
  fs::create_directory(dir.path / "folder.jpg");
  fs::create_symlink("/dev/zero", dir.path / "zero.jpg");
  for (const auto& [name, why] :
       std::map<std::string, std::string>{{"pipe.jpg", "is not a regular file"},
                                          {"zero.jpg", "is not a regular file"},
                                          {"folder.jpg", "is a folder"}}) {
    INFO(name);
    CHECK_THROWS_WITH(ReadImageFile((dir.path / name).string()), ContainsSubstring(why));
    CHECK_THROWS_WITH(ReadImage((dir.path / name).string()), ContainsSubstring(why));
    std::string json = dir.Write("a.json", Coco(Annotation(""), name));
    CHECK_THAT(FirstMessage(AuditOf(json, dir.path), "image.missing"), ContainsSubstring(why));
    LoaderOptions options;
    options.img_prefix = dir.path.string();
    options.scales = {{37, 29}};
    Loader loader(std::make_shared<CocoDataset>(LoadCoco(json)), options);
    loader.StartEpoch(0);
    Batch batch;
    CHECK_THROWS_WITH(loader.Next(&batch), ContainsSubstring(why));
  }
  CHECK_THAT(ErrorOf((dir.path / "pipe.jpg").string()), ContainsSubstring("is not a regular file"));
  CHECK_THAT(ErrorOf(dir.path.string()), ContainsSubstring("is a folder"));
  CHECK_THROWS_WITH(ReadImageFile((dir.path / "a.json").string() + std::string(1, '\0') + ".jpg"),
                    ContainsSubstring("NUL"));
}

TEST_CASE("a missing image's name is looked into") {
  TempDir dir("names");
  fs::create_directory(dir.path / "sub");
  fs::copy_file(Fixture("rgb444.jpg"), dir.path / "sub/a.jpg");
  fs::copy_file(Fixture("rgb444.jpg"), dir.path / "b.jpg");
  auto says = [&](const std::string& name) {
    return FirstMessage(AuditOf(dir.Write("x.json", Coco(Annotation(""), name)), dir.path),
                        "image.missing");
  };
  CHECK_THAT(says(R"(sub\\a.jpg)"), ContainsSubstring("sub/a.jpg is there: write /"));
  fs::copy_file(Fixture("rgb444.jpg"), dir.path / "50% \xc3\xa9.jpg");
  CHECK_THAT(says("50%25%20%C3%A9.jpg"), ContainsSubstring("but 50% \xc3\xa9.jpg is there"));
  CHECK_THAT(says("50%zz%2.jpg"), !ContainsSubstring("is there"));
  CHECK_THAT(says("http://example.org/a.jpg"), ContainsSubstring("a URL: download"));
  CHECK_THAT(says("B.JPG"), ContainsSubstring("but b.jpg is there"));
  CHECK_THAT(says("train2017/b.jpg"), ContainsSubstring("b.jpg is there, without the folders"));
  CHECK_THAT(says("gone.jpg"), !ContainsSubstring("is there"));
  fs::create_symlink("gone.jpg", dir.path / "link.jpg");
  CHECK_THAT(says("link.jpg"),
             ContainsSubstring("leads nowhere") && !ContainsSubstring("is there"));
  auto note = [&](const std::string& name) {
    return FirstMessage(AuditOf(dir.Write("x.json", Coco(Annotation(""), name)), dir.path),
                        "image.outside_prefix");
  };
  CHECK_THAT(note("../x.jpg"), ContainsSubstring("../x.jpg"));
  CHECK_THAT(note("sub/../../x.jpg"), ContainsSubstring("sub/../../x.jpg"));
  CHECK_THAT(note("/etc/passwd"), ContainsSubstring("/etc/passwd"));
  CHECK(note("sub/../b.jpg") == "no image.outside_prefix");
  CHECK(note("a..b.jpg") == "no image.outside_prefix");
  CHECK(note("..b.jpg") == "no image.outside_prefix");
  CHECK_THAT(note(".."), ContainsSubstring("is .."));
}

TEST_CASE("image files of other kinds are called what they are") {
  TempDir dir("images");
  auto says = [&](const std::string& bytes) {
    dir.Write("a.jpg", bytes);
    return FirstMessage(AuditOf(dir.Write("a.json", Coco(Annotation(""))), dir.path),
                        "image.unreadable");
  };
  std::string jpeg = ReadFile(Fixture("rgb444.jpg"));
  size_t frame = jpeg.find("\xFF\xC0");
  REQUIRE(frame != std::string::npos);
  auto changed = [&](size_t at, char value) {
    std::string bytes = jpeg;
    bytes[frame + at] = value;
    return bytes;
  };
  CHECK_THAT(says(""), ContainsSubstring("the file is empty"));
  CHECK_THAT(says("\xFF\xD8"), ContainsSubstring("not an image"));
  CHECK_THAT(says("<html>404</html>"), ContainsSubstring("this is an HTML page"));
  CHECK_THAT(says("version https://git-lfs.github.com/spec/v1\n"),
             ContainsSubstring("a Git LFS pointer"));
  CHECK_THAT(says(std::string("\0\0\0\x20", 4) + "ftypheic" + std::string(20, '\0')),
             ContainsSubstring("a HEIC image"));
  CHECK_THAT(says(changed(4, 12)), ContainsSubstring("precision 12"));
  CHECK_THAT(says(changed(1, '\xC3')), ContainsSubstring("SOF type"));  // lossless
  CHECK_THAT(says(jpeg.substr(0, frame)), ContainsSubstring("JPEG"));
  std::string absurd = changed(5, '\xFF');
  for (size_t i = 5; i < 9; ++i) absurd[frame + i] = '\xFF';
  CHECK_THAT(says(absurd), ContainsSubstring("65500"));
  for (size_t i = 5; i < 9; ++i) absurd[frame + i] = '\0';
  CHECK_THAT(says(absurd), ContainsSubstring("JPEG"));
}

TEST_CASE("names can't drive the terminal or the page") {
  CHECK(Printable("a\x1b[31mb\x7f\n") == "a\\x1b[31mb\\x7f\\x0a");
  CHECK(Printable("a\n\tb", true) == "a\n\tb");
  CHECK(Printable("b\xc3\xa9\xf0\x9f\x98\x80") == "b\xc3\xa9\xf0\x9f\x98\x80");
  CHECK(Printable("\xc2\x9b"
                  "31m") == "\\x9b31m");
  TempDir dir("escape");
  std::string json = dir.Write("a.json", Coco(Annotation(""), R"(\u001b[2J<script>x</script>.jpg)",
                                              R"({"id": 1, "name": "\u001b]0;t\u0007<b>"})"));
  AuditReport report = AuditOf(json, dir.path);
  CHECK(AuditText(report).find('\x1b') == std::string::npos);
  CHECK(AuditHtml(report).find("<script>x") == std::string::npos);
  CHECK(AuditHtml(report).find("<b>") == std::string::npos);
  CHECK_NOTHROW(nlohmann::json::parse(AuditJson(report)));
  // A folder whose name is no UTF-8.
  fs::create_directory(dir.path / "\xff\xfe");
  report = AuditOf(dir.Write("a.json", Coco(Annotation(""), "b.jpg")), dir.path / "\xff\xfe");
  CHECK_NOTHROW(nlohmann::json::parse(AuditJson(report)));
  CHECK(IsValidUtf8(AuditHtml(report)));
}

TEST_CASE("each record left out is listed, however many they are") {
  TempDir dir("many");
  std::string records;
  for (int i = 0; i < 50; ++i) {
    records += (i == 0 ? "" : ",") + std::string(R"({"id": )") + std::to_string(i) +
               R"(, "image_id": 1, "category_id": 1, "bbox": [1, 1, 0, 5]})";
  }
  AuditReport report = AuditOf(dir.Write("a.json", Coco(records)), dir.path, false);
  REQUIRE(Find(report, "box.no_area") != nullptr);
  CHECK(Find(report, "box.no_area")->examples.size() == 50);
  CHECK_THAT(AuditText(report), ContainsSubstring("and 47 more"));
  CHECK_THAT(AuditText(report, true), ContainsSubstring("annotation 49"));
}

TEST_CASE("a hundred thousand categories are read at once, one named as another is said") {
  TempDir dir("categories");
  std::string records;
  for (int i = 0; i < 100000; ++i) {
    records += (i == 0 ? "" : ",") + std::string(R"({"id": )") + std::to_string(i) +
               R"(, "name": "c)" + std::to_string(i == 77 ? 5 : i) + "\"}";
  }
  const std::clock_t start = std::clock();  // others may use the machine
  CocoDataset set = LoadCoco(
      dir.Write("a.json", R"({"images": [], "annotations": [], "categories": [)" + records + "]}"));
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 5);
  CHECK(set.categories.size() == 100000);
  REQUIRE(set.problems.size() == 1);
  CHECK_THAT(set.problems[0].message, ContainsSubstring("category 77 is named `c5`"));
}

TEST_CASE("a part without images is an error") {
  TempDir dir("none");
  AuditReport report = AuditOf(
      dir.Write("a.json",
                R"({"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}]})"),
      dir.path);
  CHECK(FirstMessage(report, "image.none") == "the annotation file lists no image");
  CHECK(report.Count(Severity::kError) == 1);
}

TEST_CASE("an image of unknown size that can't be read is left out under on_error: skip") {
  TempDir dir("nosize");
  fs::copy_file(Fixture("rgb444.jpg"), dir.path / "a.jpg");
  std::string json = dir.Write(
      "a.json", R"({"images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "gone.jpg"}],
      "annotations": [], "categories": [{"id": 1, "name": "a"}]})");
  LoaderOptions options;
  options.img_prefix = dir.path.string();
  auto set = std::make_shared<CocoDataset>(LoadCoco(json));
  CHECK_THROWS_WITH(Loader(set, options), ContainsSubstring("gone.jpg"));
  options.image_policy = Policy::kDrop;
  Loader loader(set, options);
  CHECK(loader.images() == 1);
  std::vector<std::string> told = loader.TakeWarnings();
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], ContainsSubstring("gone.jpg") && ContainsSubstring("left out"));
}

TEST_CASE("a classifier's COCO list needs ids that can be matched") {
  TempDir dir("labels");
  auto error = [&](const std::string& text) -> std::string {
    try {
      ReadImageList(dir.Write("a.json", text), dir.path);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  // Both ids would have become the places of their texts, and labels those of other images.
  CHECK_THAT(
      error(
          R"({"images": [{"id": "a", "file_name": "a.jpg"}], "categories": [{"id": 1, "name": "x"}],
      "annotations": [{"image_id": "a", "category_id": 1}]})"),
      ContainsSubstring("the image_id of an annotation is \"a\", not an integer"));
  CHECK_THAT(
      error(R"({"images": [], "categories": [{"id": null, "name": "x"}], "annotations": []})"),
      ContainsSubstring("the id of a category is null"));
}

TEST_CASE(
    "a classifier's COCO list says which images it leaves out, and which classes aren't there") {
  TempDir dir("listed");
  const std::string path = dir.Write("a.json", R"({
 "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}, {"id": 3},
            {"id": 4, "file_name": "d.jpg"}],
 "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": 4, "category_id": 2},
                 {"image_id": 3, "category_id": 1}],
 "categories": [{"id": 1, "name": "x"}, {"id": 3}, {"id": 2, "name": "x"}, {"id": 4, "name": "y"}]})");
  const ImageList list = ReadImageList(path, dir.path);
  CHECK(list.classes == std::vector<std::string>{"x", "y"});  // one of each name
  CHECK(list.files == std::vector<std::string>{"a.jpg", "d.jpg"});
  CHECK(list.labels == std::vector<int32_t>{0, 0});
  REQUIRE(list.problems.size() == 2);
  CHECK(list.problems[0].code == "image.no_class");
  CHECK(list.problems[0].where == path + ":2:46");
  CHECK(list.problems[1].code == "image.no_file_name");
  CHECK(list.problems[1].image_id == 3);
  CHECK_THROWS_WITH(ReadImageList(path, dir.path, {"x", "z"}),
                    ContainsSubstring("no category is named `z`") && ContainsSubstring("x, y"));
}

TEST_CASE("classes whose folders would be one are told") {
  TempDir dir("crops");
  CocoDataset d = LoadCoco(dir.Write("a.json", R"({"images": [], "annotations": [],
 "categories": [{"id": 1, "name": "a/b"}, {"id": 2, "name": "a_b"}]})"));
  CHECK_THROWS_WITH(CutBoxes(d, dir.path, dir.path / "out"),
                    ContainsSubstring("`a/b` and `a_b` would share the folder a_b"));
}

TEST_CASE("a classifier's config is audited too") {
  TempDir dir("classes");
  for (const char* name : {"cat", "dog"}) {
    for (const char* part : {"train", "val"}) {
      fs::create_directories(dir.path / part / name);
      fs::copy_file(Fixture("rgb444.jpg"), dir.path / part / name / "a.jpg");
    }
  }
  dir.Write("train/dog/b.jpg", "\xFF\xD8\xFF damaged");
  std::string config = dir.Write("c.yaml", R"(
model: {type: ImageClassifier, head: {num_classes: 5}}
data:
  train: {type: ImageFolder, img_prefix: )" + (dir.path / "train").string() +
                                               R"(}
  val: {type: ImageFolder, img_prefix: )" + (dir.path / "val").string() +
                                               "}\n");
  config::Resolved resolved = config::Load(config, {});
  AuditReport report = Audit(ReadAuditOptions(config::Reader(resolved.root)));
  REQUIRE(report.parts.size() == 2);
  CHECK(report.parts[0].images == 3);
  CHECK(Find(report, "image.unreadable") != nullptr);
  CHECK(Find(report, "image.duplicate_content") != nullptr);
  std::map<std::string, int64_t> between;
  for (const Finding& f : report.findings) between[f.code] = f.count;
  CHECK(between == std::map<std::string, int64_t>{{"classes.head", 2}, {"leak.content", 2}});
  CHECK_THAT(AuditText(report),
             ContainsSubstring("3 images in 2 classes") && !ContainsSubstring("boxes by area"));
  CHECK_THAT(AuditHtml(report), ContainsSubstring("3 images in 2 classes"));
}

TEST_CASE("a loader says where its threads' time went") {
  TempDir dir("stages");
  DrawShapes(dir.path, {.images = 6, .val = 0, .seed = 4, .width = 80, .height = 64});
  LoaderOptions options;
  options.img_prefix = (dir.path / "images").string();
  options.scales = {{80, 64}};
  options.read_file = [](const std::string& path) {  // a slow disk
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return ReadImageFile(path);
  };
  Loader loader(std::make_shared<CocoDataset>(LoadCoco(dir.path / "instances_train.json")),
                options);
  loader.StartEpoch(0);
  Batch batch;
  while (loader.Next(&batch)) {
  }
  StageSeconds stages = loader.TakeStages();
  CHECK(stages.images == 6);
  CHECK(stages.read >= 0.12);
  CHECK(stages.decode > 0);
  CHECK(stages.transform >= 0);
  CHECK(stages.read > 0.5 * stages.all());
  CHECK(loader.TakeStages().images == 0);
}
