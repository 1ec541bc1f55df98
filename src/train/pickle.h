// Reads Python pickles without running anything: what would be a call becomes a value that says
// which function was named, and with what. Source: CPython Lib/pickletools.py (opcodes) and
// Lib/pickle.py; protocols 0 and 1 are not read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace xp::train::pickle {

enum class Kind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,  // text and bytes
  kList,    // lists, tuples, sets
  kDict,
  kGlobal,      // "torch._utils._rebuild_tensor_v2"
  kCall,        // a global applied to arguments: never run
  kPersistent,  // something kept outside the pickle: for torch a storage
};

using Ref = uint32_t;  // index into Document::values

// Values refer to each other by number: they live in one vector, so that deep nesting or a cycle in
// a hostile file costs no recursion.
struct Value {
  Kind kind = Kind::kNone;
  int64_t integer = 0;     // kBool, kInt
  double number = 0;       // kFloat
  std::string text;        // kString, kGlobal
  std::vector<Ref> items;  // kList; kCall: {function, arguments}; kPersistent: {id}
  std::vector<std::pair<Ref, Ref>> entries;  // kDict, in the order of the file
};

struct Document {
  std::vector<Value> values;
  Ref root = 0;
  size_t end = 0;  // bytes read

  const Value& operator[](Ref ref) const { return values[ref]; }
  // The value of a text key, null when absent or when it isn't a dict. The last one counts, as in
  // Python.
  const Value* Find(const Value& dict, std::string_view key) const;
  // The global that a kCall names, else "".
  std::string_view Function(const Value& call) const;
};

// Reads the pickle at the start of `bytes`, up to its STOP. `where` names it in messages ("a.pth:
// data.pkl"). collections.OrderedDict() becomes a dict. Throws UsageError with the byte for what is
// malformed or not known; memory grows with the size of the pickle only.
Document Parse(std::string_view bytes, const std::string& where);

}  // namespace xp::train::pickle
