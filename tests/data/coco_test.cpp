#include "exp/data/coco.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::TempDir;

namespace {

const char* kSmall = R"({
 "info": {"year": 2017, "x": [1, 2, {"y": null}]},
 "images": [
  {"id": 7, "file_name": "a.jpg", "width": 100, "height": 50},
  {"id": 3, "file_name": "b\u00e9\ud83d\ude00.jpg", "width": 20, "height": 20, "coco_url": "http:\/\/x"}],
 "annotations": [
  {"id": 1, "image_id": 3, "category_id": 5, "bbox": [1, 2, 3.5, 4e0], "area": 10.5, "iscrowd": 0, "segmentation": [[1,2,3,4,5,6]]},
  {"id": 2, "image_id": 7, "category_id": 2, "bbox": [-0.5, 0, 10, 10], "iscrowd": 1, "segmentation": {"counts": [1,2], "size": [3,4]}},
  {"id": 3, "image_id": 3, "category_id": 2, "bbox": [0, 0, 5, 5], "area": null}],
 "categories": [{"id": 5, "name": "cat"}, {"id": 2, "name": "dog", "supercategory": "animal"}]
})";

std::string Annotation(const std::string& record) {
  return R"({"images": [{"id": 1, "file_name": "a.jpg", "width": 100, "height": 50}], "annotations": [)" +
         record + R"(], "categories": [{"id": 1, "name": "thing"}]})";
}

}  // namespace

TEST_CASE("annotations are read in file order and grouped by image") {
  TempDir dir("coco");
  CocoDataset d = LoadCoco(dir.Write("a.json", kSmall));
  REQUIRE(d.categories.size() == 2);
  CHECK(d.categories[0].name == "cat");
  CHECK(d.categories[1].id == 2);
  REQUIRE(d.images.size() == 2);
  CHECK(d.images[0].id == 7);
  CHECK(d.images[1].file_name == "b\xc3\xa9\xf0\x9f\x98\x80.jpg");
  REQUIRE(d.Of(0).size() == 1);
  CHECK(d.Of(0)[0].crowd);
  CHECK(d.Of(0)[0].area == 100);  // w * h, as the file gives none
  REQUIRE(d.Of(1).size() == 2);
  CHECK(d.Of(1)[0].id == 1);
  CHECK(d.Of(1)[0].category == 0);
  CHECK(d.Of(1)[0].w == 3.5);
  CHECK(d.Of(1)[0].area == 10.5);
  CHECK(d.Of(1)[1].area == 25);
  CHECK(d.problems.empty());
}

TEST_CASE("half of a surrogate pair stands for nothing, and takes nothing along") {
  TempDir dir("surrogates");
  auto name = [&](const std::string& escaped) {
    std::string text = kSmall;
    const std::string old = R"(b\u00e9\ud83d\ude00)";
    text.replace(text.find(old), old.size(), escaped);
    // Skipped as a value, too.
    text.replace(text.find("http:"), 5, escaped);
    return LoadCoco(dir.Write("a.json", text)).images[1].file_name;
  };
  const std::string none = "\xef\xbf\xbd";
  CHECK(name(R"(\ud83d\u0041)") == none + "A.jpg");
  CHECK(name(R"(\ud83d\n\\)") == none + "\n\\.jpg");
  CHECK(name(R"(\ud83dx)") == none + "x.jpg");
  CHECK(name(R"(\ude00\ud83d)") == none + none + ".jpg");
  CHECK(name(R"(\ud83d\ud83d\ude00)") == none + "\xf0\x9f\x98\x80.jpg");
}

TEST_CASE("`classes` selects and orders the categories") {
  TempDir dir("classes");
  std::string path = dir.Write("a.json", kSmall);
  CocoDataset d = LoadCoco(path, {.classes = {"dog"}});
  REQUIRE(d.categories.size() == 1);
  CHECK(d.annotations.size() == 2);
  CHECK(d.Of(1)[0].id == 3);
  CHECK(d.Of(1)[0].category == 0);
  CHECK(LoadCoco(path, {.classes = {"dog", "cat"}}).Of(1)[0].category == 1);
  CHECK_THROWS_WITH(LoadCoco(path, {.classes = {"dog", "cow"}}),
                    ContainsSubstring("`cow`") && ContainsSubstring("cat, dog"));
  CHECK_THROWS_WITH(LoadCoco(path, {.classes = {"dog", "dog"}}), ContainsSubstring("twice"));
}

