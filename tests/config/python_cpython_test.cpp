// The evaluator against CPython 3.11, kind by kind. Each expected text is what CPython makes of the
// line before it; what is refused has no value that a config could rely on.
#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "src/config/python_file.h"
#include "tests/config/folder.h"

using namespace xp::config;

namespace {

struct Row {
  const char* text;
  const char* expected;
};

std::string Run(const std::string& text, const char* bases = "{}") {
  PythonFile file(text, "t.py");
  Node base = FromJson(bases);
  return CanonicalJson(file.Run(base));
}

template <size_t kCount>
void Expressions(const Row (&rows)[kCount]) {
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(CanonicalJson(EvaluateExpression(row.text, {InternName("t.py"), 1, 1})) == row.expected);
  }
}

template <size_t kCount>
void Programs(const Row (&rows)[kCount]) {
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(Run(row.text) == row.expected);
  }
}

template <size_t kCount>
void Refused(const Row (&rows)[kCount]) {
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK_THROWS_WITH(Run(row.text), ContainsSubstring(row.expected) && ContainsSubstring("t.py:"));
  }
}

}  // namespace

TEST_CASE("formats are CPython's") {
  Expressions({
      {"f'{12.0:.2}', f'{100.0:.3}', f'{2.5:.1}', f'{0.5:.3}', f'{1e100:.2g}'",
       R"(["1.2e+01","1e+02","2e+00","0.5","1e+100"])"},
      {"f'{\"#\"}{1:#x}{2!r:#>3}'", R"("#0x1##2")"},
      {"f'{255:#010x}', f'{-255:#010X}', f'{5: 05d}', f'{5:<05d}', f'{5:*<05d}', f'{7:+06}'",
       R"(["0x000000ff","-0X00000FF"," 0005","50000","5****","+00007"])"},
      {"f'{1234:010,}', f'{1234:08,}', f'{-65535:_b}', f'{65535:#_x}', f'{1234.5:,.0%}', "
       "f'{2e3:,.0E}'",
       R"(["00,001,234","0,001,234","-1111_1111_1111_1111","0xffff","123,450%","2E+03"])"},
      {R"(f'{1e20:G}', f'{float("inf"):F}', f'{float("nan"):08}', f'{3.0:#.0f}', f'{3.0:#g}', f'{1e16:#}')",
       R"(["1E+20","INF","00000nan","3.","3.00000","1.e+16"])"},
      {"f'{9223372036854775808:x}', f'{18446744073709551615:,}', f'{18446744073709551615:.3e}', "
       "hex(9223372036854775807)",
       R"(["8000000000000000","18,446,744,073,709,551,615","1.845e+19","0x7fffffffffffffff"])"},
      {R"(f'{-0.0:.1f}', f'{-0.0:g}', f'{True:5}', f'{"a":05}', f'{"é":^5}|', f'{"ab":é>4}', f'{"abc":.2}')",
       R"(["-0.0","-0","    1","a0000","  é  |","ééab","ab"])"},
      {"f'{1e-5:012,G}', f'{0.00012345:,.3}', f'{123456.789:_.1f}', f'{99999.5:.5g}', f'{0.0:.3}', "
       "f'{0:g}'",
       R"(["0,000,001E-05","0.000123","123_456.8","1e+05","0.0","0"])"},
      {"'%.3d|%.5x|%#010x|%#o|%+d|% d' % (5, 255, 255, 8, 3, 3)",
       R"("005|000ff|0x000000ff|0o10|+3| 3")"},
      {"'%-05d|%05.1f|%+.3G|%#.3g|%F|%5.1f%%' % (3, 2.25, 1e16, 1.0, float('inf'), 9.95)",
       R"("3    |002.2|+1E+16|1.00|INF|  9.9%")"},
      {"'%*d|%-*d|%.*f|%5s|%-5s|%.2s' % (5, 3, 4, 2, 1, 2.25, 'a', 'b', 'cde')",
       R"("    3|2   |2.2|    a|b    |cd")"},
      {"'%x %d %5d' % (18446744073709551615, 9223372036854775808, -3.99)",
       R"("ffffffffffffffff 9223372036854775808    -3")"},
      {R"('%s %r %a' % ('é', 'é', 'é'), f'{"é"!a} {"é"!r}', '{!a} {!s} {!r}'.format('中', 'é', 'é'))",
       R"(["é 'é' '\\xe9'","'\\xe9' 'é'","'\\u4e2d' é 'é'"])"},
      {"'a' % [1], 'a' % {'b': 1}, '%(b)s' % {'b': 1, 'c': 2}", R"(["a","a","1"])"},
      {R"(repr('\xa0\u200b\ufeff\u3000é中\x85'), repr("it's"), repr('"\''), ascii('😀'))",
       R"(["'\\xa0\\u200b\\ufeff\\u3000é中\\x85'","\"it's\"","'\"\\''","'\\U0001f600'"])"},
  });
}

