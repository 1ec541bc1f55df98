// The images that an annotation file names: which they are, and why one of them isn't found.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "catch.h"
#include "exp/data/audit.h"
#include "exp/data/image_list.h"
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
