#include "exp/config/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/foreign.h"
#include "src/config/scalar.h"
#include "src/config/suggest.h"

namespace xp::config {
namespace {

using nlohmann::json;

const json& SchemaJson() {
  static const json schema = json::parse(SchemaText());
  return schema;
}

const valijson::Schema& CompiledSchema() {
  static const valijson::Schema* schema = [] {
    auto* compiled = new valijson::Schema();  // lives as long as the program
    valijson::SchemaParser parser;
    valijson::adapters::NlohmannJsonAdapter adapter(SchemaJson());
    parser.populateSchema(adapter, *compiled);
    return compiled;
  }();
  return *schema;
}

json ToJson(const Node& node) {
  switch (node.kind()) {
    case Kind::kNull:
      return nullptr;
    case Kind::kBool:
      return node.AsBool();
    case Kind::kInt:
      return node.AsInt();
    case Kind::kFloat:
      return node.AsDouble();
    case Kind::kString:
      if (node.tag() == kBigInt) return std::stoull(node.AsString());
      return node.AsString();
    case Kind::kList: {
      json list = json::array();
      for (const Node& item : node.items()) list.push_back(ToJson(item));
      return list;
    }
    case Kind::kDict:
      break;
  }
  json dict = json::object();
  for (const Entry& entry : node.entries()) dict[entry.key] = ToJson(entry.value);
  return dict;
}

// Follows `$ref: "#/definitions/x"`, which may stand beside a description.
const json& Follow(const json& schema) {
  const json* at = &schema;
  for (int i = 0; i < 20 && at->contains("$ref"); ++i) {
    at = &SchemaJson().at(json::json_pointer(at->at("$ref").get<std::string>().substr(1)));
  }
  return *at;
}

// The sub-schemas that say something about a dict's key; through anyOf, oneOf and allOf.
void Below(const json& schema, const std::string& key, std::vector<const json*>& found) {
  const json& here = Follow(schema);
  if (here.contains("properties") && here["properties"].contains(key)) {
    found.push_back(&here["properties"][key]);
  } else if (here.contains("additionalProperties") && here["additionalProperties"].is_object()) {
    found.push_back(&here["additionalProperties"]);
  }
  bool index = !key.empty() && key.find_first_not_of("0123456789-*") == std::string::npos;
  if (index && here.contains("items") && here["items"].is_object()) found.push_back(&here["items"]);
  for (const char* group : {"anyOf", "oneOf", "allOf"}) {
    if (!here.contains(group)) continue;
    for (const json& choice : here[group]) Below(choice, key, found);
  }
}

std::vector<const json*> SchemasAt(const std::vector<std::string>& path) {
  std::vector<const json*> at{&SchemaJson()};
  for (const std::string& key : path) {
    std::vector<const json*> next;
    for (const json* schema : at) Below(*schema, key, next);
    at = std::move(next);
  }
  return at;
}

void NamesOf(const json& schema, std::vector<std::string>& names) {
  const json& here = Follow(schema);
  if (here.contains("properties")) {
    for (const auto& [name, unused] : here["properties"].items()) names.push_back(name);
  }
  for (const char* group : {"anyOf", "oneOf", "allOf"}) {
    if (!here.contains(group)) continue;
    for (const json& choice : here[group]) NamesOf(choice, names);
  }
}

// What a schema asks for, in words.
std::string Expectation(const json& schema) {
  const json& here = Follow(schema);
  if (here.contains("enum")) {
    std::vector<std::string> values;
    for (const json& value : here["enum"])
      values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    return fmt::format("one of {}", fmt::join(values, ", "));
  }
  if (here.contains("const")) return here["const"].dump();
  for (const char* group : {"anyOf", "oneOf"}) {
    if (!here.contains(group)) continue;
    std::vector<std::string> choices;
    for (const json& choice : here[group]) {
      std::string words = Expectation(choice);
      if (std::find(choices.begin(), choices.end(), words) == choices.end())
        choices.push_back(words);
    }
    return fmt::format("{}", fmt::join(choices, " or "));
  }
  static const std::pair<const char*, const char*> kWords[] = {
      {"number", "a number"}, {"integer", "an int"}, {"boolean", "true or false"},
      {"string", "a string"}, {"array", "a list"},   {"object", "a dict"},
      {"null", "null"}};
  std::vector<std::string> types;
  if (here.contains("type")) {
    json list = here["type"].is_array() ? here["type"] : json::array({here["type"]});
    for (const json& type : list) {
      for (const auto& [name, words] : kWords) {
        if (type == name) types.emplace_back(words);
      }
    }
  }
  std::string text = fmt::format("{}", fmt::join(types, " or "));
  auto bound = [&](const char* key, const char* words) {
    if (here.contains(key)) text += fmt::format(" {} {}", words, here[key].dump());
    return here.contains(key);
  };
  const bool above = bound("exclusiveMinimum", ">") || bound("minimum", ">=");
  bound("exclusiveMaximum", above ? "and <" : "<");
  bound("maximum", above ? "and <=" : "<=");
  const json least = here.value("minItems", json()), most = here.value("maxItems", json());
  const std::string count = least.is_null()  ? most.is_null() ? "" : "at most " + most.dump()
                             : least == most ? least.dump()
                            : most.is_null() ? "at least " + least.dump()
                                             : least.dump() + " to " + most.dump();
  const bool items =
      here.contains("items") && here["items"].is_object() && here.value("type", json()) == "array";
  if (items)
    text += (count.empty() ? " of " : " of " + count + ", each ") + Expectation(here["items"]);
  if (!items && !count.empty()) text += " of " + count;
  return text;
}

// valijson's context: "<root>", "[model]", "[neck]" or "[0]".
std::vector<std::string> PathOf(const std::vector<std::string>& context) {
  std::vector<std::string> path;
  for (size_t i = 1; i < context.size(); ++i) {
    std::string key = context[i];
    if (key.size() >= 2 && key.front() == '[' && key.back() == ']')
      key = key.substr(1, key.size() - 2);
    path.push_back(std::move(key));
  }
  return path;
}

std::string Joined(const std::vector<std::string>& path) {
  std::string out;
  for (const std::string& key : path) out = JoinPath(out, key);
  return out;
}

class Judge {
 public:
  explicit Judge(const Node& root) : root_(root) {}

