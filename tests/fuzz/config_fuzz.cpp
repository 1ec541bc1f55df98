// One fuzz target a parser; EXP_FUZZ picks it at build time (tests/fuzz/run.sh). Any exception other than xp::Error, any
// crash, leak or time-out is a fault.
#include <cstdint>
#include <string>
#include <string_view>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"
#include "exp/config/schema.h"
#include "src/config/json.h"
#include "src/config/override.h"
#include "src/config/python_file.h"
#include "src/config/toml.h"
#include "src/config/yaml.h"

namespace {

using namespace xp::config;

// What is read must print and read back to the same identity.
void RoundTrip(const Node& node) {
  std::string canonical = CanonicalJson(node);
  if (CanonicalJson(FromJson(canonical)) != canonical) __builtin_trap();
}

void Yaml(const std::string& text) {
  Node node = ParseYaml(text, "f");
  RoundTrip(node);
  if (node.IsDict()) LoadText(PrettyYaml(node), "f.yaml");
}

void Python(const std::string& text) {
  PythonFile file(text, "f.py");
  Node base = FromJson(R"({"model": {"a": [1, {"b": 2}], "lr": 0.1}, "root": "x/"})");
  RoundTrip(file.Run(base));
}

void Set(const std::string& text) {
  Node root = FromJson(R"({"a": {"b": [1, {"c": 2}], "x.y": "z"}, "optimizer": {"lr": 0.1}})");
  ApplyOverrides(root, {text}, {}, nullptr);
  RoundTrip(root);
}

void Schema(const std::string& text) {
  for (const Problem& problem : Validate(ParseYaml(text, "f"))) {
    if (problem.what.empty()) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string_view target = EXP_FUZZ;
    if (target == "yaml") Yaml(text);
    if (target == "python") Python(text);
    if (target == "set") Set(text);
    if (target == "schema") Schema(text);
    if (target == "json") RoundTrip(ParseJson(text, "f"));
    if (target == "toml") ParseToml(text, "f");
    if (target == "interpolate") LoadText(text, "f.yaml");
  } catch (const xp::Error&) {
  }
  return 0;
}
