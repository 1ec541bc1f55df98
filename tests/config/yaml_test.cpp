#include "src/config/yaml.h"

#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "src/config/json.h"
#include "src/config/toml.h"

using namespace xp::config;

namespace {

std::string Json(const std::string& yaml) { return CanonicalJson(ParseYaml(yaml, "t.yaml")); }

template <typename Parse>
std::string Message(Parse parse, const std::string& text) {
  try {
    parse(text, "t.yaml");
  } catch (const xp::Error& error) {
    return error.what();
  }
  return "";
}

std::string YamlError(const std::string& text) {
  return Message([](const std::string& t, const std::string& n) { return ParseYaml(t, n); }, text);
}

}  // namespace

TEST_CASE("scalars are YAML 1.2's") {
  CHECK(
      Json("[yes, on, no, 1:30, 1_000, None, 0o17, 0x1F, 010, 1e-3, .5, 5., -.inf, ~, TRUE]") ==
      R"(["yes","on","no","1:30","1_000","None",15,31,10,0.001,0.5,5.0,{"!!float":"-.inf"},null,true])");
  CHECK(Json("['1', \"2\", !!str 3, !!float 4]") == R"(["1","2","3",4.0])");
}

TEST_CASE("places count from one, in characters") {
  Node root = ParseYaml("a: 1\nb:\n  \xc3\xa9: x\n  c: [1, 2]\n", "t.yaml");
  CHECK(root.At("a")->Where() == "t.yaml:1:4");
  CHECK(root.At("b")->Where() == "t.yaml:2:1");
  CHECK(root.At("b.\xc3\xa9")->Where() == "t.yaml:3:6");
  CHECK(root.At("b.c.1")->Where() == "t.yaml:4:10");
}

TEST_CASE("duplicate keys fail with both lines, << may be overridden (omegaconf#1194, pyyaml#41)") {
  std::string message = YamlError("a: 1\nb: 2\na: 3\n");
  CHECK_THAT(message, ContainsSubstring("t.yaml:3:1"));
  CHECK_THAT(message, ContainsSubstring("t.yaml:1:4"));
  CHECK(Json("base: &b {x: 1, y: 2}\nc:\n  <<: *b\n  x: 5\n") ==
        R"({"base":{"x":1,"y":2},"c":{"x":5,"y":2}})");
  CHECK(
      Json("a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc: {<<: [*a, *b]}\n").find(R"("c":{"x":1,"z":3})") !=
      std::string::npos);
  CHECK_THAT(YamlError("a:\n  <<: 5\n"), ContainsSubstring("merges dicts"));
}

TEST_CASE("tags are kept and shown") {
  CHECK(Json("a: !Anchors {b: 1}\nc: !X 5\nd: !Y [1]") ==
        R"({"a":{"!Anchors":{"b":1}},"c":{"!X":5},"d":{"!Y":[1]}})");
  Node node = FromJson(R"({"a":{"!Anchors":{"b":1}}})");
  CHECK(node.At("a")->tag() == "!Anchors");
  CHECK(PrettyYaml(node) == "a: !Anchors\n  b: 1\n");
  CHECK_THAT(YamlError("a: !!python/object/apply:os.system ['ls']"),
             ContainsSubstring("would run code"));
}

TEST_CASE("BOM and CRLF are accepted, tabs and bad bytes reported (mmdetection#8291)") {
  CHECK(Json("\xef\xbb\xbf"
             "a: \xe4\xb8\xad\r\nb: 2\r\n") == "{\"a\":\"\xe4\xb8\xad\",\"b\":2}");
  CHECK_THAT(YamlError("a:\n\tb: 1\n"), ContainsSubstring("a tab"));
  CHECK_THAT(YamlError("a: \xff\n"), ContainsSubstring("t.yaml:1:4"));
  CHECK_THAT(YamlError("a: \xc0\xaf\n"), ContainsSubstring("not UTF-8"));
  CHECK_THAT(YamlError(std::string("a: \0b", 5)), ContainsSubstring("null byte"));
}

TEST_CASE("bombs end in an error") {
  CHECK_THAT(YamlError(std::string(100000, '[')), ContainsSubstring("levels deep"));
  CHECK_THAT(YamlError(std::string(5000, '{')), ContainsSubstring("a key must be a name"));
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    std::string name = "a" + std::to_string(i);
    std::string alias = "*a" + std::to_string(i - 1);
    laughs += name + ": &" + name + " [";
    for (int k = 0; k < 10; ++k) laughs += alias + ", ";
    laughs += "]\n";
  }
  CHECK_THAT(YamlError(laughs), ContainsSubstring("ten million"));
  CHECK_THAT(YamlError("a: &a [*a]"), ContainsSubstring("before its anchor"));
  CHECK_THAT(YamlError("a: " + std::string(100000, '9')), ContainsSubstring("64 bits"));
  CHECK(Json("a: 1" + std::string(1000, '0') + ".0") == R"({"a":{"!!float":".inf"}})");
}