TEST_CASE("formats that CPython refuses") {
  Refused({
      {"v = f'{5:.2}'\n", "an int has none"},
      {"v = f'{5:.3d}'\n", "an int has none"},
      {"v = f'{255:,x}'\n", "can't go with the format type `x`"},
      {"v = f'{\"a\":=5}'\n", "is a number's"},
      {"v = f'{\"a\":+}'\n", "is a number's"},
      {"v = f'{\"a\":,}'\n", "is a number's"},
      {"v = f'{1.5:.}'\n", "no digits after its point"},
      {"v = f'{1!x}'\n", "`!x` is no conversion"},
      {"v = f'{1#}'\n", "where no comment can stand"},
      {"v = '{!x}'.format(1)\n", "`!x` is no conversion"},
      {"v = '%x' % 1.5\n", "%x takes an int"},
      {"v = '%d' % 'a'\n", "%d takes a number"},
      {"v = '%(a)s %s' % {'a': 1}\n", "by name or by place"},
      {"v = str(len)\n", "t.py:1:5: a function has no text"},
      {"v = f'{({1, 2})}'\n", "no order that is the same each time"},
      {"x = []\nx.append(x)\nv = str(x)\n", "nested too deeply"},
  });
}
TEST_CASE("numbers are CPython's") {
  Expressions({
      {"9007199254740993 / 3, 1 / 9007199254740993, str(-9223372036854775807 / 7), "
       "9223372036854775807 / 9223372036854775806",
       R"([3002399751580331.0,1.1102230246251564e-16,"-1.3176245766935393e+18",1.0])"},
      {"9007199254740993 == 9007199254740992.0, 9007199254740993 > 9007199254740992.0, "
       "18446744073709551615 == 2.0 ** 64, 9223372036854775808 == 2.0 ** 63",
       "[false,true,false,true]"},
      {"9223372036854775808 < 18446744073709551615, sorted([18446744073709551615, 1, 2.5]), 1 in "
       "[True], 0.1 + 0.2 == 0.3",
       "[true,[1,2.5,18446744073709551615],true,false]"},
      {"{1: 'a', True: 'b', 1.0: 'c'}, {9223372036854775808: 1, 2.0 ** 63: 2}, len({0, 0.0, -0.0, "
       "False})",
       R"([{"1":"c"},{"9223372036854775808":2},1])"},
      {"round(2.5, ndigits=1), round(25.0, -1), round(35.0, -1), round(-15, -1), round(25, -1), "
       "round(9007199254740995, -1), round(1e22, -21), round(0.15, 1), round(-0.04, 1), "
       "round(5e-324, 323), round(24.999999999999996, -1)",
       "[2.5,20.0,40.0,-20,20,9007199254741000,1e+22,0.1,-0.0,0.0,20.0]"},
      {R"(int('1_000'), int(' -12\n'), int('12', base=8), int('0x_ff', 16), int('0b1', 16), int('0', 0), int('zz', 36), int('18446744073709551615'), int('-9223372036854775808'), int(18446744073709551615))",
       "[1000,-12,10,255,177,0,1295,18446744073709551615,-9223372036854775808,"
       "18446744073709551615]"},
      {"float('1_0.5e-1_0'), float(' +.5 '), float('5.'), float('1e400'), float('-inf'), "
       "float(9223372036854775809)",
       R"([1.05e-09,0.5,5.0,{"!!float":".inf"},{"!!float":"-.inf"},9223372036854775808.0])"},
      {"2 ** -2, (-2) ** -3, 0 ** 0, 0.0 ** 0, 10.0 ** 308, 1e308 * 10, -1e308 * 10",
       R"([0.25,-0.125,1,1.0,1e+308,{"!!float":".inf"},{"!!float":"-.inf"}])"},
      {"'' * 10 ** 18, [] * 10 ** 18, 'a' * -1", R"(["",[],""])"},
      {"max(1, 2, key=None), max([], default=3), min(3, 1, key=lambda x: -x), sum([1, 2], "
       "start=3), list(enumerate('ab', start=1))",
       R"([2,3,3,6,[[1,"a"],[2,"b"]]])"},
      {"list(map(lambda a, b: a * b, [1, 2, 3], [4, 5])), list(zip('ab', [1, 2], strict=True))",
       R"([[4,10],[["a",1],["b",2]]])"},
      {"() is (), None is None, 1 is 1, True is True, 1 is True, [] is []",
       "[true,true,true,true,false,false]"},
  });
  CHECK(
      Run("import math\nimport itertools\n"
          "v = [math.floor(9007199254740993), math.ceil(True), math.hypot(1, 2, 2), math.hypot(), "
          "math.gcd(12, 18, 8), math.gcd(), math.prod([2, 3], start=5), math.log(8, 2)]\n"
          "w = [math.isclose(1, 1.1, rel_tol=0.2), math.isclose(0, 1e-12, abs_tol=1e-9), "
          "math.isclose(math.inf, 1), math.isclose(math.inf, math.inf)]\n"
          "x = list(itertools.product([1, 2], repeat=2))\n") ==
      R"({"v":[9007199254740993,1,3.0,0.0,2,0,30,3.0],"w":[true,true,false,true],"x":[[1,1],[1,2],[2,1],[2,2]]})");
}

