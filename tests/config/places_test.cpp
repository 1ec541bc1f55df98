// Every value is where it stands in its file, whatever form it has and whatever stands before it.
#include <cstdlib>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "exp/config/schema.h"
#include "tests/config/folder.h"

using namespace xp::config;

namespace {

struct Place {
  const char* path;
  const char* where;  // line:column
};

void CheckPlaces(const std::string& name, const std::string& text,
                 std::initializer_list<Place> places) {
  test::Folder folder;
  const std::string path = folder.Write(name, text);
  const Resolved resolved = Load(path);
  for (const Place& place : places) {
    CAPTURE(text, place.path);
    const Node* node = resolved.root.At(place.path);
    REQUIRE(node != nullptr);
    CHECK(node->Where() == path + ":" + place.where);
  }
}

std::string ErrorOf(const std::string& path, const std::vector<std::string>& overrides = {},
                    const LoadOptions& options = {}) {
  try {
    Load(path, overrides, options);
  } catch (const xp::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("flow lists and dicts are where their bracket is, block ones where their key is") {
  CheckPlaces("a.yaml",
              "a: [1, {k: [2]}]\nb: {c: []}\nd:\n  - e\n  - [3]\nf:\n  g: {}\nh: \"x\\\n  y\"\n"
              "i: >\n  z\nj: !T [1]\n\"k\": [4]\n? l\n: [5]\n",
              {{"a", "1:4"},
               {"a.1", "1:8"},
               {"a.1.k", "1:12"},
               {"a.1.k.0", "1:13"},
               {"b", "2:4"},
               {"b.c", "2:8"},
               {"d", "3:1"},
               {"d.0", "4:5"},
               {"d.1", "5:5"},
               {"f", "6:1"},
               {"f.g", "7:6"},
               {"h", "8:4"},
               {"i", "10:4"},
               {"j", "12:4"},
               {"k", "13:6"},
               {"l", "15:3"}});
  CheckPlaces("a.yaml", "{a: [1], b: {c: 2}}\n", {{"a", "1:5"}, {"b", "1:13"}, {"b.c", "1:17"}});
  CheckPlaces("a.json", "{\"a\": [1,\n {\"b\": {}}]}",
              {{"a", "1:7"}, {"a.1", "2:2"}, {"a.1.b", "2:8"}});
  CheckPlaces("a.toml", "a = [1, {b = [2]}]\n[c]\nd = {e = 1}\n",
              {{"a", "1:5"}, {"a.1", "1:9"}, {"a.1.b", "1:14"}, {"c", "2:1"}, {"c.d", "3:5"}});
  CheckPlaces("a.py", "a = [1, dict(b=[2])]\nc = {'d': (3,)}\n",
              {{"a", "1:5"}, {"a.1", "1:9"}, {"a.1.b", "1:16"}, {"c", "2:5"}, {"c.d", "2:11"}});
}

TEST_CASE("an alias is where it stands, what lies in it at the anchor") {
  CheckPlaces("a.yaml",
              "a: &x 1\nb: &y [2]\nc: &z {d: 3}\ne: *x\nf: *y\ng: *z\nh:\n  <<: *z\n  i: [*x]\n",
              {{"a", "1:4"},
               {"e", "4:4"},
               {"f", "5:4"},
               {"f.0", "2:8"},
               {"g", "6:4"},
               {"g.d", "3:11"},
               {"h", "7:1"},
               {"h.d", "3:11"},
               {"h.i", "9:6"},
               {"h.i.0", "9:7"}});
}

TEST_CASE(
    "places behind line ends of Windows, a byte order mark, tabs and characters of more bytes") {
  CheckPlaces("a.yaml",
              "\xef\xbb\xbf"
              "a: [1]\r\nb:\r\n  c: [\r\n    2]\r\nd:\t[3]\r\n\xc3\xa9: \xe2\x82\xac\r\n",
              {{"a", "1:4"}, {"b.c", "3:6"}, {"b.c.0", "4:5"}, {"d", "5:4"}, {"\xc3\xa9", "6:4"}});
  CheckPlaces("a.json", "\xef\xbb\xbf{\"\xc3\xa9\":\t[1],\r\n\"b\": {}}",
              {{"\xc3\xa9", "1:7"}, {"b", "2:6"}});
  CheckPlaces("a.toml",
              "\xef\xbb\xbf"
              "a = [1]\r\n\"\xc3\xa9\" = [2]\r\n",
              {{"a", "1:5"}, {"\xc3\xa9", "2:7"}});
  CheckPlaces("a.py",
              "\xef\xbb\xbf"
              "a = [1]\r\nb = ['\xc3\xa9', 2]\r\n",
              {{"a", "1:5"}, {"b.1", "2:11"}});
  test::Folder folder;
  for (const char* name : {"a.yaml", "a.json", "a.toml", "a.py"}) {
    const std::string path = folder.Write(name,
                                          "\xef\xbb\xbf"
                                          "ab\xff");
    CHECK_THAT(ErrorOf(path), ContainsSubstring(path + ":1:3: not UTF-8"));
  }
}

TEST_CASE("placeholders of another length don't move what comes after them") {
  ::setenv("EXP_TEST_LINES", "x\n  y", 1);
  for (const char* line :
       {"a: [\"\xc3\xa9{{$EXP_TEST_UNSET:a long default}}\", {b: {{$EXP_TEST_UNSET:1}}}, [2]]\n",
        "a: [\"\xc3\xa9{{ fileBasename    }}     \", {b: {{$EXP_TEST_UNSET:1}}}, [2]]\n"}) {
    const std::string text = line;
    const size_t second = text.find("{b") - 1, third = text.find("{{", second + 1) - 1,
                 last = text.rfind('[') - 1;
    // In characters: one of two bytes stands before them.
    CheckPlaces("a.yaml", text + "c: [3]\n",
                {{"a.1", ("1:" + std::to_string(second + 1)).c_str()},
                 {"a.1.b", ("1:" + std::to_string(third + 1)).c_str()},
                 {"a.2", ("1:" + std::to_string(last + 1)).c_str()},
                 {"c", "2:4"}});
  }
  // A value of two lines.
  CheckPlaces("a.yaml", "a: {{$EXP_TEST_LINES:}}\nb: [1]\n", {{"b", "2:4"}});
  CheckPlaces("a.json", "{\"a\": {{$EXP_TEST_UNSET:12345678}}, \"b\": [1]}", {{"b", "1:42"}});
  CheckPlaces("a.toml", "a = [{{$EXP_TEST_UNSET:1}}, [1]]\n", {{"a.1", "1:29"}});
  test::Folder folder;
  folder.Write("base.yaml", "x: {y: 5}\n");
  const std::string path = folder.Write(
      "a.yaml",
      "_base_: base.yaml\na: [{{_base_.x.y}}, [1]]\nb: {w: \"C:\\\\\", v: {{_base_.x}}, u: [2]}\n");
  const Resolved resolved = Load(path);
  CHECK(CanonicalJson(resolved.root) ==
        R"({"a":[5,[1]],"b":{"u":[2],"v":{"y":5},"w":"C:\\"},"x":{"y":5}})");
  CHECK(resolved.root.At("a.0")->Where() == path + ":2:5");
  CHECK(resolved.root.At("a.1")->Where() == path + ":2:21");
  CHECK(resolved.root.At("b.u")->Where() == path + ":3:36");
  CHECK_THAT(ErrorOf(folder.Write(
                 "b.yaml", "a: {{$EXP_TEST_UNSET:12345678}}\nb: ['{{fileBasename}}', @x]\n")),
             ContainsSubstring("b.yaml:2:25: "));
}

TEST_CASE("errors of overrides name where each was given") {
  test::Folder folder;
  const std::string path = folder.Write("a.yaml", "a: 1\n");
  const std::string file = folder.Write("set.txt", "# a comment\n\na=2\nb=3\n");
  GivenOverrides given = OverridesFromFiles({file});
  CHECK(given.places == std::vector<std::string>{file + ":3", file + ":4"});
  LoadOptions options;
  options.override_places = given.places;
  CHECK_THAT(ErrorOf(path, given.texts, options), ContainsSubstring(file + ":4: nothing knows"));
  std::vector<std::string> both = {given.texts[0], "c=1"};
  options.override_places.pop_back();
  CHECK_THAT(ErrorOf(path, both, options), ContainsSubstring("--set #1: nothing knows"));
  CHECK(Load(path, {given.texts[0]}, options).root.At("a")->Where() == file + ":3");
}

TEST_CASE("of a list with choices, the elements that are wrong are told, at their place") {
  test::Folder folder;
  auto problems = [&](const std::string& scale) {
    std::string all;
    const std::string path = folder.Write("a.yaml", "data:\n  train: {img_scale: " + scale + "}\n");
    for (const Problem& problem : Validate(Load(path).root)) {
      if (problem.path.starts_with("data.train.img_scale"))
        all += problem.path.substr(20) + "@" + problem.where.substr(path.size() + 1) + " ";
    }
    return all;
  };
  CHECK(problems("[320, 200]").empty());
  CHECK(problems("[[320, 200], [300, x]]") == ".1.1@2:41 ");
  CHECK(problems("[320, x]") == ".1@2:28 ");
  CHECK(problems("[320]") == "@2:22 ");
  CHECK(problems("[320, [200, 100]]") == "@2:22 ");
  CHECK(problems("[[320, 200], 300]") == "@2:22 ");
  CHECK(problems("{a: 1}") == "@2:22 ");
  CHECK(problems("[[320, 200, 100]]") == ".0@2:23 ");
}
