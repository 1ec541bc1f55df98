// What a user reads for the mistakes that people make, in every language: the place, the words,
// the advice.
#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "tests/config/folder.h"

using namespace xp::config;

namespace {

struct Mistake {
  const char* file;
  const char* text;
  const char* where;  // line:column
  const char* says;
};

std::string Error(const std::string& path) {
  try {
    Load(path);
  } catch (const xp::Error& error) {
    return error.what();
  }
  return "";
}

void CheckAll(std::initializer_list<Mistake> mistakes) {
  test::Folder folder;
  for (const Mistake& mistake : mistakes) {
    CAPTURE(mistake.text);
    const std::string path = folder.Write(mistake.file, mistake.text);
    const std::string error = Error(path);
    CHECK_THAT(error, ContainsSubstring(path + ":" + mistake.where + ": "));
    CHECK_THAT(error, ContainsSubstring(mistake.says));
  }
}

}  // namespace

TEST_CASE("mistakes in YAML") {
  CheckAll({
      {"a.yaml", "a: @x\n", "1:4", "put quotes around text that starts with @"},
      {"a.yaml", "a: \"C:\\data\"\n", "1:7", "double each backslash"},
      {"a.yaml", "a: 1\nb: x\x07y\n", "2:5", "control characters are not allowed"},
      {"a.yaml", "a: b: c\n", "1:5", "put quotes around a value that holds a colon"},
      {"a.yaml", "a: !!set {x, y}\n", "1:4", "the tag !!set isn't known"},
      {"a.yaml", "a: !!binary aGk=\n", "1:4", "the tag !!binary isn't known"},
      {"a.yaml", "a: !!python/name:os.system\n", "1:4", "would run code and is refused"},
      {"a.yaml", "a: !!int abc\n", "1:4", "`abc` can't be read as !!int"},
      {"a.yaml", "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> x\n", "2:1",
       "git's mark of a conflict"},
  });
}

TEST_CASE("mistakes in JSON and TOML") {
  CheckAll({
      {"a.json", "{\"a\": 1,}", "1:9", "remove the comma before it"},
      {"a.json", "{'a': 1}", "1:2", "double quotes"},
      {"a.json", "// x\n{}", "1:1", "JSON has no comments"},
      {"a.json", "{\"a\": NaN}", "1:7", "{\"!!float\": \".nan\"}"},
      {"a.json", "{\"a\": True}", "1:7", "true or false in small letters"},
      {"a.json", "{\"a\": \"x\ny\"}", "2:1", "write a line end in text as \\n"},
      {"a.toml", "a = 07\n", "1:7", "leading zeroes are prohibited"},
  });
  // Dotted keys nest as brackets do; a hundred thousand once overflowed the stack.
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "a.";
  test::Folder folder;
  CHECK_THAT(Error(folder.Write("a.toml", deep + "a = 1\n")), ContainsSubstring("levels deep"));
}

TEST_CASE("mistakes in Python") {
  CheckAll({
      {"a.py", "a = dict(x=1, y=2, x=3)\n", "1:20", "the argument `x` is given twice"},
      {"a.py", "b = dict(x=1)\na = dict(**b, x=3)\n", "2:5", "the argument `x` is given twice"},
      {"a.py", "a = dict(x=1, 2)\n", "1:15", "without a name after one with a name"},
      {"a.py", "a = 0777\n", "1:5", "an int can't begin with 0"},
      {"a.py", "a = 1__0\n", "1:5", "not a number"},
      {"a.py", "a = 1_\n", "1:5", "not a number"},
      {"a.py", "if 1:\n\ta = 1\n        b = 2\n", "3:9", "tabs and spaces are mixed"},
      {"a.py", "a = '\\N{BULLET}'\n", "1:5", "write the character itself"},
      {"a.py", "a = open('x').read()\n", "1:5", "`open` can't be used in a config"},
      {"a.py", "a = eval('1')\n", "1:5", "`eval` can't be used in a config"},
      {"a.py", "with open('x') as f:\n    a = 1\n", "1:16", "`with` of anything but read_base()"},
      {"a.py", "match 1:\n    case 1:\n        a = 1\n", "1:1", "`match` can't be used"},
      {"a.py", "@f\ndef g(): pass\n", "1:1", "a decorator can't be used"},
      {"a.py", "a = 1\nb = dict(t=int)\n", "2:12", "a function can't be a config value"},
      {"a.py", "a = dict(f=lambda: 1)\n", "1:12", "a function can't be a config value"},
      {"a.py", "a = 1\nif a > 0:\n    raise ValueError(f'{a} is bad')\n", "3:5",
       "the config raises ValueError: 1 is bad"},
      {"a.py", "raise NotImplementedError\n", "1:1", "the config raises NotImplementedError"},
      {"a.py", "from .b import m\nm.x = 1\n", "2:1", "LazyConfig.save"},
      {"a.py", "from detectron2.config import LazyCall as L\na = L(dict)(x=1)\n", "2:5",
       "LazyConfig.save"},
      {"a.py", "from torch import nn\na = nn.Conv2d(1)\n", "2:5", "write type=Conv2d in a dict"},
      {"a.py", "a = [1, ...]\n", "1:9", "an ellipsis can't be a config value"},
      {"a.py", "a = None[0]\n", "1:5", "None can't be indexed"},
      {"a.py", "a = 1\n<<<<<<< HEAD\nb = 1\n=======\nb = 2\n>>>>>>> x\n", "2:1",
       "git's mark of a conflict"},
  });
}