TEST_CASE("numbers that CPython refuses, or that need more than 64 bits") {
  Refused({
      {"v = 0 ** -1\n", "division by zero"},
      {"v = 10.0 ** 400\n", "too large for a float"},
      {"v = int('_1')\n", "can't read '_1'"},
      {"v = int('1__0')\n", "can't read"},
      {"v = int('+-5')\n", "can't read"},
      {"v = float('_1')\n", "can't read"},
      {"v = float('+-1')\n", "can't read"},
      {"v = int('010', 0)\n", "in base 0"},
      {"v = int(3, 8)\n", "takes a string"},
      {"v = int('18446744073709551616')\n", "64 bits"},
      {"v = round(1, digits=2)\n", "can't take the argument `digits`"},
      {"v = [1].index(value=1)\n", "argument"},
      {"v = [3].sort(1)\n", "sort() takes 0"},
      {"v = len([], x=1)\n", "can't take the argument `x`"},
      {"v = list(zip([1], [1, 2], strict=True))\n", "strict"},
      {"v = sum(['a'], '')\n", "sum() adds no strings"},
      {"v = max(1, 2, default=3)\n", "takes no default"},
      {"import math\nv = math.exp(1000)\n", "too large"},
      {"import math\nv = math.log(0)\n", "isn't defined"},
      {"import math\nv = math.sqrt(4, 2)\n", "takes 1 argument"},
      {"import math\nv = math.isclose(1, 2, tol=3)\n", "can't take the argument `tol`"},
      {"import math\nv = math.sin(math.inf)\n", "isn't defined"},
      {"x = float('nan')\nv = x in [x]\n", "NaN"},
      {"v = sorted([1, float('nan')])\n", "NaN can't be sorted"},
      {"v = {float('nan'): 1}\n", "can't be a key"},
      {"v = 1000.5 is 1000.5\n", "compare them with =="},
      {"v = 1 in 'abc'\n", "holds strings only"},
  });
}

