// The grammar of `--set` (docs/config.md):
//   k=v   changes a key that exists, or that the schema knows        +k=v  adds a key that doesn't
//   exist ~k    deletes a key                                              k+=[v] appends to a list
// Keys: a.b, list elements a.0 and a.-1, all elements a.*, quoted names a."b.c".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exp/config/load.h"
#include "exp/config/node.h"

namespace xp::config {

enum class OverrideKind { kSet, kAdd, kDelete, kAppend };

struct Override {
  OverrideKind kind = OverrideKind::kSet;
  std::string text;  // as given
  std::vector<std::string> keys;
  std::string path;  // the keys joined
  Node value;
  Origin origin;  // "--set #2"
};

// How the override of that index is called in messages: LoadOptions::override_places, "--set #2".
std::string OverridePlace(const LoadOptions& options, size_t index);

// Throws UsageError naming `source` ("--set #2"). A note about the value ("010 is read as ...")
// goes to *warnings when given.
Override ParseOverride(std::string_view text, const std::string& source,
                       std::vector<Notice>* warnings);

// The value part alone: YAML flow style plus `(1, 2)` for a list and Python's None.
Node ParseOverrideValue(std::string_view text, const std::string& source, std::string* warning);

// Applies one. Adds what was deleted to *dropped, what is worth saying to *warnings (both may be
// null).
void Apply(const Override& change, Node& root, const LoadOptions& options,
           std::vector<Notice>* warnings, std::vector<Dropped>* dropped);

// Overrides whose effect a later one undoes: a notice each.
void NoteOverridden(const std::vector<Override>& changes, std::vector<Notice>* warnings);

}  // namespace xp::config
