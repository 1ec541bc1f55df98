// import and from ... import: the standard library, read_base()'s files, names of packages.
#include <fmt/format.h>

#include "src/config/python/evaluator.h"

namespace xp::config::python {

void Evaluator::Import(const Ast& statement) {
  for (size_t i = 0; i + 1 < statement.names.size(); i += 2) {
    Step(statement);
    const std::string& module = statement.names[i];
    const std::string& alias = statement.names[i + 1];
    std::string top = module.substr(0, module.find('.'));
    std::string name = alias.empty() ? top : alias;
    imported_.insert(name);
    if (IsStandardModule(top)) {
      Bind(name, Value::Module(alias.empty() ? top : module));
    } else {
      // `import a.b` names a, `import a.b as c` names a.b.
      Bind(name, arena_.Lazy({alias.empty() ? top : module, ""}));
    }
  }
}

void Evaluator::ImportFrom(const Ast& statement) {
  const std::string& module = statement.text;
  if (bases_.count(module) > 0) return BindBase(statement);
  for (size_t i = 0; i + 1 < statement.names.size(); i += 2) {
    Step(statement);
    const std::string& name = statement.names[i];
    const std::string& alias = statement.names[i + 1].empty() ? name : statement.names[i + 1];
    if (name == "*")
      Fail(statement, "`import *` outside of `with read_base():`",
           "import the names that are used");
    imported_.insert(alias);
    if (module.rfind("mmengine.config", 0) == 0 || (module == "mmengine" && name == "Config")) {
      FunctionObject function;
      function.name = name;
      Bind(alias, arena_.Function(std::move(function)));
    } else if (IsStandardModule(module)) {
      // What can't be used is named where it is used: it may stand in annotations only.
      std::string full = module;
      full.append(".").append(name);
      const bool usable = IsModuleMember(full) || module == "math" || module == "os";
      Bind(alias, usable ? Attribute(statement, Value::Module(module), name) : Value::Module(full));
    } else {
      Bind(alias, arena_.Lazy({module, name}));
    }
  }
}

// with read_base():
//     from .base import *
void Evaluator::ImportBase(const Ast& statement) {
  const Ast& call = *statement.kids[0];
  bool reads = call.kind == AstKind::kCall && call.kids.size() == 1 &&
               call.kids[0]->kind == AstKind::kName && call.kids[0]->text == "read_base";
  if (!reads) Fail(statement, "only `with read_base():` can be used in a config");
  if (!importer_)
    Fail(statement, "`_base_` and `read_base()` don't go together",
         "use one of them in all files of the chain");
  for (const AstPtr& line : statement.kids[1]->kids) {
    if (line->kind == AstKind::kPass) continue;
    if (line->kind != AstKind::kImportFrom)
      Fail(*line, "only `from ... import ...` can stand in `with read_base():`");
    Namespace base = importer_(line->text, At(*line));
    imported_.insert(base.imported.begin(), base.imported.end());
    bases_[line->text] = std::move(base);
    BindBase(*line);
  }
}

// from .base import a, b as c
void Evaluator::BindBase(const Ast& line) {
  DictObject& base = *bases_.at(line.text).globals.dict;
  for (size_t i = 0; i + 1 < line.names.size(); i += 2) {
    const std::string& name = line.names[i];
    if (name == "*") {
      for (const DictObject::Pair& pair : base.pairs) {
        Step(line);
        Bind(KeyText(pair.key), pair.value);
      }
      continue;
    }
    const DictObject::Pair* pair = base.Find("s" + name);
    if (pair == nullptr) Fail(line, fmt::format("{} has no `{}`", line.text, name));
    Bind(line.names[i + 1].empty() ? name : line.names[i + 1], pair->value);
  }
}

}  // namespace xp::config::python
