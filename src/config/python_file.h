// Python config files, of mmengine's old style (`_base_ = [...]`) and new style (`with
// read_base():`).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "exp/config/load.h"
#include "exp/config/node.h"

namespace xp::config {

namespace python {
struct Ast;
}

// A parsed file; holds the syntax tree.
class PythonFile {
 public:
  // Throws UsageError with place for what isn't Python or can't be used in a config.
  PythonFile(const std::string& text, const std::filesystem::path& path);
  ~PythonFile();
  PythonFile(const PythonFile&) = delete;
  PythonFile& operator=(const PythonFile&) = delete;

  bool new_style() const { return new_style_; }

  // Old style: what `_base_` names, each with its place.
  Node Bases() const;
  // Old style: runs the file. `bases` is what it inherits; changes that the file makes to `_base_`
  // end up in it. Returns the file's own keys.
  Node Run(Node& bases);

  // New style: runs the file and what it imports; `find` reads the file of a module ("..base.x")
  // named at a place.
  using Finder = std::function<const PythonFile&(
      const std::string& module, const std::filesystem::path& from, const Origin& at)>;
  Node RunNewStyle(const Finder& find) const;

  const std::filesystem::path& path() const { return path_; }
  const python::Ast& ast() const { return *ast_; }
  const std::string* source() const { return source_; }

 private:
  std::filesystem::path path_;
  const std::string* source_;
  std::unique_ptr<python::Ast> ast_;
  bool new_style_ = false;
};

// The value of one expression without names, as `!!python/object/apply:eval` needs.
Node EvaluateExpression(std::string_view text, const Origin& at);

}  // namespace xp::config