  // The deepest complaints say most: an anyOf at the top only repeats that something below is
  // wrong.
  void Add(const std::vector<std::string>& context) {
    if (!seen_.insert(context).second) return;  // once for each unknown key of a dict
    std::vector<std::string> path = PathOf(context);
    const Node* node = root_.At(Joined(path));
    if (node == nullptr) return;
    std::vector<const json*> schemas = SchemasAt(path);
    if (node->IsDict() && !schemas.empty() && AcceptsDicts(schemas)) {
      UnknownKeys(*node, path, schemas);
      MissingKeys(*node, path, schemas);
      return;
    }
    // An element that one of the choices of what is around it allows isn't what is wrong.
    if (std::none_of(schemas.begin(), schemas.end(),
                     [&](const json* schema) { return Fits(*node, *schema); })) {
      Wrong(*node, path, schemas);
    }
  }

  // A float at `path`, which JSON Schema's bounds let pass: comparisons with NaN are never true,
  // and an infinity is above every minimum.
  void AddUnusable(const Node& number, const std::vector<std::string>& path) {
    Wrong(number, path, SchemasAt(path),
          std::isfinite(number.AsDouble()) ? "1.4e-45 to 3.4e+38 in size, as single precision is"
                                           : "finite");
  }

  // In order of place; what overrides set comes last.
  std::vector<Problem> Problems() {
    std::stable_sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      const auto place = [](const Origin& at) {
        return std::tuple(at.line == 0, at.source == nullptr ? std::string() : *at.source, at.line,
                          at.column);
      };
      return place(a.at) < place(b.at);
    });
    std::vector<Problem> problems;
    for (Found& found : found_) problems.push_back(std::move(found.problem));
    return problems;
  }

