// Every row of the override table of docs/config.md, and the grammar around it.
#include <cmath>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"

using namespace xp::config;

namespace {

// What `--set v=TEXT` makes of a key that exists.
Node Value(const std::string& text, std::vector<Notice>* warnings = nullptr) {
  Resolved resolved = LoadText("v: before\n", "t.yaml", {"v=" + text});
  if (warnings != nullptr) *warnings = resolved.warnings;
  return *resolved.root.Find("v");
}

std::string Json(const std::string& yaml, const std::vector<std::string>& set) {
  return CanonicalJson(LoadText(yaml, "t.yaml", set).root);
}

std::string Message(const std::string& yaml, const std::vector<std::string>& set) {
  try {
    LoadText(yaml, "t.yaml", set);
  } catch (const xp::Error& error) {
    return error.what();
  }
  return "";
}

const char* const kHeads =
    "heads:\n- {n: 1}\n- {n: 2}\n- {n: 3}\noptimizer: {lr: 0.1, betas: [0.9, 0.99]}\n";

}  // namespace

TEST_CASE("override values, row by row") {
  CHECK(Value("1e-3").AsDouble() == 1e-3);
  CHECK(Value("1e-3").IsFloat());
  CHECK(CanonicalJson(Value("[1,2]")) == "[1,2]");
  CHECK(CanonicalJson(Value("(1,2)")) == "[1,2]");
  CHECK(Value("None").IsNull());
  CHECK(Value("null").IsNull());
  CHECK(CanonicalJson(Value("true")) == "true");
  CHECK(CanonicalJson(Value("yes")) == "\"yes\"");
  CHECK(CanonicalJson(Value("0x10")) == "16");
  std::vector<Notice> warnings;
  CHECK(CanonicalJson(Value("010", &warnings)) == "10");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].code == "leading-zero");
  CHECK(CanonicalJson(Value("0o17")) == "15");
  CHECK(CanonicalJson(Value("1:30")) == "\"1:30\"");
  CHECK(CanonicalJson(Value("\"1\"")) == "\"1\"");
  CHECK(CanonicalJson(Value("'1'")) == "\"1\"");
  CHECK(std::isnan(Value("nan").AsDouble()));
  CHECK(std::isnan(Value(".nan").AsDouble()));
  CHECK(std::isinf(Value("inf").AsDouble()));
  CHECK(CanonicalJson(Value("a b")) == "\"a b\"");
  CHECK(Value("").IsNull());
  CHECK(CanonicalJson(Value("''")) == "\"\"");
  CHECK(Json("a: [{b: 0, c: 5}]", {"a.0.b=1"}) == R"({"a":[{"b":1,"c":5}]})");
}

TEST_CASE("override values may nest") {
  CHECK(CanonicalJson(Value("[[1, 'a, b'], {k: (2, null)}]")) == R"([[1,"a, b"],{"k":[2,null]}])");
  CHECK(CanonicalJson(Value("a=b")) == "\"a=b\"");
  CHECK_THROWS_AS(Value("[1, 2"), xp::Error);
  CHECK_THROWS_AS(Value("[1] 2"), xp::Error);
  CHECK_THROWS_AS(Value(std::string(100, '[')), xp::Error);
  CHECK_THROWS_AS(Value("99999999999999999999"), xp::Error);
}

TEST_CASE("list elements: index, from the end, all") {
  CHECK(Json(kHeads, {"heads.-1.n=9"}).find(R"([{"n":1},{"n":2},{"n":9}])") != std::string::npos);
  CHECK(Json(kHeads, {"heads.*.n=5"}).find(R"([{"n":5},{"n":5},{"n":5}])") != std::string::npos);
  CHECK(Json(kHeads, {"optimizer.betas.0=0.8"}).find("[0.8,0.99]") != std::string::npos);
  CHECK(Json(kHeads, {"optimizer.betas+=[0.5]"}).find("[0.9,0.99,0.5]") != std::string::npos);
  CHECK(Json(kHeads, {"~heads.0"}).find(R"([{"n":2},{"n":3}])") != std::string::npos);
  CHECK_THAT(Message(kHeads, {"heads.3.n=1"}), ContainsSubstring("a list of 3"));
  CHECK_THAT(Message(kHeads, {"heads.n=1"}), ContainsSubstring("heads.*.n"));
  CHECK_THAT(Message(kHeads, {"optimizer.lr+=[1]"}), ContainsSubstring("not a list"));
}

