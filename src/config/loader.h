// Reads files with their bases; the part of Load before overrides and interpolation.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exp/config/load.h"
#include "exp/config/node.h"
#include "src/config/python_file.h"

namespace xp::config {

class Loader {
 public:
  Loader(const LoadOptions& options, Resolved& result) : options_(options), result_(result) {}

  // The file with everything it inherits, a dict. `from` is where it was named, for messages.
  Node File(const std::filesystem::path& path, const Origin& from);

  // As File for a text that is not in a file; `folder` is what its bases are relative to.
  Node Text(const std::string& text, const std::filesystem::path& name);

 private:
  Node Parse(const std::string& text, const std::filesystem::path& path);
  Node Python(const std::string& text, const std::filesystem::path& path);
  Node NewStylePython(const PythonFile& file);
  const PythonFile& Module(const std::string& module, const std::filesystem::path& from,
                           const Origin& at);
  Node MmBases(const Node& bases, const std::filesystem::path& path);
  void Deprecated(Node& own);
  Node WithBases(Node own, const std::filesystem::path& path);
  Node WithMmBases(Node own, const Node& bases, const std::filesystem::path& path);
  Node WithPlainBases(Node own, const Node& bases, const std::filesystem::path& path);
  // The file that a base names; *scope gets the package of a `pkg::` base.
  std::filesystem::path BasePath(const Node& base, const std::filesystem::path& path,
                                 std::string* scope) const;
  std::vector<Node> BaseList(const Node& bases, const char* key) const;
  [[noreturn]] void Cycle(const std::string& name, const Origin& from) const;

  const LoadOptions& options_;
  Resolved& result_;
  std::unordered_map<std::string, Node>
      done_;  // by canonical path: a base of several files is resolved twice at most
  std::unordered_map<std::string, size_t> seen_;  // by canonical path: its place in the sources
  std::vector<std::string> open_;                 // files being read, outermost first
  std::unordered_set<std::string> open_set_;
  std::unordered_map<std::string, std::unique_ptr<PythonFile>>
      modules_;  // of new-style Python, by path
};

}  // namespace xp::config