 private:
  static bool AcceptsDicts(const std::vector<const json*>& schemas) {
    return std::any_of(schemas.begin(), schemas.end(), [](const json* schema) {
      return Expectation(*schema).find("a dict") != std::string::npos ||
             Follow(*schema).contains("properties");
    });
  }

  bool Fits(const Node& node, const json& schema) {
    std::unique_ptr<valijson::Schema>& compiled = compiled_[&schema];
    if (compiled == nullptr) {
      compiled = std::make_unique<valijson::Schema>();
      const json alone = {{"definitions", SchemaJson().at("definitions")},
                          {"allOf", json::array({schema})}};
      valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(alone),
                                              *compiled);
    }
    const json value = ToJson(node);
    return valijson::Validator().validate(*compiled, valijson::adapters::NlohmannJsonAdapter(value),
                                          nullptr);
  }

  void Push(const Origin& at, Problem problem) {
    // An anyOf that fails repeats the complaint about what lies below it.
    if (covered_.count(problem.path) > 0) return;
    covered_.insert(problem.path);
    for (size_t dot = problem.path.find('.'); dot != std::string::npos;
         dot = problem.path.find('.', dot + 1)) {
      covered_.insert(problem.path.substr(0, dot));
    }
    problem.where = at.Text();
    found_.push_back({at, std::move(problem)});
  }

  void Wrong(const Node& node, const std::vector<std::string>& path,
             const std::vector<const json*>& schemas, const std::string& also = {}) {
    std::string expected;
    for (const json* schema : schemas) {
      std::string words = Expectation(*schema);
      if (expected.find(words) == std::string::npos)
        expected += (expected.empty() ? "" : " or ") + words;
    }
    if (!also.empty()) expected += (expected.empty() ? "" : ", ") + also;
    std::string next;
    if (node.IsString() && (expected.find("number") != std::string::npos ||
                            expected.find("int") != std::string::npos)) {
      next = "write a number without quotes";
    } else if (node.IsString()) {
      std::vector<std::string> choices;
      for (const json* schema : schemas) {
        const json& here = Follow(*schema);
        if (!here.contains("enum")) continue;
        for (const json& value : here["enum"]) {
          if (value.is_string()) choices.push_back(value.get<std::string>());
        }
      }
      next = DidYouMean(Nearest(node.AsString(), choices));
    }
    Push(node.origin(),
         {Joined(path), "", fmt::format("`{}` is {}", Joined(path), Brief(node)), expected, next});
  }

  void UnknownKeys(const Node& dict, const std::vector<std::string>& path,
                   const std::vector<const json*>& schemas) {
    bool closed = std::any_of(schemas.begin(), schemas.end(), [](const json* schema) {
      const json& here = Follow(*schema);
      return here.contains("additionalProperties") && here["additionalProperties"] == false;
    });
    if (!closed) return;
    std::vector<std::string> names;
    for (const json* schema : schemas) NamesOf(*schema, names);
    for (const Entry& entry : dict.entries()) {
      if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
      std::string full = JoinPath(Joined(path), entry.key);
      std::string next = DidYouMean(Nearest(entry.key, names));
      if (next.empty()) next = "remove it, or see docs/config.md for the keys there are";
      Push(entry.value.origin(),
           {full, "", fmt::format("nothing knows the key `{}`", full),
            names.size() > 12 ? "" : fmt::format("one of {}", fmt::join(names, ", ")), next});
    }
  }

  void MissingKeys(const Node& dict, const std::vector<std::string>& path,
                   const std::vector<const json*>& schemas) {
    for (const json* schema : schemas) {
      const json& here = Follow(*schema);
      if (!here.contains("required")) continue;
      for (const json& name : here["required"]) {
        auto key = name.get<std::string>();
        if (dict.Has(key)) continue;
        std::string full = JoinPath(Joined(path), key);
        std::string expected = here.contains("properties") && here["properties"].contains(key)
                                   ? Expectation(here["properties"][key])
                                   : "";
        Push(dict.origin(), {full, "", fmt::format("`{}` is missing", full), expected,
                             fmt::format("add it, or --set +{}=...", full)});
      }
    }
  }

  struct Found {
    Origin at;
    Problem problem;
  };

  const Node& root_;
  std::vector<Found> found_;
  std::set<std::vector<std::string>> seen_;                            // contexts
  std::map<const json*, std::unique_ptr<valijson::Schema>> compiled_;  // parts of the schema
  std::set<std::string> covered_;  // paths of the problems and of what is above them
};