TEST_CASE("malformed JSON is reported with line and column") {
  TempDir dir("malformed");
  auto error = [&](const std::string& text) -> std::string {
    try {
      LoadCoco(dir.Write("a.json", text));
    } catch (const Error& e) {
      CHECK(e.exit_code() == 2);
      return e.what();
    }
    return "no error";
  };
  CHECK_THAT(error("{\n \"images\": [\n  {\"id\": 1,,\n"),
             ContainsSubstring("a.json:3:12: malformed JSON: `,`"));
  CHECK_THAT(error("{\"images\": [\n"),
             ContainsSubstring("a.json:2:1: malformed JSON: the file ends here"));
  CHECK_THAT(error(""), ContainsSubstring("a.json:1:1: malformed JSON: the file ends here"));
  CHECK_THAT(error("{\"images\": [], \"annotations\": [], \"categories\": []} x"),
             ContainsSubstring(":1:53: malformed"));
  CHECK_THAT(error("{\"images\": [], \"annotations\": []}"),
             ContainsSubstring("`categories` is missing"));
  CHECK_THAT(error("{\"images\": {}}"), ContainsSubstring("`images` is not a list"));
  CHECK_THAT(error("{\"images\": [3]}"),
             ContainsSubstring(":1:13: an entry of `images` is not an object"));
  CHECK_THAT(error("[1, 2]"), ContainsSubstring("not a COCO annotation file"));
  CHECK_THAT(error("{\"x\": " + std::string(100000, '[')),
             ContainsSubstring("nested more than 256 deep"));
  CHECK_THAT(error("{\"x\": 01}"), ContainsSubstring(":1:8: malformed"));
  CHECK_THAT(error("{\"x\": \"\\q\"}"), ContainsSubstring("an unknown escape"));
  CHECK_THAT(error("{\"x\": \"a\nb\"}"), ContainsSubstring(":1:9: malformed JSON: byte 0x0a"));
  CHECK_THROWS_WITH(LoadCoco(dir.path / "none.json"), ContainsSubstring("No such file"));
  CHECK_THROWS_AS(LoadCoco(dir.path), Error);  // a folder
}

TEST_CASE("a malformed file's error says what to do, by what its writers usually did") {
  TempDir dir("advice");
  auto says = [&](std::string text) -> std::string {
    try {
      LoadCoco(dir.Write("a.json", text));
    } catch (const Error& e) {
      return e.text().next;
    }
    return "no error";
  };
  CHECK_THAT(says("{'images': []}"), ContainsSubstring("json.dump()"));
  for (const char* word : {"True", "False", "None"})
    CHECK_THAT(says(std::string("{\"x\": ") + word + "}"),
               ContainsSubstring("true, false and null"));
  CHECK_THAT(says("{\"x\": 1, // one\n}"), ContainsSubstring("no comments"));
  CHECK_THAT(says("{\"x\": [1,]}"), ContainsSubstring("remove the comma"));
  CHECK_THAT(says("{\"x\": \"C:\\data\"}"), ContainsSubstring("or / in names"));
  CHECK_THAT(says("{\"x\": \"a\tb\"}"), ContainsSubstring("an escape"));
  CHECK_THAT(says("{\"\xe9\": 1}"), ContainsSubstring("iconv"));
  CHECK_THAT(says(""), ContainsSubstring("empty"));
  CHECK_THAT(says("{\"x\": [1"), ContainsSubstring("cut off"));
  CHECK_THAT(says("{\"x\": \"abc"), ContainsSubstring("cut off"));
  CHECK_THAT(says("{\"x\": 05}"), ContainsSubstring("mend the file there"));
  CHECK_THAT(says(std::string(kSmall) + kSmall), ContainsSubstring("one object a file"));
  CHECK_THAT(says("{\"categories\": {\"1\": \"cat\"}}"), ContainsSubstring("convert the file"));
  CHECK_THAT(says("{\"images\": [], \"images\": []}"), ContainsSubstring("remove one"));
  for (const char* other : {"12", "null", "{\"x\": "}) CHECK(!says(other).empty());
  CHECK_THAT(says("{\"x\": " + std::string(300, '[')), ContainsSubstring("check that `ann_file`"));
  // Of ids that can't be used, whether `policy: ignore` takes them.
  const std::string rest =
      R"(, "file_name": "a.jpg"}], "annotations": [], "categories": [{"id": 1, "name": "c"}]})";
  CHECK_THAT(says(R"({"images": [{"id": "0012")" + rest), ContainsSubstring("policy: ignore"));
  for (const char* id : {R"("3f2b-01")", "null", "1.5", "99999999999999999999"})
    CHECK(says(std::string(R"({"images": [{"id": )") + id + rest) == "number them with integers");
}