TEST_CASE("strings are CPython's") {
  Expressions({
      {"' a b '.split(None, 1), '  a  b  '.rsplit(None, 1), ' a b '.split(None, 0), "
       "'a,b,c'.rsplit(',', maxsplit=1), 'a b'.split(maxsplit=1), ''.split(), ''.split(',')",
       R"([["a","b "],["  a","b"],["a b "],["a,b","c"],["a","b"],[],[""]])"},
      {R"('a\nb\r\nc\x0bd\x1ce\u2028f\x85'.splitlines(), 'a\nb'.splitlines(True), 'a\r\n'.splitlines(keepends=True))",
       R"([["a","b","c","d","e","f"],["a\n","b"],["a\r\n"]])"},
      {R"(' \u3000x\xa0'.strip(), '\u3000a\x1cb '.split(), 'éaé'.strip('é'), '\u2003'.isspace())",
       R"(["x",["a","b"],"a",true])"},
      {"'abc'.find('', 3), 'abc'.find('', 4), 'éaéa'.find('a', 2), 'éaéa'.rfind('é'), "
       "'aaa'.count('a', 1), 'abc'.count('', 1, 2), 'abc'.index('c', -1), 'abc'.find('a', None, 1)",
       "[3,-1,3,2,2,2,2,0]"},
      {"'abc'.startswith('b', 1), 'abc'.endswith(('x', 'b'), 0, 2), 'abc'.startswith('', 4), "
       "'x.py'.removesuffix('.py')",
       R"([true,true,false,"x"])"},
      {"'x'.center(4), 'x'.center(5, '*'), 'é'.ljust(3, '·'), '-5'.zfill(4), "
       "'a.b.c'.rpartition('.'), 'abc'.partition('x'), 'aXbX'.replace('X', '', 1)",
       R"([" x  ","**x**","é··","-005",["a.b",".","c"],["abc","",""],"abX"])"},
  });
  Refused({
      {"v = 'a'.split('a', 1.5)\n", "int of times"},
      {"v = 'abc'.find('a', 'b')\n", "positions are ints"},
      {"v = 'a'.replace('a', 'b', 'c')\n", "int of times"},
      {"v = 'a'.upper(1)\n", "upper() takes 0"},
      {"v = 'a'.split(x=1)\n", "can't take the argument `x`"},
      {"v = 'é'.upper()\n", "ASCII letters only"},
      {"v = 'a'.ljust(3, 'ab')\n", "one character"},
  });
}
TEST_CASE("rarer arguments are CPython's") {
  Expressions({
      {"[1, 2, 1, 2].index(2, 2), [1, 2, 1].index(1, -2), (1, 2, 1).index(1, 1, 99)", "[3,2,2]"},
      {R"('{0[a:b]}|{0[x!y]:>3}|{1!r:>4}'.format({'a:b': 1, 'x!y': 2}, 'q'))", R"("1|  2| 'q'")"},
      {"'aéb😀c'[::2], 'aéb😀c'[::-1], 'aéb😀c'[-2], 'aéb😀c'[1:4], 'é'[1:]",
       R"(["abc","c😀béa","😀","éb😀",""])"},
      {"f'{\"aéb\":.2}|{\"é\":😀^4}|', ascii(['é', '😀']), list('aé😀')",
       R"(["aé|😀é😀😀|","['\\xe9', '\\U0001f600']",["a","é","😀"]])"},
  });
  Programs({
      {"import copy\nfrom collections import OrderedDict\na = OrderedDict(x=1, y=2)\n"
       "b = OrderedDict(y=2, x=1)\nv = [copy.deepcopy(a) == b, a.copy() == b, copy.copy(a) == b, a "
       "== dict(b)]\n",
       R"({"a":{"x":1,"y":2},"b":{"x":1,"y":2},"v":[false,false,false,true]})"},
      {"a, b, c = 1, 2, 3\ndel [a, (b)]\n", R"({"c":3})"},
  });
  Refused({
      {"v = [1, 2].index(2, 0, 1)\n", "doesn't hold 2"},
      {"def f(*a): pass\nv = f(**{'*a': 1})\n", "can't take the argument `*a`"},
      {"v = [1].count(1, 2)\n", "takes 1 argument, not 2"},
      {"v = 'ab'[2]\n", "the index 2 is outside a string of 2"},
  });
}

TEST_CASE("iterators, views and ranges are CPython's") {
  Programs({
      {"__i = map(str, [1, 2, 3])\na = list(__i)\nb = list(__i)\n",
       R"x({"a":["1","2","3"],"b":[]})x"},
      {"__i = zip('ab', [1, 2])\nfor x in __i: break\nb = list(__i)\n",
       R"x({"b":[["b",2]],"x":["a",1]})x"},
      {"__i = (x * 2 for x in [1, 2, 3])\na = any(__i), list(__i)\nb = 4 in __i, list(__i)\n",
       R"x({"a":[true,[4,6]],"b":[false,[]]})x"},
      {"__i = iter = reversed([1, 2, 3, 4])\na = list(zip(__i, __i))\ndel iter\n",
       R"x({"a":[[4,3],[2,1]]})x"},
      {"__r = range(1, 10, 3)\na = __r[1], __r[-1], list(__r[1:]), len(__r), 4 in __r, __r == "
       "range(1, 12, 3), __r == [1, 4, 7], isinstance(__r, list), bool(range(0))\n",
       R"x({"a":[4,7,[4,7],3,true,false,false,false,false]})x"},
      {"__d = dict(a=1)\n__k = __d.keys()\n__d['b'] = 2\na = list(__k), len(__k), 'b' in __k, "
       "('b', 2) in __d.items(), 2 in __d.values()\nb = sorted(__d.keys() & {'b', 'c'}), "
       "__d.keys() == {'a', 'b'}, __d.items() == [('a', 1)]\n",
       R"x({"a":[["a","b"],2,true,true,true],"b":[["b"],true,false]})x"},
      {"a = [1, 2, 3]\nfor x in a:\n    if x < 3: a.append(x + 2)\n",
       R"x({"a":[1,2,3,3,4],"x":4})x"},
      {"a = [1, 2, 3, 4]\nfor x in a: a.remove(x)\n", R"x({"a":[2,4],"x":3})x"},
      {"a = [3, 2, 1]\nb = [a.pop() for _ in a]\n", R"x({"a":[3],"b":[1,2]})x"},
      {"a, *b = map(int, '123')\n*c, d = range(3)\n", R"x({"a":1,"b":[2,3],"c":[0,1],"d":2})x"},
      {"a = [*zip(*[(1, 2), (3, 4)])]\nb = dict(zip('ab', range(2)))\nc = list(map(lambda p, q: p "
       "+ q, [1, 2], range(5)))\n",
       R"x({"a":[[1,3],[2,4]],"b":{"a":0,"b":1},"c":[1,3]})x"},
      {"r = range(3)\n", R"x({"r":[0,1,2]})x"},
  });
}