TEST_CASE("adding, deleting, quoted keys") {
  CHECK(Json("a: 1", {"+b.c=2"}) == R"({"a":1,"b":{"c":2}})");
  CHECK(Json("a: {b: 1, c: 2}", {"~a.b"}) == R"({"a":{"c":2}})");
  CHECK(Json("a: {\"x.y\": 1}", {"a.\"x.y\"=2"}) == R"({"a":{"x.y":2}})");
  CHECK(Json("a: {b: 1, c: 2}", {"a={b: 3}"}) == R"({"a":{"b":3,"c":2}})");
  CHECK(Json("a: {b: 1, c: 2}", {"a={_delete_: true, b: 3}"}) == R"({"a":{"b":3}})");
  CHECK_THAT(Message("a: 1", {"+a=2"}), ContainsSubstring("exists already"));
  CHECK_THAT(Message("a: 1", {"~b"}), ContainsSubstring("nothing knows the key `b`"));
  CHECK_THAT(Message("a: 1", {"a"}), ContainsSubstring("`=` is missing"));
  CHECK_THAT(Message("a: 1", {"=2"}), ContainsSubstring("the key is missing"));
  CHECK_THAT(Message("a: 1", {"a..b=2"}), ContainsSubstring("a name is empty"));
  CHECK_THAT(Message("a: 1", {"++b=2"}), ContainsSubstring("can't begin with two +"));
  CHECK_THAT(Message("a: [1]", {"+a.1=2"}), ContainsSubstring("append with a+=[...]"));
  CHECK(Json("a: [1]", {" a += [2]"}) == R"({"a":[1,2]})");
  CHECK(Json("a: 1", {" +b = 2"}) == R"({"a":1,"b":2})");
}

TEST_CASE("an unknown key is refused with near names, wherever they are") {
  CHECK_THAT(Message(kHeads, {"optimizer.ll=1"}), ContainsSubstring("`optimizer.lr`"));
  CHECK_THAT(Message(kHeads, {"lr=1"}), ContainsSubstring("`optimizer.lr`"));
  CHECK_THAT(Message(kHeads, {"optimizr.lr=1"}), ContainsSubstring("`optimizer`"));
  CHECK_THAT(Message(kHeads, {"optimizer.lr.x=1"}), ContainsSubstring("it has no `x`"));
  // The schema's own keys may be set although the config doesn't have them.
  CHECK(Json(kHeads, {"optimizer.momentum=0.5"}).find("\"momentum\":0.5") != std::string::npos);
}

TEST_CASE("an element in brackets is told with a dot") {
  CHECK_THAT(Message(kHeads, {"heads[0].n=5"}), ContainsSubstring("write heads.0"));
  CHECK_THAT(Message(kHeads, {"optimizer.betas[1]=5"}),
             ContainsSubstring("write optimizer.betas.1"));
  CHECK_THAT(Message(kHeads, {"heads[=5"}), ContainsSubstring("nothing knows"));
  CHECK(Json("a: 1\n", {"+b[0]=5"}) == R"({"a":1,"b[0]":5})");
}

TEST_CASE("a text in a list's place, as mmengine would write a list, is reported") {
  const auto told = [](const std::string& change) -> std::string {
    const Resolved resolved = LoadText("a: [0, 1]\nb: x\n", "t.yaml", {change});
    return resolved.warnings.empty()
               ? ""
               : resolved.warnings[0].code + " " + resolved.warnings[0].message;
  };
  CHECK_THAT(told("a=0,1,2"), ContainsSubstring("override-list `a` was a list") &&
                                  ContainsSubstring("write a=[0,1,2]"));
  for (const char* fine : {"a=[0,1,2]", "a=(0,1,2)", "a='0,1,2'", "a=none given", "b=0,1,2"})
    CHECK(told(fine).empty());
}

TEST_CASE("overrides without effect are reported") {
  Resolved resolved = LoadText("a: 1\nb: 2\n", "t.yaml", {"a=1", "b=3", "b=4"});
  REQUIRE(resolved.warnings.size() == 2);
  CHECK(resolved.warnings[0].code == "override-no-change");
  CHECK(resolved.warnings[0].where == "--set #1");
  CHECK(resolved.warnings[1].code == "override-overridden");
  CHECK_THAT(resolved.warnings[1].message, ContainsSubstring("--set #3"));
}

TEST_CASE("an index that fits no int is outside of every list") {
  const std::string huge = "99999999999999999999";
  CHECK_THAT(Message("a: [{b: 1}]", {"a={" + huge + ": {b: 2}}"}),
             ContainsSubstring("has no element " + huge));
  CHECK_THAT(Message("a: [{b: 1}]", {"a." + huge + ".b=2"}), ContainsSubstring("has no `" + huge));
}
