// Inputs made to exhaust time, memory or stack end in an error, or in a result, within seconds.
#include <sys/resource.h>

#include <cstdlib>
#include <ctime>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "src/config/json.h"
#include "src/config/toml.h"
#include "src/config/yaml.h"
#include "tests/config/folder.h"

using namespace xp::config;
using xp::config::test::Folder;

namespace {

// Of the processor, generous for sanitizers: what these tests guard against takes minutes or years.
#ifdef __SANITIZE_ADDRESS__
constexpr double kSeconds = 600;
#else
constexpr double kSeconds = 60;
#endif

template <typename Work>
std::string Message(Work work) {
  const std::clock_t start = std::clock();
  std::string message;
  try {
    work();
  } catch (const xp::Error& error) {
    message = error.what();
  }
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < kSeconds);
  CHECK(message.size() < 10'000);
  return message.substr(0, 10'000);
}

std::string Loading(const std::string& path, const std::vector<std::string>& set = {}) {
  return Message([&] { Load(path, set); });
}

std::string Times(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("chains of bases: long ones load, endless ones are refused") {
  Folder folder;
  std::string last;
  for (int i = 0; i < 2500; ++i) {
    last = folder.Write("c" + std::to_string(i) + ".yaml",
                        (i == 0 ? std::string() : "_base_: c" + std::to_string(i - 1) + ".yaml\n") +
                            "k" + std::to_string(i) + ": 1\nshared: {n" + std::to_string(i) +
                            ": 1}\n");
  }
  CHECK_THAT(Loading(last), ContainsSubstring("inherit from each other"));
#ifdef __SANITIZE_ADDRESS__
  CHECK(Loading(folder / "c250.yaml").empty());
#else
  CHECK(Loading(folder / "c1000.yaml").empty());
#endif
}

TEST_CASE("stacked diamonds are resolved once a file, not once a way") {
  Folder folder;
  folder.Write("a40.yaml", "k: 1\n");
  folder.Write("b40.yaml", "k: 1\n");
  folder.Write("m40.py", "k = 1\n");
  for (int i = 39; i >= 0; --i) {
    std::string next = std::to_string(i + 1);
    std::string bases = "_base_: [a";
    bases.append(next).append(".yaml, b").append(next).append(".yaml]\n");
    folder.Write("a" + std::to_string(i) + ".yaml", bases);
    folder.Write("b" + std::to_string(i) + ".yaml", bases);
    std::string twice = "from mmengine.config import read_base\nwith read_base():\n    from .m";
    twice.append(next).append(" import *\n    from .m").append(next).append(" import k\n");
    folder.Write("m" + std::to_string(i) + ".py", twice);
  }
  CHECK(CanonicalJson(Load(folder / "a0.yaml").root) == R"({"k":1})");
  CHECK_THAT(Loading(folder / "m0.py"), ContainsSubstring("2,000 times"));
}

TEST_CASE("nesting is bounded in every language") {
  CHECK_THAT(Message([] { ParseJson(std::string(1'000'000, '['), "t.json"); }),
             ContainsSubstring("levels"));
  CHECK_FALSE(Message([] { ParseToml("a = " + std::string(1'000'000, '['), "t.toml"); }).empty());
  CHECK_FALSE(Message([] { ParseToml("a = " + Times("{a = ", 100'000) + "1", "t.toml"); }).empty());
  CHECK_FALSE(Message([] { ParseYaml(Times("- ", 100'000), "t.yaml"); }).empty());
  CHECK_FALSE(Message([] { ParseYaml(Times("? ", 100'000), "t.yaml"); }).empty());
  CHECK_FALSE(Message([] { ParseYaml(Times("a: {", 100'000), "t.yaml"); }).empty());
  CHECK_FALSE(
      Message([] { LoadText("a: 1\n", "t.yaml", {"a=" + std::string(1'000'000, '{')}); }).empty());
  CHECK_FALSE(Message([] {
                LoadText("a: 1\n", "t.yaml", {"+" + Times("a.", 1'000'000) + "a=1"});
              }).empty());
  // Below the limits things load.
  std::string deep = "v: " + Times("[", 90) + "1" + Times("]", 90);
  CHECK(Message([&] { LoadText(deep, "t.yaml"); }).empty());
}

TEST_CASE("giant numbers are errors or what IEEE 754 makes of them") {
  const std::string digits(1'000'000, '9');
  for (const std::string& text : {digits, "0x" + std::string(1'000'000, 'f'), "-" + digits})
    CHECK_THAT(Message([&] { ParseYaml("a: " + text, "t.yaml"); }), ContainsSubstring("64 bits"));
  CHECK_THAT(Message([&] { ParseJson("{\"a\": " + digits + "}", "t.json"); }),
             ContainsSubstring("64 bits"));
  CHECK_FALSE(Message([&] { ParseToml("a = " + digits, "t.toml"); }).empty());
  CHECK_THAT(Message([&] { LoadText("a: 1\n", "t.yaml", {"a=" + digits}); }),
             ContainsSubstring("64 bits"));
  CHECK(CanonicalJson(ParseYaml("[1e999999999, -1e999999999, 1e-999999999]", "t.yaml")) ==
        R"([{"!!float":".inf"},{"!!float":"-.inf"},0.0])");
  Folder folder;
  CHECK_THAT(Loading(folder.Write("a.py", "x = " + digits + "\n")), ContainsSubstring("64 bits"));
  CHECK_FALSE(Loading(folder.Write("b.py", "x = 10 ** 10 ** 10\n")).empty());
  CHECK_FALSE(Loading(folder.Write("c.py", "x = int('9' * 100000)\n")).empty());
}

TEST_CASE("bytes that aren't UTF-8 are refused wherever they come from") {
  Folder folder;
  const std::string bad = "x\xff\xfe\xc3(";
  for (const char* name : {"a.yaml", "a.json", "a.toml", "a.py"}) {
    CHECK_THAT(Loading(folder.Write(name, "a = '" + bad + "'\n")), ContainsSubstring("UTF-8"));
  }
  CHECK_THAT(Message([&] { LoadText("a: 1\n", "t.yaml", {"a=" + bad}); }),
             ContainsSubstring("UTF-8"));
  std::string file = folder.Write("set.txt", "a=" + bad + "\n");
  CHECK_THAT(Message([&] { OverridesFromFiles({file}); }), ContainsSubstring("UTF-8"));
  CHECK_THAT(Message([] { ParseYaml("a: \xed\xa0\x80", "t.yaml"); }),  // a surrogate
             ContainsSubstring("UTF-8"));
  CHECK_THAT(Message([] { ParseYaml("a: \xf4\x90\x80\x80", "t.yaml"); }),  // beyond U+10FFFF
             ContainsSubstring("UTF-8"));
}

TEST_CASE("much of everything takes time in proportion") {
  Folder folder;
  folder.Write("base.json", "{\"k\": 1}");
  std::string line = "{\"_base_\": \"base.json\", \"a\": [";
  for (int i = 0; i < 100'000; ++i) line += "{{_base_.k}}, ";
  CHECK(Loading(folder.Write("marks.json", line + "1]}")).empty());  // one line of 1.4 MB
  std::vector<std::string> set;
  set.reserve(50'000);
  for (int i = 0; i < 50'000; ++i) set.push_back("k=" + std::to_string(i));
  CHECK(Message([&] { LoadText("k: -1\n", "t.yaml", set); }).empty());
  std::string keys;
  for (int i = 0; i < 100'000; ++i) keys += "some_rather_long_name_" + std::to_string(i) + ": 1\n";
  CHECK_THAT(Message([&] { LoadText(keys, "t.yaml", {"some_rather_long_nam_77=1"}); }),
             ContainsSubstring("did you mean"));
  std::string anchors = "a: &a {x: 1}\n";
  for (int i = 0; i < 50'000; ++i) anchors += "k" + std::to_string(i) + ": {<<: *a, y: 2}\n";
  CHECK(Message([&] { ParseYaml(anchors, "t.yaml"); }).empty());
  std::string unclosed;
  for (int i = 0; i < 200'000; ++i) unclosed += "{{$X:";
  CHECK(Message([&] { LoadText("a: '" + unclosed + "'\n", "t.yaml"); }).empty());
}

namespace {

// Of the process until now, in MiB.
long PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss >> 10;
}

}  // namespace

TEST_CASE(
    "Python that makes or goes through too much ends in an error, soon and with little memory") {
#ifdef __SANITIZE_ADDRESS__
  if (std::getenv("EXP_LONG_TESTS") == nullptr) {
    WARN("skipped: all of it, sanitized and not optimized, takes ten minutes; set EXP_LONG_TESTS");
    return;
  }
#endif
  Folder folder;
  const std::string long_name(2'000'000, 'n');
  const std::string half = "s = 'a' * 4000000\nt = 'a' * 2000000 + 'b'\n";
  const std::string programs[] = {
      "import foo\nx = foo\nwhile True: x = x." + std::string(60, 'a') + "\n",
      "while True: import " + Times(std::string(900, 'a') + ", ", 20) + "b\n",
      long_name + " = 1\nwhile True: " + long_name + "\n",
      "while True:\n    def f(a=1, b=2, c=3): pass\n",
      "d = {i: 1 for i in range(400000)}\nwhile True: all(d.items())\n",
      "d = {i: 1 for i in range(400000)}\nwhile True: (1, 2) in d.items()\n",
      "s = 'x' * 16000000\nl = [str([s]) for i in range(1000)]\n",
      "s = 'x' * 16000000\nl = list(s)\n",
      "s = 'x,' * 8000000\nl = s.split(',')\n",
      "l = ['a'.center(1000) for i in range(1000000)]\n",
      "l = [format(1, '>1000') for i in range(1000000)]\n",
      "t = (int,)\nfor i in range(40): t = (t, t)\nx = isinstance('a', t)\n",
      "t = (1,)\nfor i in range(19): t = (t,) * 1000\nd = {t: 1}\n",
      "t = ('x' * 1000000,)\nd = {}\nwhile True: t in d\n",
      "while True: f'" + std::string(2'000'000, 'x') + "'\n",
      "l = [0] * 100000\nx = list(zip(*[l] * 1000, strict=True))\n",
      "def f(n): return [f(n + 1) " + Times("for a in [1] ", 500) + "]\nx = f(0)\n",
      "x = [1 " + Times("for a in [1] ", 20'000) + "]\n",
      half + "x = t in s\n",
      half + "x = s.count(t)\n",
      half + "x = s.rfind(t[::-1])\n",
      half + "x = s.replace(t, '')\n",
      half + "x = s.split(t)\n",
      half + "x = s.strip(t[::-1] + s)\n",
  };
  for (const std::string& text : programs) {
    CAPTURE(text.substr(0, 200));
    CHECK_FALSE(Loading(folder.Write("a.py", text)).empty());
  }
  std::string dels, many;
  for (int i = 0; i < 100'000; ++i) {
    const std::string name = "a" + std::to_string(i);
    dels += name + " = 0\n";
    many += name + "=1, ";
  }
  for (int i = 0; i < 100'000; ++i) dels += "del a" + std::to_string(i) + "\n";
  CHECK_FALSE(Loading(folder.Write("b.py", dels)).empty());
  CHECK_FALSE(
      Loading(folder.Write("c.py", "def f(" + many + "): pass\nwhile True: f()\n")).empty());
  std::string calls = "def f(n):\n";
  for (int i = 0; i < 48; ++i)
    calls += std::string(4 + static_cast<size_t>(i), ' ') + "for a in [1]:\n";
  CHECK_THAT(Loading(folder.Write("d.py", calls + std::string(52, ' ') + "return f(n)\nf(1)\n")),
             ContainsSubstring("40 deep"));
  // Nothing of a long string is copied before it is asked for.
  std::string loops = "s = 'x' * 8000000\n";
  for (size_t i = 0; i < 20; ++i) loops += std::string(4 * i, ' ') + "for a in s:\n";
  CHECK_FALSE(Loading(folder.Write("e.py", loops + std::string(80, ' ') + "break\n")).empty());
#ifndef __SANITIZE_ADDRESS__
  CHECK(PeakMemory() < 1500);
#endif
}

TEST_CASE("long but sensible Python isn't taken for a bomb") {
  Folder folder;
  std::string branches = "n = 399\nif n == -1: x = -1\n";
  for (int i = 0; i < 400; ++i) {
    const std::string number = std::to_string(i);
    branches.append("elif n == ").append(number).append(": x = ").append(number).append("\n");
  }
  CHECK(CanonicalJson(Load(folder.Write("a.py", branches)).root) == R"({"n":399,"x":399})");
  // As for the 21,841 classes of ImageNet: each step looks at one element, not at all before it.
  CHECK(CanonicalJson(Load(folder.Write("b.py",
                                        "l = []\nd = {}\nwhile len(l) < 60000: l.append(len(l))\n"
                                        "for i in l: d[i] = d.get(i - 1, 0) + 1\n"
                                        "l, d = len(l), d.get(59999)\ndel i\n"))
                          .root) == R"({"d":60000,"l":60000})");
}