TEST_CASE("what a set's order would decide is refused, all else of it is CPython's") {
  Programs({
      {"s = sorted({3, 1, 2}), sorted(list(set('banana'))), len(list({1, 2})), max({1, 5}), "
       "sum({1, 2}), any({0, 1})\n",
       R"x({"s":[[1,2,3],["a","b","n"],2,5,3,true]})x"},
      {"a = list({3, 1, 2})\na.sort()\nb = a[0]\n", R"x({"a":[1,2,3],"b":1})x"},
      {"a = sorted({x * 2 for x in {1, 2}}), sorted(x + 1 for x in {1, 2}), sorted(map(str, {1, "
       "2})), sorted([x for x in {2, 1}])\n",
       R"x({"a":[[2,4],[2,3],["1","2"],[1,2]]})x"},
      {"a = 2 in [x for x in {1, 2}], {1, 2} == {2, 1}, {1} < {1, 2}, list({7}), tuple(set()), "
       "str({7})\n",
       R"x({"a":[true,true,true,[7],[],"{7}"]})x"},
      {"s = {1, 2}\n__t = s\ns -= {1}\na = __t == {2}\ns = sorted(s)\n", R"x({"a":true,"s":[2]})x"},
      {"a = sorted({*'ab', *'bc'}), sorted({'a', 'b'} | {'c'}), sorted({1, 2} ^ {2, 3}), "
       "sorted({1, 2}.union([3]))\n",
       R"x({"a":[["a","b","c"],["a","b","c"],[1,3],[1,2,3]]})x"},
      {"a = sorted({'b', 'A'}, key=lambda x: x.lower())\n", R"x({"a":["A","b"]})x"},
  });
  Refused({
      {"v = list({1, 2})[0]\n", "no order that is the same each time"},
      {"v = [x for x in {1, 2}][:1]\n", "no order that is the same each time"},
      {"for x in {1, 2}: v = x\n", "no order that is the same each time"},
      {"v = list({1, 2})\n", "no order that is the same each time"},
      {"v = tuple({'a', 'b'})\n", "no order that is the same each time"},
      {"v = {x: 1 for x in {1, 2}}\n", "no order that is the same each time"},
      {"v = ','.join({'a', 'b'})\n", "no order that is the same each time"},
      {"a, b = {1, 2}\n", "no order that is the same each time"},
      {"v = str({1, 2})\n", "no order that is the same each time"},
      {"v = str([x for x in {1, 2}])\n", "no order that is the same each time"},
      {"v = list({1, 2}) == [1, 2]\n", "no order that is the same each time"},
      {"v = sum({0.1, 0.2})\n", "no order that is the same each time"},
      {"v = list(enumerate({1, 2}))\n", "no order that is the same each time"},
      {"v = list({1, 2}).pop()\n", "no order that is the same each time"},
      {"v = min({1, 2}, key=lambda x: 0)\n", "no order that is the same each time"},
      {"v = sorted({1, 2}, key=lambda x: 0)\n", "no order that is the same each time"},
      {"v = [*{1, 2}]\n", "no order that is the same each time"},
      {"v = dict.fromkeys({1, 2})\n", "no order that is the same each time"},
      {"x = list({1, 2})\nx[0] = 5\n", "no order that is the same each time"},
      {"x = list({1, 2})\ndel x[0]\n", "no order that is the same each time"},
      {"v = list({1, 2}) + [3]\n", "no order that is the same each time"},
      {"v = [0]\nv += {1, 2}\n", "no order that is the same each time"},
      {"def f(*a): return a\nv = f(*{1, 2})\n", "no order that is the same each time"},
      {"import copy\nv = copy.deepcopy(list({1, 2}))\n", "no order that is the same each time"},
      {"v = (x for x in [1])\n", "make it a list"},
      {"v = dict(a=1).keys()\n", "make it a list"},
      {"v = len(zip([1]))\n", "has no length"},
      {"v = zip([1])[0]\n", "can't be indexed"},
      {"v = range(3) + [1]\n", "can't be applied"},
      {"v = str(range(3))\n", "has no text"},
      {"v = map(str, [1]).append(1)\n", "has no attribute"},
      {"v = list(reversed(zip([1])))\n", "can't be reversed"},
      {"d = {1: 2}\nfor k in d: d[k + 1] = 1\n", "gets or loses elements"},
      {"import copy\nv = copy.copy(zip([1]))\n", "can't be copied"},
      {"v = frozenset([1])\n", "`frozenset` can't be used"},
      {"v = {1: 'a', '1': 'b'}\n", "can't tell apart"},
      {"def f():\n    break\nf()\n", "outside of a loop"},
      {"v = dict(None=1)\n", "`None` can't be"},
      {"def f(a, *a): pass\n", "named twice"},
      {"*a, *b = [1]\n", "two names with a *"},
      {"v = '{}{1}'.format(1, 2)\n", "numbers all of its fields or none"},
      {"v = hasattr('x', 'encode')\n", "can't be asked"},
      {"v = isinstance(zip([1]), zip)\n", "can't be asked"},
      {"d = dict(a=1)\nv = d.a\n", "write ['a']"},
      {"d = dict(a=1)\nd.a = 2\n", "write ['a']"},
      {"from collections import OrderedDict\nv = str(OrderedDict(a=1))\n", "no text"},
  });
}