TEST_CASE("long ids and many names are cut in messages, between characters") {
  TempDir dir("cut");
  std::string id = "a";
  for (int i = 0; i < 100; ++i) id += "\u00e9";
  const std::string one =
      R"({"images": [{"id": 1, "file_name": "a.jpg", "width": 9, "height": 9}, {"id": ")" + id +
      R"(", "file_name": "b.jpg"}], "annotations": [], "categories": [)";
  std::string many = one;
  for (int i = 0; i < 20'000; ++i) many += fmt::format(R"({{"id": {}, "name": "c{}"}},)", i + 1, i);
  many.back() = ']';
  const std::string path = dir.Write("a.json", many + "}");
  CocoOptions options;
  const CocoDataset dataset = LoadCoco(path, options);
  REQUIRE(dataset.problems.size() == 1);
  CHECK(IsValidUtf8(dataset.problems[0].message));
  CHECK_THAT(dataset.problems[0].message, ContainsSubstring("..."));
  for (int i = 0; i < 20'000; ++i) options.classes.push_back(fmt::format("c{}", 19'999 - i));
  CHECK(LoadCoco(path, options).categories.front().id == 20'000);
  for (std::string& name : options.classes) name += "x";
  try {
    LoadCoco(path, options);
    FAIL("it has such classes");
  } catch (const Error& e) {
    CHECK_THAT(e.text().what, ContainsSubstring("`c19999x`"));
    CHECK(e.text().what.ends_with("and 19980 more"));
    CHECK(e.text().expected.ends_with("c19, and 19980 more"));
  }
}

TEST_CASE("every truncation of a file is an error, never a crash") {
  TempDir dir("truncated");
  std::string text = kSmall;
  while (text.back() != '}') text.pop_back();
  for (size_t n = 0; n < text.size(); ++n)
    CHECK_THROWS_AS(LoadCoco(dir.Write("a.json", text.substr(0, n))), Error);
}