// Training computes in single precision: a number that is infinite or nothing there isn't the one
// that was written.
bool Usable(double value) {
  const auto single = static_cast<float>(value);
  return std::isfinite(single) && (value == 0 || single != 0);
}

void AddUnusableNumbers(const Node& node, std::vector<std::string>& path, Judge& judge) {
  if (node.kind() == Kind::kFloat && !Usable(node.AsDouble())) judge.AddUnusable(node, path);
  auto below = [&](const std::string& key, const Node& value) {
    path.push_back(key);
    AddUnusableNumbers(value, path, judge);
    path.pop_back();
  };
  if (node.IsDict()) {
    for (const Entry& entry : node.entries()) below(entry.key, entry.value);
  } else if (node.IsList()) {
    for (size_t i = 0; i < node.size(); ++i) below(std::to_string(i), node[i]);
  }
}

}  // namespace

std::vector<Problem> Validate(const Node& root) {
  json document = ToJson(root);
  valijson::Validator validator;
  valijson::ValidationResults results;
  valijson::adapters::NlohmannJsonAdapter adapter(document);
  const bool fits = validator.validate(CompiledSchema(), adapter, &results);
  std::vector<std::vector<std::string>> contexts;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) contexts.push_back(error.context);
  std::stable_sort(contexts.begin(), contexts.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  Judge judge(root);
  for (const auto& context : contexts) judge.Add(context);
  std::vector<std::string> path;
  AddUnusableNumbers(root, path, judge);
  std::vector<Problem> problems = judge.Problems();
  if (!fits && problems.empty()) {
    problems.push_back(
        {"", root.Where(), "the config doesn't fit its schema", "", "see docs/config.md"});
  }
  return problems;
}

void RequireValid(const Node& root, const std::string& part) {
  std::vector<Problem> problems = Validate(root);
  std::erase_if(problems, [&](const Problem& problem) {
    return !part.empty() && problem.path != part && !problem.path.starts_with(part + '.');
  });
  if (problems.empty()) return;
  if (std::optional<ForeignKey> foreign = FindForeignKey(root)) {
    problems.insert(
        problems.begin(),
        {.path = foreign->path,
         .where = root.At(foreign->path)->Where(),
         .what =
             fmt::format("a config of {}: it has the key `{}`", foreign->project, foreign->path),
         .expected = "exp's own keys (docs/config.md); configs/faster_rcnn_mmdet.yaml has "
                     "mmdetection's Faster R-CNN in them, configs/ssd300.yaml SSD300",
         .next = "begin with one of these, or let its own trainer train and exp record it: exp "
                 "run CONFIG -- python tools/train.py {config}"});
  }
  constexpr size_t kShown = 20;
  const Problem& first = problems.front();
  ErrorText text{
      .what = first.what, .where = first.where, .expected = first.expected, .next = first.next};
  for (size_t i = 1; i < std::min(problems.size(), kShown); ++i) {
    const Problem& problem = problems[i];
    text.next +=
        fmt::format("{}also {}: {}{}{}", text.next.empty() ? "" : "\n  ", problem.where,
                    problem.what, problem.expected.empty() ? "" : "; expected " + problem.expected,
                    problem.next.empty() ? "" : "; " + problem.next);
  }
  if (problems.size() > kShown)
    text.next += fmt::format("\n  and {} more", problems.size() - kShown);
  throw UsageError(std::move(text));
}

bool SchemaKnows(const std::vector<std::string>& path) { return !SchemasAt(path).empty(); }

std::vector<std::string> SchemaNames(const std::vector<std::string>& path) {
  std::vector<std::string> names;
  for (const json* schema : SchemasAt(path)) NamesOf(*schema, names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace xp::config
