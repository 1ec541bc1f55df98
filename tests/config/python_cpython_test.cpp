// The evaluator against CPython 3.11, kind by kind. Each expected text is what CPython makes of the
// line before it; what is refused has no value that a config could rely on.
#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "src/config/python_file.h"

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
      {"v = '{!x}'.format(1)\n", "`!x` is no conversion"},
      {"v = '%x' % 1.5\n", "%x takes an int"},
      {"v = '%d' % 'a'\n", "%d takes a number"},
      {"v = '%(a)s %s' % {'a': 1}\n", "by name or by place"},
      {"v = str(len)\n", "t.py:1:5: a function has no text"},
      {"v = f'{({1, 2})}'\n", "a set has no order"},
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