TEST_CASE("what is wrong with a record is reported by id, and handled by policy") {
  struct Case {
    const char* record;
    const char* code;
    size_t kept;       // under drop
    size_t trainable;  // under drop
    size_t ignored;    // kept under ignore
  };
  const Case cases[] = {
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [3, 4, 0, 0]})", "box.no_area", 1, 0,
       1},
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [30, 40, 20, -5]})", "box.swapped", 1,
       0, 1},
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [100, 4, 5, 5]})", "box.outside", 1, 0,
       1},
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [90, 4, 50, 5]})",
       "box.partly_outside", 1, 1, 1},
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [NaN, 4, 5, 5]})", "box.not_finite", 0,
       0, 0},
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [3, 4, -Infinity, 5]})",
       "box.not_finite", 0, 0, 0},
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3]})", "box.malformed", 0, 0,
       0},
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, "4"]})", "box.malformed", 0,
       0, 0},
      {R"({"id": 9, "image_id": 1, "category_id": 1})", "box.malformed", 0, 0, 0},
      {R"({"id": 9, "image_id": 2, "category_id": 1, "bbox": [1, 2, 3, 4]})",
       "annotation.unknown_image", 0, 0, 0},
      {R"({"id": 9, "image_id": 1, "category_id": 4, "bbox": [1, 2, 3, 4]})",
       "annotation.unknown_category", 0, 0, 0},
      {R"({"id": "9", "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]})", "annotation.bad_id",
       0, 0, 1},
      {R"({"id": 9, "image_id": "1", "category_id": 1, "bbox": [1, 2, 3, 4]})",
       "annotation.bad_image_id", 0, 0, 1},
      {R"({"id": 9, "image_id": 1, "category_id": "x", "bbox": [1, 2, 3, 4]})",
       "annotation.bad_category_id", 0, 0, 0},
      {R"({"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]})", "annotation.bad_id", 0, 0, 0},
      {R"({"id": 9, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]},
          {"id": 9, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]})",
       "annotation.duplicate_id", 1, 1, 2},
  };
  TempDir dir("records");
  for (const Case& c : cases) {
    INFO(c.record);
    std::string path = dir.Write("a.json", Annotation(c.record));
    CocoDataset d = LoadCoco(path);
    REQUIRE(d.problems.size() == 1);
    CHECK(d.problems[0].code == c.code);
    CHECK(d.problems[0].where.starts_with(path + ":"));
    CHECK(d.annotations.size() == c.kept);
    CHECK(static_cast<size_t>(std::count_if(d.annotations.begin(), d.annotations.end(),
                                            [](const CocoAnnotation& a) { return a.trainable; })) ==
          c.trainable);
    CHECK_THROWS_WITH(LoadCoco(path, {.policy = Policy::kStrict}), ContainsSubstring(c.code));
    CocoDataset ignored = LoadCoco(path, {.policy = Policy::kIgnore});
    CHECK(ignored.problems.empty());
    CHECK(ignored.annotations.size() == c.ignored);
  }
}

TEST_CASE("a duplicate image id keeps the first image") {
  TempDir dir("images");
  CocoDataset d = LoadCoco(dir.Write(
      "a.json", R"({"images": [{"id": 1, "file_name": "a.jpg"}, {"id": 1, "file_name": "b.jpg"},
      {"id": 2}, {"file_name": "c.jpg"}, {"id": 5.0, "file_name": "d.jpg", "width": 3, "height": "x"}],
      "annotations": [{"id": 1, "image_id": 2, "category_id": 1, "bbox": [1, 1, 2, 2]}],
      "categories": [{"id": 1, "name": "thing"}, {"id": 1, "name": "other"}, {"id": 3}]})"));
  CHECK(d.images.size() == 2);
  CHECK(d.images[0].file_name == "a.jpg");
  CHECK(d.images[1].id == 5);
  CHECK(d.images[1].width == 0);
  std::vector<std::string> codes;
  for (const Problem& p : d.problems) codes.push_back(p.code);
  CHECK(codes == std::vector<std::string>{"category.duplicate_id", "category.no_name",
                                          "image.no_size", "image.duplicate_id",
                                          "image.no_file_name", "image.bad_id", "image.no_size",
                                          "annotation.unknown_image"});
  CHECK_THAT(d.problems.back().message, ContainsSubstring("its image, 2, was left out"));
}

TEST_CASE("BCCD loads, with its two boxes without area left out") {
  std::filesystem::path shared = data::test::SharedData();
  if (shared.empty()) {
    WARN("skipped: no shared/data beside the repository");
    return;
  }
  size_t images = 0, boxes = 0, problems = 0;
  for (const char* split : {"train", "val", "test"}) {
    CocoDataset d = LoadCoco(shared / "bccd" / (std::string("instances_") + split + ".json"));
    CHECK(d.categories.size() == 3);
    images += d.images.size();
    boxes += d.annotations.size();
    for (const Problem& p : d.problems) {
      problems += p.code == "box.no_area";
      CHECK(p.annotation_id > 0);
    }
  }
  CHECK(images == 364);
  CHECK(boxes == 4888);
  CHECK(problems == 2);
}

TEST_CASE("a file that names images as LVIS does says what is missing") {
  TempDir dir("lvis");
  CHECK_THROWS_WITH(LoadCoco(dir.Write("lvis.json", R"({"images": [{"id": 1,
      "coco_url": "http://images.cocodataset.org/val2017/000000397133.jpg", "width": 8, "height": 8}],
      "annotations": [], "categories": [{"id": 1, "name": "cat"}]})")),
                    ContainsSubstring("LVIS has only the end of `coco_url`"));
}
