// The images that an annotation file names: which they are, and why one of them isn't found.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "catch.h"
#include "exp/data/audit.h"
#include "exp/data/image_list.h"
#include "src/data/class_names.h"
#include "src/data/name_hint.h"
#include "tests/data/support.h"

using namespace xp::data;
using xp::data::test::Fixture;
using xp::data::test::TempDir;
namespace fs = std::filesystem;

using Names = std::vector<std::string>;

TEST_CASE("the images that a COCO file names are told whatever else it holds") {
  TempDir dir("named");
  auto names = [&](const std::string& text, const std::string& file = "a.json") {
    return ImageNames(dir.Write(file, text));
  };
  const std::string images =
      R"("images": [{"file_name": "b.jpg", "license": {"file_name": "no"}}, {"id": 2}, {"file_name": 5},
         {"file_name": "sub/\u00e9.jpg"}])";
  const Names both = {"b.jpg", "sub/\xc3\xa9.jpg"};
  CHECK(names("{" + images + "}") == both);
  CHECK(names("\xef\xbb\xbf {" + images + "}", "list.txt") == both);
  // Python's json writes NaN; half a surrogate pair is nothing that a parser must stop at.
  CHECK(
      names(
          R"({"info": NaN, "annotations": [{"file_name": "no", "area": -Infinity}], "x": "\ud83d", )" +
          images + "}") == both);
  CHECK(names("{" + images + ", \"annotations\": [oops") == both);
  CHECK(names(R"({"images": [{"file_name": "b.jpg"}, {"file_name": "c)") == Names{"b.jpg"});
  for (const char* text : {"", "[]", "{", "{\"images\":5}", "{\"images\":[5]}", "\xff\xfe", "null"})
    CHECK(names(text).empty());
  CHECK(ImageNames(dir.path / "gone.json").empty());
  CHECK(ImageNames(dir.path).empty());
}

TEST_CASE("the images that a list names are those that training reads") {
  TempDir dir("listed");
  const std::string text =
      "\xef\xbb\xbf# file label\r\n  a b.jpg  golden retriever\r\nc.jpg\tcat\n\nd cat.jpg "
      "1\nalone\n";
  const std::string path = dir.Write("list.txt", text);
  const Names classes = {"cat", "golden retriever"};
  CHECK(ImageNames(path, classes) == Names{"a b.jpg", "c.jpg", "d cat.jpg"});
  CHECK(ImageNames(path) == Names{"a b.jpg  golden", "c.jpg", "d cat.jpg"});
  const std::string whole = dir.Write("whole.txt", text.substr(0, text.find("alone")));
  CHECK(ReadImageList(whole, dir.path, classes).files == ImageNames(whole, classes));
  CHECK(ReadImageList(whole, dir.path, classes).labels == std::vector<int32_t>{1, 0, 1});
}

TEST_CASE("a label is the longest class at a line's end, however long the line is") {
  const ClassNames classes({"cat", "golden retriever", "retriever", "cat"});
  const auto label = [&](const std::string& line) {
    const auto split = classes.SplitLabel(line);
    return split ? split->first + "|" + split->second : "none";
  };
  CHECK(label("a.jpg golden retriever") == "a.jpg|golden retriever");
  CHECK(label("a.jpg \t old retriever") == "a.jpg \t old|retriever");
  CHECK(label("golden retriever") == "golden|retriever");
  CHECK(label("a.jpgcat 3") == "a.jpgcat|3");
  CHECK(label("tomcat") == "none");
  CHECK(label("cat") == "none");
  CHECK(classes.Find("cat") == 0);
  CHECK(classes.Find("retriever") == 2);
  CHECK_FALSE(classes.Find("dog"));
  std::string words = "a.jpg";
  for (int i = 0; i < 1'000'000; ++i) words += " x";
  const std::clock_t start = std::clock();
  CHECK(classes.SplitLabel(words + " cat")->first == words);
  CHECK(classes.SplitLabel(words)->second == "x");
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 5);
}

TEST_CASE("messages list some of many names") {
  std::vector<std::string> names;
  for (int i = 0; i < 23; ++i) names.push_back("c" + std::to_string(i));
  CHECK(ListOfNames(names).ends_with("c18, c19, and 3 more"));
  CHECK(ListOfNames({"a", "b"}, "`") == "`a`, `b`");
  CHECK(ListOfNames({std::string(200, 'a')}).size() == 103);
}

