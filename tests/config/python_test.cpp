// The evaluator against values that CPython gives for the same text.
#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "src/config/python_file.h"
#include "tests/config/folder.h"

using namespace xp::config;

namespace {

std::string Run(const std::string& text, const std::string& bases = "{}") {
  PythonFile file(text, "t.py");
  Node base = FromJson(bases);
  return CanonicalJson(file.Run(base));
}

std::string Base(const std::string& text, const std::string& bases) {
  PythonFile file(text, "t.py");
  Node base = FromJson(bases);
  file.Run(base);
  return CanonicalJson(base);
}

std::string Eval(const std::string& text) {
  return CanonicalJson(EvaluateExpression(text, {InternName("t.py"), 1, 1}));
}

std::string Error(const std::string& text) {
  try {
    Run(text);
  } catch (const xp::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("expressions are CPython's") {
  const std::pair<const char*, const char*> cases[] = {
      {"1 + 2 * 3 ** 2 - -1", "20"},
      {"-7 // 2, -7 % 3, 7 // -2, 7 % -3", "[-4,2,-4,-2]"},
      {"-7.5 // 2, -7.5 % 2, 1 / 2, 4 / 2", "[-4.0,0.5,0.5,2.0]"},
      {"-2 ** 2, 2 ** -1, 2 ** 3 ** 2", "[-4,0.5,512]"},
      {"1 << 4 | 3 & 2 ^ 1", "19"},
      {"0x10, 0o17, 0b11, 1_000, 1e3, .5, 1.", "[16,15,3,1000,1000.0,0.5,1.0]"},
      {"not 0 and 1 or 2", "1"},
      {"1 < 2 <= 2 != 3, 1 in [1], 'a' not in 'abc', None is None", "[true,true,false,true]"},
      {"5 if [] else 6", "6"},
      {"[1, 2] + [3] * 2, (1,) + (2,), 'a' * 3", "[[1,2,3,3],[1,2],\"aaa\"]"},
      {"[0, 1, 2, 3, 4][1:4], [0, 1, 2, 3][::-1], 'hello'[-3:], [0, 1, 2][5:]",
       "[[1,2,3],[3,2,1,0],\"llo\",[]]"},
      {"[0,1,2,3,4,5][4:1:-2], (1,2,3)[:-1]", "[[4,2],[1,2]]"},
      {"[x * y for x in range(3) for y in (1, 10) if x != 1]", "[0,0,2,20]"},
      {"{k: v for k, v in zip('ab', [1, 2])}", R"({"a":1,"b":2})"},
      {"dict(a=1, **{'b': 2}), {**dict(c=3), 'd': 4}, [*range(2), *'x']",
       R"([{"a":1,"b":2},{"c":3,"d":4},[0,1,"x"]])"},
      {"sum(x for x in [1, 2.5]), max(3, 1), min([4, 2]), len('\xc3\xa9x')", "[3.5,3,2,2]"},
      {"sorted([3, 1, 2], reverse=True), list(enumerate('ab', 1)), list(reversed([1, 2]))",
       "[[3,2,1],[[1,\"a\"],[2,\"b\"]],[2,1]]"},
      {"round(2.5), round(3.5), round(2.675, 2), round(1234, -2), round(0.5 * 7)",
       "[2,4,2.67,1200,4]"},
      {"int(3.9), int('-12'), float('1e3'), str(1.0), str(1e-05), str(1e16), bool([])",
       R"([3,-12,1000.0,"1.0","1e-05","1e+16",false])"},
      {"f'{1.0}-{2:03d}-{3.14159:.2f}-{\"x\"!r}-{{}}', 'a' 'b'", R"(["1.0-002-3.14-'x'-{}","ab"])"},
      {"'{0}-{x:>4}-{0}'.format(1, x='y'), '%d/%s/%.1f%%' % (1, 'a', 2.25), '%s' % [1]",
       R"(["1-   y-1","1/a/2.2%","[1]"])"},
      {"'a,b'.split(','), '-'.join(['x', 'y']), 'AbC'.lower(), 'x_y'.replace('_', '-'), ' a "
       "'.strip()",
       R"([["a","b"],"x-y","abc","x-y","a"])"},
      {"'\\n\\x41\\u00e9\\101', r'\\n', 'a\\\nb'",
       "[\"\\nA\xc3\xa9"
       "A\",\"\\\\n\",\"ab\"]"},
      {"(lambda a, b=2: a * b)(3)", "6"},
      {"str((1,)), str([1, 'a', None, True]), str({'k': 1.5})",
       R"x(["(1,)","[1, 'a', None, True]","{'k': 1.5}"])x"},
      {"list(map(lambda x: x + 1, filter(None, [0, 1, 2])))", "[2,3]"},
      {"'0x%x' % 255, '{:,}'.format(1234567), f'{5:5d}|{5:<5d}|'",
       R"(["0xff","1,234,567","    5|5    |"])"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK(Eval(text) == expected);
  }
}

TEST_CASE("statements") {
  CHECK(Run("a, (b, *c) = 1, (2, 3, 4)\nd = e = [1]\nd += [2]\n") ==
        R"({"a":1,"b":2,"c":[3,4],"d":[1,2],"e":[1,2]})");
  CHECK(Run("x = []\nfor i in range(5):\n    if i == 1:\n        continue\n    if i == 4:\n        "
            "break\n    x.append(i)\nelse:\n    x = 0\ndel i\n") == R"({"x":[0,2,3]})");
  CHECK(Run("def f(a, b=1):\n    return a + b\nx = f(2) + f(1, b=3)\n") == R"({"x":7})");
  CHECK(Run("n = 0\nwhile n < 5: n += 2\n") == R"({"n":6})");
  CHECK(Run("if 1 > 2:\n  a = 1\nelif True:\n  a = 2\nelse:\n  a = 3\n") == R"({"a":2})");
  CHECK(Run("import copy\nimport math\na = dict(b=[1])\nc = "
            "copy.deepcopy(a)\nc['b'].append(math.ceil(1.2))\n__x = 1\n") ==
        R"({"a":{"b":[1]},"c":{"b":[1,2]}})");
  CHECK(Run("a = dict(x=1)\nb = a\nb['y'] = 2\na.pop('x')\n") == R"({"a":{"y":2},"b":{"y":2}})");
  CHECK(Run("a = [1, 2, 3, 4]\ndel a[1:3]\na[0] = 9\na[1:] = [7, 8]\n") == R"({"a":[9,7,8]})");
  CHECK(Run("x = 1; y = (\n  2)\nz = 3 \\\n  + 4\n'''doc'''\n") == R"({"x":1,"y":2,"z":7})");
}

// tests/conformance/golden/py_functions.py: closures, star parameters, the standard library. The
// expected text is what CPython 3.11 makes of it.
TEST_CASE("functions and the standard library are CPython's") {
  std::string path = std::string(EXP_SOURCE_DIR) + "/tests/conformance/golden/py_functions.py";
  CHECK(
      CanonicalJson(Load(path).root) ==
      R"json({"a":{"args":[1,2],"depth":3,"name":"a","width":64},"b":{"args":[],"name":"b","width":1},"c":3628800,"counter":2,"d":[5,10],"e":[3,null],"f":[1,5,[6]],"g":[3,-3,4.0,3.0,3.0,8.0,3.1416,6,6,true,5.0,2.0,2,true,2.718,1.557408,0.463648,120,true],"h":["/c/d","y.z",["a/b.tar",".gz"],"/a","b/c",true],"i":[true,false,5,"X",true],"m1":{"a":[1,2]},"m2":{"a":[1,2]},"m3":{"a":[1]},"pi":3.141592653589793,"q":[0,2,4],"r":[2,2,2],"s":[1,2],"t":3,"u":3,"v":1,"w":"one line","y":[1],"z":[1]})json");
}

TEST_CASE("line ends are Python's, within strings too") {
  CHECK(Run("a = dict(\r\n  b=[1,\r\n2])\r\ns = \"\"\"x\r\ny\"\"\"\r\nif True:\r\n    c = 1 + "
            "\\\r\n      2\r\n") == R"({"a":{"b":[1,2]},"c":3,"s":"x\ny"})");
  CHECK(Run("a = 1\rb = 2\rs = \"\"\"x\ry\"\"\"\r") == R"({"a":1,"b":2,"s":"x\ny"})");
}

TEST_CASE("a raise that isn't reached does nothing") {
  CHECK(Run("a = 1\nif a == 1:\n    b = 2\nelse:\n    raise NotImplementedError\n") ==
        R"({"a":1,"b":2})");
  CHECK(Run("def f(x):\n    if x: raise ValueError('x') from None\n    return 3\na = f(0)\n") ==
        R"({"a":3})");
}

TEST_CASE("characters by number, ints by base") {
  CHECK(Eval("chr(233), ord('\xc3\xa9'), chr(0x1f600), ascii('\xc3\xa9\xe4\xba\xba')") ==
        "[\"\xc3\xa9\",233,\"\xf0\x9f\x98\x80\",\"'\\\\xe9\\\\u4eba'\"]");
  CHECK(Eval("int('ff', 16), int('0x1f', 0), int('-0b11', 2), int('0x1f', 16), int('12', 0)") ==
        "[255,31,-3,31,12]");
}

TEST_CASE("nearly a hundred levels of brackets are read") {
  CHECK(Eval(std::string(95, '[') + std::string(95, ']')) ==
        std::string(95, '[') + std::string(95, ']'));
}

TEST_CASE("ints up to 2^64 - 1 are kept, not calculated with") {
  CHECK(
      Run("a = 18446744073709551615\nb = -9223372036854775808\nc = [0xFFFFFFFFFFFFFFFF, str(a)]\n"
          "d = f'{a}', a == 18446744073709551615, a == 1, int(a)\n") ==
      R"({"a":18446744073709551615,"b":-9223372036854775808,"c":[18446744073709551615,"18446744073709551615"],)"
      R"("d":["18446744073709551615",true,false,18446744073709551615]})");
  CHECK_THAT(Error("a = 18446744073709551616\n"), ContainsSubstring("64 bits"));
  CHECK_THAT(Error("a = 18446744073709551615 + 1\n"), ContainsSubstring("64 bits"));
  CHECK_THAT(Error("a = -18446744073709551615\n"), ContainsSubstring("64 bits"));
  // Through every form and back.
  Node node = FromJson("{\"seed\":18446744073709551615,\"n\":[1,9223372036854775808]}");
  CHECK(CanonicalJson(LoadText(PrettyYaml(node), "t.yaml").root) == CanonicalJson(node));
  CHECK(CanonicalJson(LoadText("s: 1\n", "t.yaml", {"s=18446744073709551615"}).root) ==
        R"({"s":18446744073709551615})");
  CHECK_THROWS_AS(LoadText("s: 1\n", "t.yaml", {"s=18446744073709551616"}), xp::Error);
}

TEST_CASE("a base's value inside text") {
  CHECK(Run("a = 'x/{{_base_.root}}/{{ _base_.n }}'\nb = '{{_base_.root}}'\nc = '{{other}}'\n",
            R"({"root":"r","n":5})") == R"({"a":"x/r/5","b":"r","c":"{{other}}"})");
}

TEST_CASE("_base_ is a ConfigDict that may be read and changed") {
  const char* base = R"({"model":{"neck":{"a":1,"b":[1,2]}},"root":"r/"})";
  CHECK(Run("x = _base_.root + 'y'\nz = {{_base_.model.neck.b}}\n", base) ==
        R"({"x":"r/y","z":[1,2]})");
  CHECK(Base("_base_.model.neck.a = 5\n_base_.model['neck']['b'][0] = "
             "7\n_base_.model.neck.update(dict(c=1))\n",
             base) == R"({"model":{"neck":{"a":5,"b":[7,2],"c":1}},"root":"r/"})");
  CHECK(
      Base("_base_.model.update(dict(neck=dict(a=2)))\n_base_.pop('root')\n_base_.pop('nothing')\n",
           base) == R"({"model":{"neck":{"a":2,"b":[1,2]}}})");
  CHECK(Base("_base_.model.merge(dict(neck=dict(_delete_=True, d=1)))\ndel _base_.root\n", base) ==
        R"({"model":{"neck":{"d":1}}})");
}

TEST_CASE("placeholders of the file and the environment take any text (mmengine#940, #1635)") {
  setenv("EXP_TEST_PATH", "C:\\new\\1", 1);
  unsetenv("EXP_TEST_ABSENT");
  CHECK(Run("a = '{{$EXP_TEST_PATH:x}}'\nb = '{{$EXP_TEST_ABSENT:d/e}}'\nc = "
            "{{$EXP_TEST_ABSENT:80}}\nd = {{'$EXP_TEST_ABSENT:2'}} + 1\ne = "
            "'{{$EXP_TEST_ABSENT:None}}'\nf = '{{fileBasenameNoExtension}}'\n") ==
        R"({"a":"C:\\new\\1","b":"d/e","c":80,"d":3,"e":null,"f":"t"})");
  Resolved yaml = LoadText(
      "a: \"{{$EXP_TEST_PATH:x}}\"\nb: {{$EXP_TEST_ABSENT:None}}\nc: {{ $EXP_TEST_ABSENT:1.5 }}\n",
      "t.yaml");
  CHECK(CanonicalJson(yaml.root) == R"({"a":"C:\\new\\1","b":null,"c":1.5})");
  CHECK_THAT(Error("a = '{{$EXP_TEST_ABSENT:}}'\n"),
             ContainsSubstring("EXP_TEST_ABSENT isn't set"));
}

TEST_CASE("what can't be evaluated is named, with its place") {
  const std::pair<const char*, const char*> cases[] = {
      {"import os\nx = os.system('ls')\n", "t.py:2:5: `os.system` can't be used"},
      {"x = open('f')\n", "t.py:1:5: `open` can't be used in a config"},
      {"x = eval('1')\n", "`eval`"},
      {"x = __import__('os')\n", "`__import__`"},
      {"x = ().__class__\n", "no attribute `__class__`"},
      {"class A: pass\n", "t.py:1:1: `class` can't be used in a config"},
      {"try:\n  x = 1\nexcept: pass\n", "`try` can't be used"},
      {"x = [1\n", "t.py:1:5: a bracket isn't closed"},
      {"x = 'a\n", "a string isn't closed"},
      {"x = 1 +\n", "t.py:1:8: a value is missing"},
      {"modle = 1\nx = model\n", "did you mean `modle`?"},
      {"x = b'a'\n", "bytes"},
      {"x = 1 / 0\n", "division by zero"},
      {"x = 'a' + 1\n", "`+` can't be applied to a str and an int"},
      {"x = [1][2]\n", "the index 2 is outside a list of 1"},
      {"x = len\ny = x\nz = [len]\n", "a function can't be a config value"},
      {"if True:\nx = 1\n", "an indented block is missing"},
      {"x = {*'ab', **dict(e=5)}\n", "t.py:1:13: "},
      {"x = {1, **dict(e=5)}\n", "t.py:1:9: "},
      {"''.t = 2\n", "a str has no attributes to set"},
      {"del [1].t\n", "t.py:1:"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK_THAT(Error(text), ContainsSubstring(expected));
  }
}

TEST_CASE("bombs end in an error, in bounded time and memory") {
  const char* bombs[] = {
      "while True: pass\n",
      "x = 'a' * 10 ** 12\n",
      "x = 2 ** 100\n",
      "x = [0] * 10 ** 9\n",
      "x = list(range(10 ** 12))\n",
      "x = []\nx.append(x)\n",
      "x = []\nfor i in range(100000): x = [x]\n",
      "x = 'a'\nfor i in range(100): x = x + x\n",
      "x = [1]\nfor i in range(100): x = [x, x]\n",
      "def f(): return f()\nx = f()\n",
      "f = lambda g: g(g)\nx = f(f)\n",
      "x = f'{1:{10 ** 9}}'\n",
      "x = 1 << 100\n",
      "x = round(1e300)\n",
      "x = 9223372036854775807 + 1\n",
      "x = [[y for y in range(1000)] for z in range(1000000)]\n",
      "a = []\nb = [a]\na.append(b)\nx = a == [[a]]\n",
      "x = '%999999999d' % 1\n",
  };
  for (const char* text : bombs) {
    CAPTURE(text);
    CHECK_FALSE(Error(text).empty());
  }
  CHECK_FALSE(Error("x = " + std::string(100000, '(')).empty());
  CHECK_FALSE(Error("x = " + std::string(100000, '-') + "1\n").empty());
  std::string sum = "x = 1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  CHECK_THAT(Error(sum + "\n"), ContainsSubstring("levels"));
}

TEST_CASE("a loop's variable makes nothing stale") {
  test::Folder folder;
  std::string path = folder.Write(
      "a.py",
      "stages = []\nfor i, n in enumerate([3, 4]):\n    stages.append(dict(i=i, n=n * 2))\n");
  Resolved config = Load(path);
  CHECK(config.warnings.empty());
  CHECK(CanonicalJson(config.root) == R"({"i":1,"n":4,"stages":[{"i":0,"n":6},{"i":1,"n":8}]})");
}

TEST_CASE("values know the keys that they were computed from") {
  PythonFile file("root = 'd/'\ntrain = dict(ann=root + 'a.json', root=root)\n", "t.py");
  Node base = Node::Dict();
  Node own = file.Run(base);
  const Node* ann = own.At("train.ann");
  REQUIRE(ann->history() != nullptr);
  CHECK(ann->history()->action == Action::kComputed);
  REQUIRE(ann->history()->from != nullptr);
  CHECK(ann->history()->from->front().path == "root");
  CHECK(ann->Where() == "t.py:2:18");
}
