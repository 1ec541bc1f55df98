// What a parser is fed with and must withstand: shared by the libFuzzer targets (config_fuzz.cpp)
// and by the replay of seeds and their mutations in the ordinary tests
// (tests/config/fuzz_replay_test.cpp).
#pragma once

#include <stdexcept>
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

namespace xp::config::fuzz {

inline constexpr std::string_view kTargets[] = {"yaml", "python", "set",        "schema",
                                                "json", "toml",   "interpolate"};

// What is read must print and read back to the same identity.
inline void RoundTrip(const Node& node) {
  std::string canonical = CanonicalJson(node);
  if (CanonicalJson(FromJson(canonical)) != canonical)
    throw std::logic_error("canonical JSON reads back as something else: " + canonical);
}

inline void Feed(std::string_view target, const std::string& text) {
  if (target == "yaml") {
    Node node = ParseYaml(text, "f");
    RoundTrip(node);
    if (node.IsDict()) LoadText(PrettyYaml(node), "f.yaml");
  } else if (target == "python") {
    PythonFile file(text, "f.py");
    Node base = FromJson(R"({"model": {"a": [1, {"b": 2}], "lr": 0.1}, "root": "x/"})");
    RoundTrip(file.Run(base));
  } else if (target == "set") {
    Node root = FromJson(R"({"a": {"b": [1, {"c": 2}], "x.y": "z"}, "optimizer": {"lr": 0.1}})");
    ApplyOverrides(root, {text}, {}, nullptr);
    RoundTrip(root);
  } else if (target == "schema") {
    for (const Problem& problem : Validate(ParseYaml(text, "f"))) {
      if (problem.what.empty()) throw std::logic_error("a problem without words");
    }
  } else if (target == "json") {
    RoundTrip(ParseJson(text, "f"));
  } else if (target == "toml") {
    RoundTrip(ParseToml(text, "f"));
  } else {
    LoadText(text, "f.yaml");
  }
}

// Any exception other than xp::Error is a fault and goes on to the caller.
inline void One(std::string_view target, const std::string& text) {
  try {
    Feed(target, text);
  } catch (const xp::Error&) {  // NOLINT(bugprone-empty-catch): refusing is right
  }
}

}  // namespace xp::config::fuzz