TEST_CASE("an image in two parts is found without reading it, however its prefix is spelt") {
  TempDir dir("spelt");
  const std::string file = dir.Write(
      "a.json",
      R"({"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [], "categories": [{"id": 1, "name": "c"}]})");
  const auto leaks = [&](const std::string& prefix, const std::string& other) {
    AuditOptions options;
    options.files = false;
    for (const std::string& folder : {prefix, other}) {
      AuditPart& part = options.parts.emplace_back();
      part.img_prefix = folder;
      part.dataset = std::make_shared<CocoDataset>(LoadCoco(file));
    }
    for (const Finding& f : Audit(options).findings)
      if (f.code == "leak.content") return f.count;
    return int64_t{0};
  };
  CHECK(leaks("images", "images/") == 1);
  CHECK(leaks("images", "./other/../images") == 1);
  CHECK(leaks("", ".") == 1);
  CHECK(leaks("images", "others") == 0);
}

TEST_CASE("a file of nearly the name that isn't found is named") {
  TempDir dir("hint");
  auto there = [&](const std::string& name) {
    for (const auto& old : fs::directory_iterator(dir.path)) fs::remove_all(old);
    dir.Write(name, "x");
  };
  auto hint = [&](const std::string& name, int looks = 1) {
    std::atomic<int> left{looks};
    return NameHint(dir.path.string(), name, &left);
  };
  // "é", "ế", "が" and "각" as one character and as several.
  const std::string one = "\xc3\xa9_\xe1\xba\xbf_\xe3\x81\x8c_\xea\xb0\x81.jpg",
                    several =
                        "e\xcc\x81_e\xcc\x82\xcc\x81_\xe3\x81\x8b\xe3\x82\x99_"
                        "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8.jpg";
  for (auto [disk, wanted] : {std::pair(one, several), std::pair(several, one)}) {
    there(disk);
    CHECK_THAT(hint(wanted),
               ContainsSubstring(disk + " is there, with accents") && ContainsSubstring("--nfc"));
    CHECK_THAT(hint("sub\\" + disk), ContainsSubstring("without the folders"));
  }
  dir.Write("\xc3\xa8_\xe1\xba\xbf_\xe3\x81\x8c_\xea\xb0\x81.jpg",
            "x");  // "è": either may be meant
  CHECK(hint(one.substr(0, 2) + several.substr(3)).empty());
  there(
      "Gr\xf6\xdf"
      "e.jpg");
  CHECK_THAT(hint("Gr\xc3\xb6\xc3\x9f"
                  "e.jpg"),
             ContainsSubstring("isn't UTF-8: convmv -f latin1"));
  there("a1.JPG");
  for (const char* wanted : {"a1.jpg", " a1.jpg", "a1.JPG ", "a1.png", "a1.bmp", "a1"})
    CHECK(hint(wanted) == " (but a1.JPG is there)");
  for (const char* wanted : {"a1.txt", "a2.jpg", "a.jpg", "a11.jpg"}) CHECK(hint(wanted).empty());
  CHECK(hint("a1.png", 0).empty());
  // Folders are no images, nor is what stands before a NUL.
  for (const char* name : {"sub/", "%00.jpg", "a1.JPG%00", "%2e", "x\\", "..\\"})
    CHECK(hint(name).empty());
}

TEST_CASE("a file that may not be read is found without reading any") {
  if (::geteuid() == 0) return;  // who may read everything
  TempDir dir("permission");
  fs::copy_file(Fixture("rgb444.jpg"), dir.path / "a.jpg");
  ::chmod((dir.path / "a.jpg").c_str(), 0);
  AuditOptions options;
  AuditPart& part = options.parts.emplace_back();
  part.name = "x";
  part.img_prefix = dir.path.string();
  part.dataset = std::make_shared<CocoDataset>(LoadCoco(dir.Write(
      "a.json",
      R"({"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [], "categories": [{"id": 1, "name": "c"}]})")));
  options.contents = false;
  bool found = false;
  for (const Finding& f : Audit(options).parts[0].findings)
    found |= f.code == "image.unreadable" && f.count == 1;
  CHECK(found);
}
