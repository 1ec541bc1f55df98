#include "exp/config/schema.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "exp/config/lr_check.h"

using namespace xp::config;

namespace {

// The names of all that is in configs/.
std::vector<std::string> Configs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(EXP_SOURCE_DIR "/configs")) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  REQUIRE(names.size() > 15);
  return names;
}

// Calls `visit` with each property of the schema and its path.
void Properties(const nlohmann::json& schema, const std::string& path,
                const std::function<void(const std::string&, const nlohmann::json&)>& visit) {
  if (schema.contains("properties")) {
    for (const auto& [name, property] : schema["properties"].items()) {
      visit(path + "." + name, property);
      Properties(property, path + "." + name, visit);
    }
  }
  for (const char* group : {"anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(group)) continue;
    for (const auto& choice : schema[group]) Properties(choice, path, visit);
  }
}

// Calls `visit` with the path of each place where the schema takes a number ("optimizer.betas.0"),
// and what it says of it.
class NumberPlaces {
 public:
  using Visit = std::function<void(const std::string&, const nlohmann::json&)>;
  explicit NumberPlaces(Visit visit) : visit_(std::move(visit)) { Walk(schema_, ""); }

 private:
  void Walk(const nlohmann::json& schema, const std::string& path) {
    if (schema.contains("$ref")) {
      auto pointer = schema["$ref"].get<std::string>().substr(1);
      return Walk(schema_.at(nlohmann::json::json_pointer(pointer)), path);
    }
    for (const char* group : {"anyOf", "oneOf", "allOf"}) {
      if (!schema.contains(group)) continue;
      for (const auto& choice : schema[group]) Walk(choice, path);
    }
    const std::string type = schema.contains("type") ? schema["type"].dump() : "";
    if (type.find("number") != type.npos || type.find("integer") != type.npos) visit_(path, schema);
    if (schema.contains("properties")) {
      for (const auto& [name, property] : schema["properties"].items())
        Walk(property, JoinPath(path, name));
    }
    for (const auto& [key, below] : {std::pair("items", "0"), {"additionalProperties", "any"}}) {
      if (schema.contains(key) && schema[key].is_object()) Walk(schema[key], JoinPath(path, below));
    }
  }

  const nlohmann::json schema_ = nlohmann::json::parse(SchemaText());
  Visit visit_;
};

// A config of one value at a path: "a: {b: [value]}".
std::string ConfigWith(const std::string& path, const std::string& value) {
  std::vector<std::string> keys = SplitPath(path);
  std::string text = value;
  for (size_t i = keys.size(); i-- > 0;) {
    if (keys[i] == "0")
      text = "[" + text + "]";
    else
      text = (i == 0 ? "" : "{") + keys[i] + ": " + text + (i == 0 ? "" : "}");
  }
  return text + "\n";
}

std::string Path(const std::string& name) {
  return std::string(EXP_SOURCE_DIR) + "/configs/" + name + ".yaml";
}

}  // namespace

TEST_CASE("the shipped configs are valid and keep their identity when printed") {
  for (const std::string& name : Configs()) {
    CAPTURE(name);
    Resolved resolved = Load(Path(name));
    for (const Problem& problem : Validate(resolved.root))
      FAIL(problem.where + ": " + problem.what);
    Resolved yaml = LoadText(PrettyYaml(resolved.root), "out.yaml");
    CHECK(Identity(yaml.root) == Identity(resolved.root));
    Resolved json = LoadText(PrettyJson(resolved.root), "out.json");
    CHECK(Identity(json.root) == Identity(resolved.root));
    CHECK(Identity(FromJson(CanonicalJson(resolved.root))) == Identity(resolved.root));
  }
}

TEST_CASE("every key has a description, and its default is one that the schema allows") {
  const nlohmann::json schema = nlohmann::json::parse(SchemaText());
  size_t count = 0;
  auto visit = [&](const std::string& path, const nlohmann::json& property) {
    CAPTURE(path);
    ++count;
    CHECK(property.contains("description"));
    if (!property.contains("default")) return;
    const auto& fallback = property["default"];
    if (property.contains("enum")) {
      const auto& choices = property["enum"];
      CHECK(std::find(choices.begin(), choices.end(), fallback) != choices.end());
    }
    if (!fallback.is_number()) return;
    if (property.contains("minimum")) CHECK(fallback >= property["minimum"]);
    if (property.contains("exclusiveMinimum")) CHECK(fallback > property["exclusiveMinimum"]);
    if (property.contains("maximum")) CHECK(fallback <= property["maximum"]);
    if (property.contains("exclusiveMaximum")) CHECK(fallback < property["exclusiveMaximum"]);
  };
  Properties(schema, "", visit);
  for (const auto& [name, definition] : schema["definitions"].items())
    Properties(definition, "#" + name, visit);
  CHECK(count > 150);
}