TEST_CASE("references") {
  CheckAll({
      {"a.yaml", "a: ${b.${c}}\nb: {x: 1}\nc: y\n", "1:4", "`${b.y}` names no key"},
      {"a.yaml", "a: ${b.${c}\nb: 1\n", "1:4", "isn't closed"},
      {"a.yaml", "a: ${b.${c}}\nb: {x: 1}\nc: [x]\n", "1:4", "is a list"},
  });
  std::string nested = "a: ";
  for (int i = 0; i < 1000; ++i) nested += "${a.";
  test::Folder folder;
  CHECK_THAT(Error(folder.Write("a.yaml", nested + std::string(1000, '}') + "\n")),
             ContainsSubstring("nested more than 20 levels"));
}

TEST_CASE("text in another encoding is told with the command that converts it") {
  using namespace std::string_literals;
  const std::string little = "a\0:\0 \0001\0"s, big = "\0a\0:\0 \0001"s;
  test::Folder folder;
  for (const auto& [text, from] :
       {std::pair{"\xff\xfe" + little, "UTF-16 "}, std::pair{"\xfe\xff" + big, "UTF-16 "},
        std::pair{little, "UTF-16LE "}, std::pair{big, "UTF-16BE "},
        std::pair{"\xff\xfe\0\0a\0\0\0"s, "UTF-32 "}, std::pair{"\0\0\xfe\xff\0\0\0a"s, "UTF-32 "},
        std::pair{"a: caf\xe9"s, "LATIN1 "}}) {
    for (const char* file : {"a.yaml", "a.json", "a.toml", "a.py"}) {
      CAPTURE(file, from);
      CHECK_THAT(Error(folder.Write(file, text)), ContainsSubstring("iconv -f "s + from));
    }
  }
}

TEST_CASE("bases through links") {
  namespace fs = std::filesystem;
  test::Folder folder;
  folder.Write("real/base.yaml", "a: 1\n");
  folder.Write("real/deep/child.yaml", "_base_: ../base.yaml\nb: 2\n");
  // A link to the folder: beside the link there is no base.yaml, beside the folder is one.
  fs::create_directory_symlink(folder / "real/deep", folder / "deep");
  CHECK(CanonicalJson(Load((folder / "deep/child.yaml")).root) == R"({"a":1,"b":2})");
  // A base beside the link comes first, as in mmengine.
  folder.Write("base.yaml", "a: 3\n");
  CHECK(CanonicalJson(Load((folder / "deep/child.yaml")).root) == R"({"a":3,"b":2})");
  // A link to the file.
  fs::create_directory(folder / "links");
  fs::create_symlink("../real/deep/child.yaml", folder / "links/one.yaml");
  fs::remove(folder / "base.yaml");
  const std::string error = Error(folder / "links/one.yaml");
  CHECK_THAT(error, ContainsSubstring("links/one.yaml:1:9"));
  CHECK_THAT(error, ContainsSubstring("which is a link"));
  CHECK_THAT(error, ContainsSubstring("real/deep/child.yaml"));
  // What is no file at all.
  CHECK_THAT(Error(folder.Write("url.yaml", "_base_: https://example.com/a.yaml\n")),
             ContainsSubstring("download it first"));
  CHECK_THAT(Error(folder.Write("dir.yaml", "_base_: real\n")), ContainsSubstring("isn't a file"));
  CHECK_THAT(Error(folder.Write("dir.yaml", "_base_: real\n")),
             !ContainsSubstring("did you mean `real`"));
}