TEST_CASE("JSON and TOML have places too") {
  Node json = ParseJson("{\n  \"a\": {\"b\": [1, 2.0]},\n  \"c\": \"x\\u00e9\"\n}", "t.json");
  CHECK(json.At("a.b.1")->Where() == "t.json:2:18");
  CHECK(json.At("c")->Where() == "t.json:3:8");
  CHECK(CanonicalJson(json) == "{\"a\":{\"b\":[1,2.0]},\"c\":\"x\xc3\xa9\"}");
  auto json_error = [](const std::string& text) {
    return Message([](const std::string& t, const std::string& n) { return ParseJson(t, n); },
                   text);
  };
  CHECK_THAT(json_error("{\"a\": 1,\n \"a\": 2}"), ContainsSubstring("already set"));
  CHECK_THAT(json_error("{\"a\": }"), ContainsSubstring("t.yaml:1:"));
  CHECK_THAT(json_error(std::string(100000, '[')), ContainsSubstring("levels deep"));
  CHECK_THAT(json_error("[123456789012345678901234567890]"), ContainsSubstring("64 bits"));
  Node toml = ParseToml("a = 1\n[b]\nc = [1.5, 'x']\nd = 2020-01-02\n", "t.toml");
  CHECK(CanonicalJson(toml) == R"({"a":1,"b":{"c":[1.5,"x"],"d":"2020-01-02"}})");
  CHECK(toml.At("b.c")->Where() == "t.toml:3:5");
  CHECK_THAT(
      Message([](const std::string& t, const std::string& n) { return ParseToml(t, n); }, "a = \n"),
      ContainsSubstring("t.yaml:1:"));
}

TEST_CASE("what is printed reads back as the same") {
  const char* texts[] = {
      "a: 'yes'\nb: '1'\nc: \"x: y\"\nd: '- a'\ne: ''\nf: \" s \"\ng: \"l\\nm\"\nh: '#x'\ni: "
      "null\nj: [[], {}, [1, [2]]]",
      "k: [{a: 1, b: [1, 2]}, {c: {d: 5}}]\nl: !T {x: [1, 2]}\nm: !S text\nn: '0x10'\no: '1e5'\np: "
      "-0.0\nq: '~'\n",
      "'a b': 1\n'x.y': 2\n'1': 3\n'true': 4\nr: \"\\u0007 \\x7f\"\ns: '${x}'\nt: [-.inf, .nan, "
      "1e300]\nu: [!T 1, 2]\n",
  };
  for (const char* text : texts) {
    Node node = ParseYaml(text, "t.yaml");
    CAPTURE(PrettyYaml(node));
    LoadOptions options;
    Node escaped = LoadText(PrettyYaml(node), "out.yaml", {}, options).root;
    CHECK(CanonicalJson(escaped) == CanonicalJson(node));
    CHECK(CanonicalJson(FromJson(CanonicalJson(node))) == CanonicalJson(node));
  }
}

TEST_CASE("what is printed reads back as the same, whatever characters, tags and keys it has") {
  std::string text =
      "{\"\xc2\x80\xc2\x85\": \"\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf\xef\xbf\xbe\xef\xbf\xbf\"";
  text += R"(, "c": "\u0001\u007f\n\r\t", "t": [{"!a b%": 1}, {"!\u0001": "x"}, {"!T": [2]}],)";
  text += R"( "d": {"!!x": 1}, "e": [{")" + std::string(1500, 'k') + R"(": {"f": [{"g": 2}]}}]})";
  const Node node = ParseJson(text, "t.json");
  CHECK(node.At("t.0")->tag() == "!a b%");
  CHECK(node.At("d")->IsDict());  // `!!` begins YAML's own tags, which stay words
  CHECK(CanonicalJson(ParseYaml(PrettyYaml(node), "t.yaml")) == CanonicalJson(node));
  CHECK(CanonicalJson(ParseJson(PrettyJson(node), "t.json")) == CanonicalJson(node));
  const Node verbatim = ParseYaml("a: !<tag:x.org,2000:foo> [1]\nb: !a%20b {c: 1}\n", "t.yaml");
  CHECK(verbatim.At("a")->tag() == "tag:x.org,2000:foo");
  CHECK(CanonicalJson(ParseYaml(PrettyYaml(verbatim), "t.yaml")) == CanonicalJson(verbatim));
}