TEST_CASE(
    "a number that isn't finite, or not in single precision, is refused wherever one stands") {
  size_t places = 0;
  NumberPlaces([&](const std::string& path, const nlohmann::json&) {
    ++places;
    for (const char* value : {".inf", "-.inf", ".nan", "1e300", "-1e300", "1e999", "3e-46"}) {
      CAPTURE(path, value);
      std::vector<Problem> problems = Validate(LoadText(ConfigWith(path, value), "a.yaml").root);
      auto found = std::find_if(problems.begin(), problems.end(),
                                [&](const Problem& p) { return p.path == path; });
      REQUIRE(found != problems.end());
      CHECK(found->where.rfind("a.yaml:1:", 0) == 0);
      CHECK_FALSE(found->expected.empty());
    }
  });
  CHECK(places > 150);
  auto expected = [](const char* path, const char* value) {
    for (const Problem& problem : Validate(LoadText(ConfigWith(path, value), "a.yaml").root))
      if (problem.path == path) return problem.what + "; " + problem.expected;
    return std::string();
  };
  CHECK(expected("optimizer.weight_decay", ".inf") ==
        "`optimizer.weight_decay` is .inf; a number >= 0, finite");
  CHECK(expected("optimizer.momentum", ".nan") ==
        "`optimizer.momentum` is .nan; a number >= 0 and < 1, finite");
  CHECK(
      expected("optimizer.lr", "1e39") ==
      "`optimizer.lr` is 1e+39; a number > 0, 1.4e-45 to 3.4e+38 in size, as single precision is");
  CHECK(expected("optimizer.lr", "0.0").find("precision") == std::string::npos);
  CHECK(expected("optimizer.weight_decay", "0.0").empty());
  CHECK(expected("optimizer.weight_decay", "-0.0").empty());
  CHECK(expected("optimizer.weight_decay", "3e38").empty());
}

TEST_CASE("the schema says what range every number has") {
  // Those that any number is fine for, or that are only compared with what the model does.
  const std::set<std::string> open = {"seed",       "max_file_bytes",  "max_total_bytes",
                                      "0",          "max_patch_bytes", "allowed_border",
                                      "pos_weight", "neg_pos_ub",      "ignore_iof_thr"};
  NumberPlaces([&](const std::string& path, const nlohmann::json& schema) {
    const std::string name = path.substr(path.rfind('.') + 1);
    if (name == "0" || open.count(name) > 0) return;
    CAPTURE(path);
    CHECK((schema.contains("minimum") || schema.contains("exclusiveMinimum")));
    // Ints become 32 bits wide and are multiplied with each other; of floats above.
    if (schema["type"].dump().find("integer") != std::string::npos)
      CHECK(schema.contains("maximum"));
  });
}

TEST_CASE("every key of the schema is read by name somewhere") {
  std::string sources;
  for (const char* module : {"cli", "data", "models", "snapshot", "train"}) {
    const std::string folder = std::string(EXP_SOURCE_DIR) + "/src/" + module;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (file.path().extension() == ".cpp") sources += xp::ReadFile(file.path().string());
    }
  }
  const nlohmann::json schema = nlohmann::json::parse(SchemaText());
  auto visit = [&](const std::string& path, const nlohmann::json& property) {
    if (property.contains("properties")) return;  // a dict is read by its keys
    // What other keys refer to as ${data_root}; what stands in the config check's part.
    if (path == ".data_root" || path == ".vars" || path.rfind(".auto_scale_lr.", 0) == 0) return;
    const std::string name = path.substr(path.rfind('.') + 1);
    CAPTURE(path);
    const bool read = sources.find('"' + name + '"') != std::string::npos ||
                      sources.find('.' + name + '"') != std::string::npos ||
                      sources.find('"' + name + '.') != std::string::npos ||
                      sources.find('.' + name + '.') != std::string::npos;
    CHECK(read);
  };
  Properties(schema, "", visit);
  for (const auto& [name, definition] : schema["definitions"].items())
    Properties(definition, "#" + name, visit);
}

TEST_CASE("a problem names its place, what was expected and near names") {
  Resolved resolved = Load(Path("quickstart"), {"optimizer.lr=fast", "+optimizer.momentom=0.9"});
  std::vector<Problem> problems = Validate(resolved.root);
  REQUIRE(problems.size() == 2);
  for (const Problem& problem : problems) {
    if (problem.path == "optimizer.lr") {
      CHECK(problem.where == "--set #1");
      CHECK(problem.expected == "a number > 0");
    } else {
      CHECK(problem.path == "optimizer.momentom");
      CHECK_THAT(problem.next, ContainsSubstring("`momentum`"));
    }
  }
  CHECK_THROWS_AS(RequireValid(resolved.root), xp::Error);
}

TEST_CASE("a missing key and a value in a list are found") {
  Resolved resolved = Load(Path("quickstart"), {"~runner.max_epochs", "lr_config.step=[3, x]"});
  std::vector<Problem> problems = Validate(resolved.root);
  REQUIRE(problems.size() == 2);
  CHECK((problems[0].path == "runner.max_epochs" || problems[1].path == "runner.max_epochs"));
  CHECK((problems[0].path == "lr_config.step.1" || problems[1].path == "lr_config.step.1"));
}