TEST_CASE("augmented assignments change what Python's change, and evaluate their target once") {
  Programs({
      {"x = [1, 2]\ny = x\ny *= 2\n", R"x({"x":[1,2,1,2],"y":[1,2,1,2]})x"},
      {"x = [[1], [2]]\ny = x[0]\nx[0] *= 2\ny += (3,)\n", R"x({"x":[[1,1,3],[2]],"y":[1,1,3]})x"},
      {"x = [5, 6, 7]\nl = [0, 1, 2]\nx[l.pop()] += 3\n", R"x({"l":[0,1],"x":[5,6,10]})x"},
      {"n = 0\ndef f():\n    global n\n    n += 1\n    return n\nx = [1, 2, 3]\nx[f()] -= 5\n",
       R"x({"n":1,"x":[1,-3,3]})x"},
      {"s = {1, 2}\nt = s\nt &= {2, 3}\ns = sorted(s)\nt = sorted(t)\n", R"x({"s":[2],"t":[2]})x"},
      {"d = dict(a=1)\ne = d\ne |= dict(b=2)\ne |= [('c', 3)]\n",
       R"x({"d":{"a":1,"b":2,"c":3},"e":{"a":1,"b":2,"c":3}})x"},
      {"d = dict(a=1)\ne = d\ne = e | dict(b=2)\n", R"x({"d":{"a":1},"e":{"a":1,"b":2}})x"},
      {"x = (1, 2)\ny = x\ny += (3,)\ny *= 2\n", R"x({"x":[1,2],"y":[1,2,3,1,2,3]})x"},
      {"x = [1, 2, 3]\nx[1:] += [4]\nx[::2] *= 1\n", R"x({"x":[1,2,3,4]})x"},
      {"a = [0, 1]\ni = 0\ni, a[i] = 1, 9\n", R"x({"a":[0,9],"i":1})x"},
      {"x = 7\nx //= 2\nx **= 2\nx %= 5\nx <<= 2\nx |= 1\nx ^= 3\n", R"x({"x":18})x"},
      {"x = [1]\nx += x\nx += 'ab'\nx += {5: 6}\n", R"x({"x":[1,1,"a","b",5]})x"},
      {"x = [1, 2, 3]\nx[::1] = [9]\nx[5:] = [8]\n", R"x({"x":[9,8]})x"},
      {"import copy\na = [1]\nb = copy.deepcopy(dict(p=a, q=a, r=[a]))\nb['p'].append(2)\nc = "
       "copy.copy([a])\nc[0].append(3)\n",
       R"x({"a":[1,3],"b":{"p":[1,2],"q":[1,2],"r":[[1,2]]},"c":[[1,3]]})x"},
      {"x = 1if 4else 2\ny = [0x1for z in (1,)] if 0else 0x1for 3\n", R"x({"x":1,"y":31})x"},
      {"def f(): return; 5\nx = f()\nif 1: y = 2; z = 3\n", R"x({"x":null,"y":2,"z":3})x"},
      {"x = 'b' if 'a' in'abc' else'c'\n", R"x({"x":"b"})x"},
      {"v = {(1, (2, 3)): 'a'}[(1, (2, 3))], {2 ** 62: 1, 2.0 ** 62: 2}\n",
       R"x({"v":["a",{"4611686018427387904":2}]})x"},
      {"v = hasattr('x', 'nothing'), hasattr([], 'append'), hasattr({}, 'x'), getattr('x', "
       "'nothing', 5)\nw = isinstance(None, type(None)), isinstance(1, ((str,), (int, float))), "
       "type(None).__name__\n",
       R"x({"v":[false,true,false,5],"w":[true,true,"NoneType"]})x"},
      {"import os.path as osp\nv = osp.normpath('//a/./b/../c'), osp.normpath('///a'), "
       "osp.normpath('a/../..'), osp.normpath(''), osp.abspath('//a'), osp.abspath('/a/../b/'), "
       "osp.normpath('/..')\n",
       R"x({"v":["//a/c","/a","..",".","//a","/b","/"]})x"},
  });
}

// What mmengine 0.10.7's ConfigDict makes of it.
TEST_CASE("_base_'s dicts merge, copy and take defaults as ConfigDicts do") {
  const char* base = R"({"m":{"n":{"a":1,"b":2},"l":[1]}})";
  auto run = [&](const char* text) { return Run(text, base); };
  CHECK(run("m = _base_.m | dict(n=dict(b=3))\n") == R"({"m":{"l":[1],"n":{"a":1,"b":3}}})");
  CHECK(run("m = dict(n=dict(b=3)) | _base_.m\n") == R"({"m":{"l":[1],"n":{"a":1,"b":2}}})");
  CHECK(run("x = _base_.m | dict(k=1)\nx.n.a = 9\nm = _base_.m\n") ==
        R"({"m":{"l":[1],"n":{"a":1,"b":2}},"x":{"k":1,"l":[1],"n":{"a":9,"b":2}}})");
  CHECK(run("m = _base_.m\nm |= dict(n=dict(c=3))\n") ==
        R"({"m":{"l":[1],"n":{"a":1,"b":2,"c":3}}})");
  CHECK(run("m = dict(n=dict(z=1))\nm |= _base_.m\n") == R"({"m":{"l":[1],"n":{"a":1,"b":2}}})");
  CHECK(run("m = _base_.m.n.to_dict()\nm['a'] = 7\nk = _base_.m.n.a\n") ==
        R"({"k":1,"m":{"a":7,"b":2}})");
  // What setdefault() returns isn't what it stores.
  CHECK(run("_base_.m.setdefault('o', {}).update(x=1)\nm = _base_.m.o\n") == R"({"m":{}})");
  CHECK(run("a = _base_.m.copy()\na.l.append(2)\na.n.a = 5\nm = _base_.m\n") ==
        R"({"a":{"l":[1,2],"n":{"a":5,"b":2}},"m":{"l":[1],"n":{"a":5,"b":2}}})");
  CHECK(run("from mmengine.config import ConfigDict\na = ConfigDict(x=dict(y=1))\na.x.y = 2\n"
            "b = isinstance(a, ConfigDict), isinstance({}, ConfigDict), type(a) is dict\n") ==
        R"({"a":{"x":{"y":2}},"b":[true,false,false]})");
  CHECK(run("x = _base_.m.n\n_base_.m.merge(dict(n=dict(a=5)))\nx.b = 9\nm = _base_.m\n") ==
        R"({"m":{"l":[1],"n":{"a":5,"b":2}},"x":{"a":1,"b":9}})");
  CHECK_THROWS_WITH(run("_base_.m.update = 1\n"), ContainsSubstring("`update` is a method"));
}

TEST_CASE("what is written wrongly is told where it stands, and what to write") {
  Refused({
      {"x = \xe2\x80\x98"
       "a\xe2\x80\x99\n",
       "t.py:1:5: the character `\xe2\x80\x98` (U+2018)"},
      {"x = [1\xef\xbc\x8c 2]\n", "t.py:1:7: the character `\xef\xbc\x8c` (U+FF0C)"},
      {"x = 1 +\xc2\xa0"
       "2\n",
       "t.py:1:8: the character"},
      {"x = dict(a=1\n         b=2)\n", "t.py:2:10: `)` is missing or a comma after this argument"},
      {"x = {'a': 1\n     'b': 2}\n", "t.py:2:6: `}` is missing or a comma to go on"},
      {"match (1, 2):\n  case _: y = 2\n", "t.py:1:1: `match` can't be used"},
      {"def f():\n  nonlocal x\n  x = 1\nf()\n", "no function around this one has a `x`"},
      {"if True:\n  _base_ = './a.py'\n", "t.py:2:3: `_base_` is assigned in a way"},
      {"x = _base_ = './a.py'\n", "`_base_` is assigned in a way"},
      {"_base_: list = ['./a.py']\n", "`_base_` is assigned in a way"},
  });
  CHECK(Run("def f(a, *, b=1, **c): return a, b, c\nv = f(1, b=2, d=3)\n") ==
        R"({"v":[1,2,{"d":3}]})");
  Refused({
      {"x = 1\ndef f():\n    x += 1\nf()\n",
       "t.py:3:5: `x` is read before the function assigns it"},
      {"x = 1\ndef f():\n    y = x\n    for x, *z in []: pass\nf()\n", "t.py:3:9: `x` is read"},
      {"y = 3\ndef f(a):\n    if a: y = 1\n    return y\nv = f(0)\n", "`y` is read before"},
      {"y = 3\ndef f():\n    del y\nf()\n", "`y` is deleted before"},
      {"import os\ndef f():\n    v = os.sep\n    import os\nf()\n", "`os` is read before"},
  });
  Programs({
      {"x = 1\ndef f():\n    global x\n    x += 1\nf()\ndef g(x=x):\n    x += 1\n    return x\ny = "
       "g()\n",
       R"({"x":2,"y":3})"},
      {"def f(a):\n    def g(): return b\n    b = [c for c in a if (d := c)]\n    return g(), d\nv "
       "= f([1, 2])\n",
       R"({"v":[[1,2],2]})"},
      {"def f():\n    def g():\n        nonlocal n\n        n = 2\n    n = 1\n    g()\n    return "
       "n\nv = f()\n",
       R"({"v":2})"},
      {"c = 7\ndef f():\n    v = [c for c in (1, 2)], c\n    return v\nv = f()\n",
       R"({"c":7,"v":[[1,2],7]})"},
  });
  // Letters of any script are names, as in Python.
  CHECK(Run("\xe5\xbc\xa0\xc3\xa9 = 1\nmatch = 2\n") == "{\"match\":2,\"\xe5\xbc\xa0\xc3\xa9\":1}");
}

TEST_CASE("work beyond measure ends in an error, within seconds") {
  for (const char* text : {
           "x = 'a' * 16000000\nwhile True: 'b' in x\n",
           "x = y = [1]\nfor i in range(60): x = [x, x]\nfor i in range(60): y = [y, y]\nz = x == "
           "y\n",
           "x = [1]\nfor i in x: x.append(i)\n",
           "x = 'a' * 16000000\nwhile True: x and 1\n",
           "x = 'a' * 16000000\nd = {x: 1}\nwhile True: d[x]\n",
           "import itertools\nx = itertools.product(range(100), repeat=10)\n",
       }) {
    CAPTURE(text);
    CHECK_THROWS_AS(Run(text), xp::Error);
  }
  CHECK(Run("x = '' * 10 ** 18\ny = [] * 10 ** 18\n") == R"({"x":"","y":[]})");
  // A large set of class names is none of that.
  CHECK(
      Run("a = ['class %d' % i for i in range(3000)]\nn = len([c for c in a if c not in a[:10] and "
          "c in a])\ndel a\n") == R"({"n":2990})");
}

TEST_CASE("names of bases that are no files are refused where they stand") {
  test::Folder folder;
  const std::string with = "from mmengine.config import read_base\nwith read_base():\n    from .";
  std::filesystem::create_symlink("loop.py", folder / "loop.py");
  for (const std::string& text : {with + std::string(300, 'a') + " import *\n",
                                  with + "loop import *\n", with + " import a\n"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(Load(folder.Write("a.py", text)), ContainsSubstring("a.py:3:5: "));
  }
  folder.Write("merged.py", "a = 1\n<<<<<<< HEAD\nb = 2\n");
  CHECK_THROWS_WITH(Load(folder.Write("a.py", with + "merged import *\n")),
                    ContainsSubstring("merged.py:2:1: git's mark of a conflict"));
  CHECK_THROWS_WITH(Load(folder.Write("b.py", "_base_ = './a.py\\0b'\n")),
                    ContainsSubstring("b.py:1:10: `_base_` is"));
}

// As in mmengine: a function of a base works with the base's names, whoever calls it.
TEST_CASE("functions imported with read_base() keep their file's names") {
  test::Folder folder;
  folder.Write(
      "base.py",
      "scale = 2\ndef f(x): return x * scale\ndef put(v):\n    global scale\n    scale = v\n"
      "def counter():\n    n = 0\n    def more():\n        nonlocal n\n        n += scale\n"
      "        return n\n    return more\nc = counter()\ndef bad(): return nothing\n");
  auto resolved = [&](const std::string& text) {
    return CanonicalJson(
        Load(folder.Write("a.py",
                          "from mmengine.config import read_base\nwith read_base():\n    "
                          "from .base import *\n" +
                              text))
            .root);
  };
  CHECK(resolved("scale = 5\nv = f(3), c(), c()\n") == R"({"scale":5,"v":[6,2,4]})");
  CHECK(resolved("put(9)\nv = f(3)\n") == R"({"scale":2,"v":27})");
  CHECK_THROWS_WITH(resolved("v = bad()\n"),
                    ContainsSubstring("base.py:14:19: the name `nothing` isn't defined"));
}
