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