TEST_CASE("the learning rate is compared with the batch, accumulation included (mmengine#894)") {
  Resolved resolved =
      Load(Path("faster_rcnn"), {"data.samples_per_gpu=4", "optimizer_config.cumulative_iters=2"});
  LrCheck check = CheckLr(resolved.root, 1);
  CHECK(check.policy == LrPolicy::kWarn);
  CHECK(check.base_batch == 16);
  CHECK(check.effective_batch == 8);
  CHECK(check.ratio == Approx(0.5));
  CHECK(check.lr_before == Approx(0.02));
  CHECK(check.lr_scaled == Approx(0.01));
  CHECK_FALSE(check.fits);
  // mmdetection#11497: every number is said.
  for (const char* part :
       {"0.02", "16", "1 device x 4 samples_per_gpu x 2 cumulative_iters", "0.5", "0.01"}) {
    CHECK_THAT(check.message, ContainsSubstring(part));
  }
  CHECK(CheckLr(resolved.root, 2).fits);
}

TEST_CASE("the LR policies") {
  Resolved resolved = Load(Path("faster_rcnn"), {"auto_scale_lr.policy=scale"});
  ApplyLrPolicy(resolved.root, 4);
  CHECK(resolved.root.At("optimizer.lr")->AsDouble() == Approx(0.01));
  CHECK(resolved.root.At("optimizer.lr")->History().size() == 2);
  resolved = Load(Path("faster_rcnn"), {"auto_scale_lr.policy=error"});
  CHECK_THROWS_WITH(ApplyLrPolicy(resolved.root, 4), ContainsSubstring("ratio 0.5"));
  CHECK_NOTHROW(ApplyLrPolicy(resolved.root, 8));
  resolved = Load(Path("faster_rcnn"), {"auto_scale_lr.enable=true", "~auto_scale_lr.policy"});
  CHECK(CheckLr(resolved.root, 1).policy == LrPolicy::kScale);
  resolved = Load(Path("faster_rcnn"), {"auto_scale_lr.rule=sqrt"});
  CHECK(CheckLr(resolved.root, 2).lr_scaled == Approx(0.01));
}

TEST_CASE("another project's config is named as such, before its keys are listed") {
  struct Case {
    const char *text, *project, *key;
  };
  for (const Case& c :
       {Case{"model: {type: FasterRCNN}\ntrain_dataloader: {batch_size: 2}\n", "mmdetection 3",
             "train_dataloader"},
        Case{"model: {type: FasterRCNN}\nworkflow: [[train, 1]]\n", "mmdetection 2", "workflow"},
        Case{"data: {train: {pipeline: []}}\n", "mmdetection 2", "data.train.pipeline"},
        Case{"MODEL: {WEIGHTS: x}\n", "detectron2", "MODEL"},
        Case{"architecture: YOLOv3\n", "PaddleDetection", "architecture"}}) {
    CAPTURE(c.text);
    Node root = LoadText(c.text, "theirs.yaml").root;
    try {
      RequireValid(root);
      FAIL("valid");
    } catch (const xp::Error& error) {
      CHECK(error.text().where == root.At(c.key)->Where());
      CHECK_THAT(error.text().what, ContainsSubstring(std::string("a config of ") + c.project));
      CHECK_THAT(error.text().what,
                 ContainsSubstring(std::string("it has the key `") + c.key + "`"));
      CHECK_THAT(error.text().next, ContainsSubstring("-- python tools/train.py {config}"));
    }
  }
  // Of many problems the first twenty.
  std::string many;
  for (int i = 0; i < 50; ++i) many += "key_" + std::to_string(i) + ": 1\n";
  try {
    RequireValid(LoadText(many, "many.yaml").root);
    FAIL("valid");
  } catch (const xp::Error& error) {
    CHECK_THAT(error.text().what, !ContainsSubstring("a config of"));
    CHECK(error.text().where == "many.yaml:1:8");
    CHECK_THAT(error.text().next, ContainsSubstring("also many.yaml:20:9: "));
    CHECK_THAT(error.text().next, !ContainsSubstring("many.yaml:21:"));
    CHECK_THAT(error.text().next, ContainsSubstring("and 30 more"));
  }
}

TEST_CASE("a list of another length is told how many it has to have") {
  auto expected = [](const std::string& betas) {
    const Resolved resolved =
        LoadText("optimizer: {type: Adam, lr: 0.1, betas: " + betas + "}\n", "a.yaml");
    for (const Problem& problem : Validate(resolved.root))
      if (problem.path == "optimizer.betas") return problem.expected;
    return std::string();
  };
  CHECK(expected("[0.9]") == "a list of 2, each a number >= 0 and < 1");
  CHECK(expected("[0.9, 0.9]").empty());
}
