// The public reports of what goes wrong with config engines, each with what is right
// (docs/config.md). Files of a test live in a folder of their own that is removed at the end.
#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/check.h"
#include "exp/config/explain.h"
#include "exp/config/load.h"
#include "exp/config/lr_check.h"
#include "exp/config/reader.h"
#include "tests/config/folder.h"

using namespace xp::config;
using xp::config::test::Folder;

namespace {

std::string Message(const std::string& path, const std::vector<std::string>& set = {}) {
  try {
    Load(path, set);
  } catch (const xp::Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> Codes(const Resolved& resolved) {
  std::vector<std::string> codes;
  for (const Notice& notice : resolved.warnings) codes.push_back(notice.code);
  return codes;
}

bool Finds(const Resolved& resolved, const std::string& path, const std::string& rule,
           const CheckOptions& options = {}) {
  for (const Finding& finding : Check(resolved, path, options)) {
    if (finding.rule == rule) return true;
  }
  return false;
}

}  // namespace

TEST_CASE(
    "1: derived values follow interpolation, and are listed as stale elsewhere "
    "(mmdetection#2957)") {
  Folder folder;
  std::string yaml =
      folder.Write("a.yaml", "root: x\ntrain: {ann: '${root}/a.json', n: '${count}'}\ncount: 3\n");
  Resolved resolved = Load(yaml, {"root=y"});
  CHECK(resolved.root.At("train.ann")->AsString() == "y/a.json");
  CHECK(resolved.root.At("train.n")->AsInt() == 3);
  CHECK(resolved.warnings.empty());
  folder.Write(
      "base.py",
      "root = 'x/'\npipe = [dict(k=1)]\ntrain = dict(ann=root + 'a.json', root=root, pipe=pipe)\n");
  std::string python =
      folder.Write("child.py", "_base_ = 'base.py'\nroot = 'y/'\npipe = [dict(k=2)]\n");
  resolved = Load(python);
  CHECK(resolved.root.At("train.ann")->AsString() == "x/a.json");
  REQUIRE(Codes(resolved) == std::vector<std::string>{"stale-value", "stale-value"});
  CHECK_THAT(resolved.warnings[0].message, ContainsSubstring("train.pipe"));
  CHECK_THAT(resolved.warnings[1].message, ContainsSubstring("train.ann, train.root"));
  CHECK(Codes(Load(folder / "base.py")).empty());
  CHECK(Codes(Load(folder / "base.py", {"root=z/"})) == std::vector<std::string>{"stale-value"});
  std::string text = folder.Write(
      "placeholder.yaml", "_base_: a.yaml\nval: {{_base_.root}}\nq: 'p/{{_base_.root}}/q'\n");
  CHECK(Load(text).root.At("q")->AsString() == "p/x/q");
  CHECK(Load(text).root.At("val")->AsString() == "x");
  resolved = Load(text, {"root=z"});
  REQUIRE(Codes(resolved) == std::vector<std::string>{"stale-value"});
  CHECK_THAT(resolved.warnings[0].message, ContainsSubstring("val, q"));
  // The derived value set as well: nothing is stale.
  CHECK(Codes(Load(text, {"root=z", "val=z", "q=z"})).empty());
}

TEST_CASE("2: a dict over a list of heads says so and shows the index form (mmdetection#4297)") {
  Folder folder;
  folder.Write("base.yaml", "h:\n- {n: 1}\n- {n: 2}\n- {n: 3}\n");
  std::string message = Message(folder.Write("bad.yaml", "_base_: base.yaml\nh: {n: 5}\n"));
  for (const char* part : {"list of 3", "base.yaml:1:1", "bad.yaml:2:4", "h.0.key", "h.*.key"})
    CHECK_THAT(message, ContainsSubstring(part));
  CHECK(CanonicalJson(Load(folder / "base.yaml", {"h.*.n=5"}).root) ==
        R"({"h":[{"n":5},{"n":5},{"n":5}]})");
  std::string by_index =
      folder.Write("index.yaml", "_base_: base.yaml\nh: {'0': {n: 7}, -1: {m: 1}}\n");
  CHECK(CanonicalJson(Load(by_index).root) == R"({"h":[{"n":7},{"n":2},{"m":1,"n":3}]})");
}

TEST_CASE("3: _delete_ never stays (mmdetection#6657)") {
  Folder folder;
  folder.Write("base.yaml", "o: {a: 1, b: 2}\n");
  std::string path = folder.Write("c.yaml",
                                  "_base_: base.yaml\no: {_delete_: true, c: 3}\nnew: {_delete_: "
                                  "true, x: {_delete_: false, y: [{_delete_: true, z: 1}]}}\n");
  Resolved resolved = Load(path);
  CHECK(CanonicalJson(resolved.root) == R"({"new":{"x":{"y":[{"z":1}]}},"o":{"c":3}})");
  CHECK(Finds(resolved, path, "leftover-delete"));
  CHECK_THAT(Message(folder.Write("d.yaml", "_base_: base.yaml\no: {_delete_: 'false'}\n")),
             ContainsSubstring("without quotes"));
}

TEST_CASE("4: a key in two bases names both places; equal values are fine (ViT-Adapter#98)") {
  Folder folder;
  folder.Write("a.yaml", "x: {n: 1}\nsame: [1]\n");
  folder.Write("b.yaml", "same: [1]\nx: {n: 2}\n");
  folder.Write("c.yaml", "same: [1]\n");
  std::string message = Message(folder.Write("bad.yaml", "_base_: [a.yaml, b.yaml]\n"));
  CHECK_THAT(message, ContainsSubstring("a.yaml:1:4"));
  CHECK_THAT(message, ContainsSubstring("b.yaml:2:4"));
  CHECK(Message(folder.Write("good.yaml", "_base_: [a.yaml, c.yaml]\n")).empty());
}

TEST_CASE("5 and 6: 1e-3 is a float, a quoted number a string (yacs#46, yacs#61)") {
  Resolved resolved = LoadText("lr: 1e-3\nid: '10'\n", "t.yaml", {});
  CHECK(resolved.root.At("lr")->AsDouble() == 1e-3);
  CHECK(resolved.root.At("id")->AsString() == "10");
}

TEST_CASE("8: a config that includes itself prints the cycle (hydra#1828)") {
  Folder folder;
  folder.Write("a.yaml", "_base_: b.yaml\n");
  folder.Write("b.yaml", "_base_: [c.py]\n");
  folder.Write("c.py", "_base_ = './a.yaml'\n");
  std::string message = Message(folder / "a.yaml");
  CHECK_THAT(message, ContainsSubstring("inherits from itself"));
  for (const char* name : {"a.yaml", "b.yaml", "c.py:1:10"})
    CHECK_THAT(message, ContainsSubstring(name));
  folder.Write("n1.py",
               "from mmengine.config import read_base\nwith read_base():\n    from .n2 import *\n");
  folder.Write("n2.py",
               "from mmengine.config import read_base\nwith read_base():\n    from .n1 import *\n");
  CHECK_THAT(Message(folder / "n1.py"), ContainsSubstring("imports itself"));
  CHECK_THAT(Message(folder.Write("m.yaml", "_base_: nothing.yaml\n")),
             ContainsSubstring("m.yaml:1:9"));
}

TEST_CASE("10: files are UTF-8 whatever the locale (mmdetection#8291)") {
  Folder folder;
  std::string path =
      folder.Write("u.py", "\xef\xbb\xbfname = '\xe4\xb8\xad'  # \xc3\xa9\r\nx = 1\r\n");
  CHECK(CanonicalJson(Load(path).root) == "{\"name\":\"\xe4\xb8\xad\",\"x\":1}");
  CHECK_THAT(Message(folder.Write("l.py", "x = '\xe9'\n")), ContainsSubstring("l.py:1:6"));
}

TEST_CASE("11: what is printed reads back to the same tree and hash (mmengine#1234)") {
  Folder folder;
  std::string path = folder.Write(
      "a.py",
      "a = dict(b=(1, 2.0), c=None, d='${x}', e=float('inf'), f={'k.l': [dict(), []]}, g='1e5')\n");
  LoadOptions options;
  options.interpolate = false;
  Resolved resolved = Load(path, {}, options);
  std::string copy = folder.Write("copy.yaml", PrettyYaml(resolved.root));
  CHECK(Identity(Load(copy).root) == Identity(resolved.root));
  copy = folder.Write("copy.json", PrettyJson(resolved.root));
  CHECK(Identity(Load(copy).root) == Identity(resolved.root));
}

TEST_CASE("14: the name's NxbM against base_batch_size") {
  Folder folder;
  std::string path =
      folder.Write("det_l_8xb32-300e.py",
                   "auto_scale_lr = dict(base_batch_size=16)\noptim_wrapper = "
                   "dict(optimizer=dict(lr=0.004))\ntrain_dataloader = dict(batch_size=32)\n");
  CHECK(Finds(Load(path), path, "name-batch"));
  CHECK_FALSE(Finds(Load(path, {"auto_scale_lr.base_batch_size=256"}), path, "name-batch"));
  std::string silent = folder.Write(
      "b_8xb32.py", "auto_scale_lr = dict(base_batch_size=16)  # exp: ignore[name-batch]\n");
  CHECK_FALSE(Finds(Load(silent), silent, "name-batch"));
  std::string plain =
      folder.Write("resnet50_32xblock.py", "auto_scale_lr = dict(base_batch_size=16)\n");
  CHECK_FALSE(Finds(Load(plain), plain, "name-batch"));
}

TEST_CASE(
    "detectron2's and PaddleDetection's _BASE_: later bases win, tagged values are replaced "
    "whole") {
  Folder folder;
  folder.Write("a.yml", "A: {x: 1, y: 2}\nD: !Set {p: 1}\n");
  folder.Write("b.yml", "A: {x: 3}\n");
  std::string path = folder.Write("c.yml", "_BASE_: [a.yml, b.yml]\nA: {z: 4}\nD: !Set {q: 2}\n");
  CHECK(CanonicalJson(Load(path).root) == R"({"A":{"x":3,"y":2,"z":4},"D":{"!Set":{"q":2}}})");
}

TEST_CASE("bases may be JSON and TOML, Python may inherit from YAML") {
  Folder folder;
  folder.Write("a.json", "{\"a\": {\"x\": 1}}");
  folder.Write("b.toml", "[b]\ny = 2.5\n");
  folder.Write("c.yaml", "_base_: [a.json, b.toml]\na: {x: 2}\n");
  std::string path = folder.Write("d.py", "_base_ = ['c.yaml']\nb = dict(z=_base_.b.y * 2)\n");
  CHECK(CanonicalJson(Load(path).root) == R"({"a":{"x":2},"b":{"y":2.5,"z":5.0}})");
}

TEST_CASE("new-style Python configs") {
  Folder folder;
  folder.Write(
      "base/opt.py",
      "from torch.optim import SGD\nopt = dict(type=SGD, lr=0.1, inner=dict(a=1))\nhidden = 5\n");
  std::string path = folder.Write("main.py",
                                  "from mmengine.config import read_base\nfrom torch import "
                                  "nn\nimport torch.nn.functional as F\n"
                                  "with read_base():\n    from .base.opt import *\n"
                                  "opt.update(dict(lr=0.2, inner=dict(b=2)))\nopt.inner.c = 3\nact "
                                  "= dict(type=nn.ReLU, f=F.relu)\n");
  CHECK(
      CanonicalJson(Load(path).root) ==
      R"({"act":{"f":"torch.nn.functional.relu","type":"torch.nn.ReLU"},"hidden":5,"opt":{"inner":{"a":1,"b":2,"c":3},"lr":0.2,"type":"torch.optim.SGD"}})");
}

TEST_CASE("what read_base() imports is there before the first statement (as in mmengine)") {
  test::Folder folder;
  folder.Write("base.py", "x = 1\nlr = dict(a=1)\nmodel = dict(n=1)\n");
  const std::string read = "from mmengine.config import read_base\n";
  std::string above =
      folder.Write("above.py", read + "x = 5\nwith read_base():\n    from .base import *\n");
  CHECK(CanonicalJson(Load(above).root) == R"({"lr":{"a":1},"model":{"n":1},"x":5})");
  // A base that read_base() names may be imported from outside of it as well.
  std::string outside = folder.Write(
      "outside.py",
      read + "with read_base():\n    from .base import x\nfrom .base import lr\nlr.a = 3\n");
  CHECK(CanonicalJson(Load(outside).root) == R"({"lr":{"a":3},"x":1})");
}

TEST_CASE("pkg:: bases get their scope") {
  Folder folder;
  folder.Write("site/mmdet/.mim/configs/x/y.py",
               "model = dict(type='M', head=dict(type='H'))\nplain = dict(a=1)\n");
  std::string path = folder.Write("main.py", "_base_ = 'mmdet::x/y.py'\n");
  LoadOptions options;
  options.search_paths = {folder / "site"};
  CHECK(CanonicalJson(Load(path, {}, options).root) ==
        R"({"model":{"_scope_":"mmdet","head":{"type":"H"},"type":"M"},"plain":{"a":1}})");
  CHECK_THAT(Message(path), ContainsSubstring("--search-path"));
}

TEST_CASE("a reference's name may hold references") {
  Resolved config =
      LoadText("a: ${b.${c}}\nb: {x: [1], y: 2}\nc: x\nd: v${b.${e.f}}\ne: {f: y}\n", "t.yaml");
  CHECK(CanonicalJson(config.root) ==
        R"({"a":[1],"b":{"x":[1],"y":2},"c":"x","d":"v2","e":{"f":"y"}})");
}

TEST_CASE("interpolation: types, relatives, cycles, bombs, escapes") {
  auto json = [](const std::string& text) { return CanonicalJson(LoadText(text, "t.yaml").root); };
  CHECK(json("a: {b: [1, 2], c: '${.b.1}', d: '${a.b}', e: 'x${a.c}y'}") ==
        R"({"a":{"b":[1,2],"c":2,"d":[1,2],"e":"x2y"}})");
  CHECK(json("a: '\\${b}'") == R"({"a":"${b}"})");
  CHECK(json("a: '${env:EXP_TEST_NOT_SET,5}'") == R"({"a":5})");
  auto message = [](const std::string& text) -> std::string {
    try {
      LoadText(text, "t.yaml");
    } catch (const xp::Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(message("a: '${b}'\nb: '${c}'\nc: '${a}'"), ContainsSubstring("circle"));
  CHECK_THAT(message("a: {x: '${a}'}"), ContainsSubstring("circle"));
  CHECK_THAT(message("data_root: x\na: '${data_rot}'"), ContainsSubstring("`data_root`"));
  CHECK_THAT(message("a: '${b'"), ContainsSubstring("isn't closed"));
  std::string bomb = "a0: [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += "a" + std::to_string(i) + ": [";
    for (int k = 0; k < 10; ++k) bomb += "'${a" + std::to_string(i - 1) + "}',";
    bomb += "]\n";
  }
  CHECK_THAT(message(bomb), ContainsSubstring("ten million"));
}

TEST_CASE("explain tells every layer, oldest first") {
  Folder folder;
  folder.Write("a.yaml", "o: {lr: 0.1, m: 1}\nroot: x\n");
  std::string path = folder.Write("b.yaml", "_base_: a.yaml\no: {lr: 0.2}\np: '${root}/y'\n");
  Resolved resolved = Load(path, {"o.lr=0.3", "~o.m"});
  std::string text = Explain(resolved, "o.lr");
  size_t first = text.find("a.yaml:1:9");
  size_t second = text.find("b.yaml:2:9");
  size_t third = text.find("--set #1");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(third != std::string::npos);
  CHECK_THAT(Explain(resolved, "p"), ContainsSubstring("from root"));
  CHECK_THAT(Explain(resolved, "o"), ContainsSubstring("merged"));
  CHECK_THAT(Explain(resolved, "o.m"), ContainsSubstring("deleted 1"));
  CHECK_THAT(ExplainAll(resolved), ContainsSubstring("o.lr: 0.3"));
  CHECK_THROWS_WITH(Explain(resolved, "o.lrr"), ContainsSubstring("`o.lr`"));
  std::string difference = Difference(resolved, Load(path));
  CHECK_THAT(difference, ContainsSubstring("o.lr\n  - 0.3"));
  CHECK_THAT(difference, ContainsSubstring("+ 0.2"));
  CHECK(Difference(resolved, resolved).empty());
}

TEST_CASE("placeholders work in every language, and need a base") {
  Folder folder;
  folder.Write("a.yaml", "root: r\nn: 5\n");
  const std::string want = R"({"m":5,"n":5,"name":"c","p":"x/r","root":"r"})";
  for (const auto& [file, text] : std::vector<std::pair<std::string, std::string>>{
           {"c.yaml",
            "_base_: a.yaml\nm: {{_base_.n}}\np: 'x/{{_base_.root}}'\nname: "
            "{{fileBasenameNoExtension}}\n"},
           {"c.json",
            "{\"_base_\": \"a.yaml\", \"m\": {{_base_.n}}, \"p\": "
            "\"x/{{_base_.root}}\", \"name\": \"{{fileBasenameNoExtension}}\"}"},
           {"c.toml",
            "_base_ = 'a.yaml'\nm = {{_base_.n}}\np = 'x/{{_base_.root}}'\nname = "
            "\"{{fileBasenameNoExtension}}\"\n"},
           {"c.yml",
            "_BASE_: a.yaml\nm: {{_base_.n}}\np: 'x/{{_base_.root}}'\nname: "
            "{{fileBasenameNoExtension}}\n"},
           {"c.py",
            "_base_ = 'a.yaml'\nm = {{_base_.n}}\np = 'x/{{_base_.root}}'\nname = "
            "'{{fileBasenameNoExtension}}'\n"}}) {
    CAPTURE(file);
    CHECK(CanonicalJson(Load(folder.Write(file, text)).root) == want);
  }
  CHECK_THAT(Message(folder.Write("d.yaml", "a: {{_base_.n}}\n")),
             ContainsSubstring("the bases have no key `n`"));
  CHECK_THAT(Message(folder.Write("d.py", "a = {{_base_.n}}\n")),
             ContainsSubstring("the bases have no key `n`"));
}

TEST_CASE("explain names a Python expression's place and what it was made from") {
  Folder folder;
  folder.Write("base.py",
               "root = 'd/'\nn = 2\ntrain = dict(ann=root + 'a.json',\n             k=n * 3)\n");
  std::string path =
      folder.Write("top.py", "_base_ = 'base.py'\ntrain = dict(k=_base_.n + 1)\n_base_.n = 5\n");
  Resolved resolved = Load(path, {"train.k=9"});
  std::string ann = Explain(resolved, "train.ann");
  CHECK_THAT(ann, ContainsSubstring("base.py:3:18"));
  CHECK_THAT(ann, ContainsSubstring("from root"));
  std::string text = Explain(resolved, "train.k");
  size_t first = text.find("base.py:4:16");
  size_t second = text.find("top.py:2:16");
  size_t third = text.find("--set #1");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(third != std::string::npos);
  CHECK_THAT(Explain(resolved, "n"), ContainsSubstring("top.py:3:12"));
  std::string all = ExplainAll(resolved);
  for (const char* part :
       {"train.ann: \"d/a.json\"", "base.py:3:18, from root", "train.k: 9", "replaced 3 of"})
    CHECK_THAT(all, ContainsSubstring(part));
}

TEST_CASE("explain shows what _delete_ and ~key dropped") {
  Folder folder;
  folder.Write("a.yaml", "o: {lr: 0.1, m: 1}\nk: 5\n");
  std::string path = folder.Write("b.yaml", "_base_: a.yaml\no: {_delete_: true, lr: 0.2}\n");
  Resolved resolved = Load(path, {"~k"});
  CHECK_THAT(Explain(resolved, "o"), ContainsSubstring("_delete_"));
  CHECK_THAT(Explain(resolved, "k"), ContainsSubstring("isn't set"));
  CHECK_THAT(Explain(resolved, "k"), ContainsSubstring("a.yaml:2:4"));
  CHECK_THAT(ExplainAll(resolved), ContainsSubstring("# k was deleted by --set #1: 5"));
  // What was deleted with the dict around it, and what replaced it.
  CHECK_THAT(Explain(resolved, "o.m"), ContainsSubstring("o.m isn't set"));
  CHECK_THAT(Explain(resolved, "o.m"), ContainsSubstring("deleted with o: 1 ("));
  CHECK_THAT(Explain(resolved, "o.lr"), ContainsSubstring("deleted with o: 0.1 ("));
}

TEST_CASE("the reader: types, defaults, what nobody read") {
  Resolved resolved = LoadText(
      "a: {x: 1, y: 2.5, s: text, list: [1, 2], none: null, deep: {u: 1, v: 2}}\nb: {q: 1}\nitems: "
      "[{n: 1, m: 2}, {n: 3}]\n",
      "t.yaml");
  Reader reader(resolved.root);
  CHECK(reader.Int("a.x") == 1);
  CHECK(reader.Double("a.x") == 1.0);
  CHECK(reader.Double("a.none", 7.0) == 7.0);
  CHECK(reader.Ints("a.list") == std::vector<int64_t>{1, 2});
  CHECK(reader.Child("a.deep").Int("u") == 1);
  for (const Reader& item : reader.Children("items")) CHECK(item.Int("n") > 0);
  CHECK_THROWS_WITH(reader.Int("a.y"), ContainsSubstring("t.yaml:1:14"));
  CHECK_THROWS_WITH(reader.Double("a.s"), ContainsSubstring("expected: a number"));
  CHECK_THROWS_WITH(reader.Int("a.z"), ContainsSubstring("missing"));
  CHECK(reader.IntWithin("a.x", 5, 1, 1) == 1);
  CHECK(reader.IntWithin("a.none", 5, 1, 9) == 5);
  CHECK_THROWS_WITH(reader.IntWithin("a.x", 5, 2, 9),
                    ContainsSubstring("`a.x` is out of range (it is 1)\n  expected: an int from 2 "
                                      "to 9"));
  CHECK(reader.DoubleWithin("a.x", 0.5, 0, 1) == 1.0);
  CHECK_THROWS_WITH(reader.DoubleWithin("a.x", 0.5, 0, 0.75),
                    ContainsSubstring("expected: a number from 0 to 0.75"));
  std::vector<std::string> unused;
  for (const UnusedKey& key : reader.UnusedKeys()) unused.push_back(key.path);
  CHECK(unused == std::vector<std::string>{"a.deep.v", "b", "items.0.m"});
}
