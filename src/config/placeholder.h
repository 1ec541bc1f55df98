// mmengine's text placeholders: {{fileDirname}}, {{fileBasename}}, {{fileBasenameNoExtension}},
// {{fileExtname}},
// {{$NAME:default}} (the environment) and {{_base_.a.b}} (a value of the bases).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "exp/config/node.h"
#include "src/config/places.h"

namespace xp::config {

// Replaces file and environment placeholders in a piece of text. An environment value is taken as
// it is, whatever characters it has (mmengine#940). Throws UsageError at `at` for a variable that
// is neither set nor has a default.
std::string SubstituteText(std::string_view text, const std::filesystem::path& file,
                           const Origin& at);

// Whether the text is exactly one {{$NAME:None}} whose variable isn't set: it stands for null, not
// for the word (mmengine#1635).
bool IsNullDefault(std::string_view text);

// If `text` at `begin` is a placeholder of the file or the environment, its replacement and its
// length.
bool ReadPlaceholder(std::string_view text, size_t begin, const std::filesystem::path& file,
                     const Origin& at, std::string* replacement, size_t* length);

// {{ name }} at `begin`: the name (dots allowed), or "" when it isn't one word.
std::string_view ReadName(std::string_view text, size_t begin, size_t* length);

// For YAML, JSON and TOML: all placeholders of a whole file. {{_base_.a.b}} becomes a string that
// ResolveBaseMarks finds. `places` gets where things were.
std::string SubstituteFile(std::string_view text, const std::filesystem::path& file,
                           Places* places);

// Replaces the strings that stand for {{_base_.a.b}} by the bases' values.
void ResolveBaseMarks(Node& node, const Node& bases);

}  // namespace xp::config
