#include "src/config/python_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "exp/base/error.h"
#include "src/config/python/evaluator.h"
#include "src/config/python/parser.h"
#include "src/config/yaml.h"

namespace xp::config {
namespace {

using python::Ast;
using python::AstKind;
using python::Value;

// As mmengine finds it: an annotated one isn't seen.
bool AssignsBase(const Ast& statement) {
  if (statement.kind != AstKind::kAssign || statement.text == "annotated") return false;
  return statement.kids.size() > 1 && statement.kids[1]->kind == AstKind::kName &&
         statement.kids[1]->text == "_base_";
}

bool Standard(const std::string& module) {
  return module.rfind("mmengine.config", 0) == 0 || python::IsStandardModule(module);
}

// As mmengine's Config._is_lazy_import.
bool IsNewStyle(const Ast& module) {
  for (const python::AstPtr& statement : module.kids) {
    if (AssignsBase(*statement)) return false;
    if (statement->kind == AstKind::kWith) return true;
    if (statement->kind == AstKind::kImportFrom) {
      const std::string& name = statement->text;
      bool config =
          name == "mmengine" && statement->names.size() == 2 && statement->names[0] == "Config";
      if (!config && (name[0] == '.' || !Standard(name))) return true;
    }
    if (statement->kind == AstKind::kImport) {
      for (size_t i = 0; i < statement->names.size(); i += 2) {
        if (!Standard(statement->names[i])) return true;
      }
    }
  }
  return false;
}

bool UsesBase(const Ast& ast) {
  if (ast.kind == AstKind::kPlaceholder || (ast.kind == AstKind::kName && ast.text == "_base_"))
    return true;
  return std::any_of(ast.kids.begin(), ast.kids.end(),
                     [](const python::AstPtr& kid) { return kid != nullptr && UsesBase(*kid); });
}

// The globals that become the config: not functions, not modules, not __names__.
Node Result(const Value& globals, const std::unordered_set<std::string>& without) {
  python::Arena arena;
  Value kept = arena.Dict();
  for (const python::DictObject::Pair& pair : globals.dict->pairs) {
    const std::string& name = pair.key.Text();
    bool hidden = name.rfind("__", 0) == 0 || pair.value.type == python::Type::kModule ||
                  pair.value.type == python::Type::kFunction || without.count(name) > 0;
    if (!hidden) kept.dict->Set(pair.key, pair.id, pair.value);
  }
  return python::ToNode(kept);
}

// What the file changed in `_base_` keeps the history of what stood there.
void CarryHistory(const Node& before, Node& after) {
  if (before.IsDict() && after.IsDict()) {
    for (const Entry& entry : before.entries()) {
      const Node* same = after.Find(entry.key);
      if (same == nullptr || (!same->IsContainer() && same->history() == entry.value.history() &&
                              Equal(*same, entry.value)))
        continue;
      CarryHistory(entry.value, *after.FindMutable(entry.key));
    }
    return;
  }
  if (Equal(before, after) || after.history() != nullptr) return;
  Supersede(before, Action::kWritten, after);
}

// One chain of files that import each other with read_base().
class NewStyle {
 public:
  explicit NewStyle(const PythonFile::Finder& find) : find_(find) {}

  python::Namespace Run(const PythonFile& file) {
    const std::string name = file.path().string();
    if (std::find(open_.begin(), open_.end(), name) != open_.end() || open_.size() > 100) {
      std::string chain;
      for (const std::string& step : open_) chain += "\n    " + step + " ->";
      throw UsageError({.what = "the config imports itself:" + chain + "\n    " + name,
                        .where = open_.back(),
                        .next = "remove one of these imports"});
    }
    // A file is run anew for each import, as in mmengine, so that its values aren't shared; files
    // that import each other twice would double that with each level.
    constexpr int kMostRuns = 2000;
    if (++runs_ > kMostRuns)
      throw UsageError({.what = "the config's files are imported more than 2,000 times",
                        .where = name,
                        .next = "import each base once"});
    open_.push_back(name);
    python::Evaluator evaluator(arena_, file.source());
    evaluator.SetImporter([&](const std::string& module, const Origin& at) {
      python::Namespace base = Run(find_(module, file.path(), at));
      // What a base defines is a ConfigDict to the files that import it.
      Value globals = arena_.Dict();
      for (const python::DictObject::Pair& pair : base.globals.dict->pairs) {
        globals.dict->Set(pair.key, pair.id, evaluator.AsConfig(pair.value));
      }
      base.globals = globals;
      return base;
    });
    evaluator.Run(file.ast());
    open_.pop_back();
    return {evaluator.globals(), evaluator.imported()};
  }

 private:
  const PythonFile::Finder& find_;
  python::Arena arena_;
  int runs_ = 0;
  std::vector<std::string> open_;
};

}  // namespace

PythonFile::PythonFile(const std::string& text, const std::filesystem::path& path)
    : path_(path), source_(InternName(path.string())) {
  RequireUtf8(text, path.string());
  ast_ = python::ParseModule(text, source_, path);
  new_style_ = IsNewStyle(*ast_);
}

PythonFile::~PythonFile() = default;

Node PythonFile::Bases() const {
  for (const python::AstPtr& statement : ast_->kids) {
    if (!AssignsBase(*statement)) continue;
    python::Arena arena;
    python::Evaluator evaluator(arena, source_);
    return python::ToNode(evaluator.Evaluate(*statement->kids[0]));
  }
  return Node::List();
}

Node PythonFile::Run(Node& bases) {
  python::Arena arena;
  python::Evaluator evaluator(arena, source_);
  // Only the first names bases; others are ignored, as in mmengine.
  auto& statements = ast_->kids;
  std::erase_if(statements,
                [](const python::AstPtr& statement) { return AssignsBase(*statement); });
  const bool uses_base = UsesBase(*ast_);
  Value base = uses_base ? python::FromNode(arena, bases) : arena.Dict(true);
  evaluator.SetBase(base);
  evaluator.Run(*ast_);
  Node own = Result(evaluator.globals(), {});
  own.set_origin({source_, 1, 1});
  if (uses_base) {
    Node changed = python::ToNode(base);
    CarryHistory(bases, changed);
    bases = std::move(changed);
  }
  return own;
}

Node PythonFile::RunNewStyle(const Finder& find) const {
  NewStyle chain(find);
  python::Namespace result = chain.Run(*this);
  Node node = Result(result.globals, result.imported);
  node.set_origin({source_, 1, 1});
  return node;
}

Node EvaluateExpression(std::string_view text, const Origin& at) {
  python::AstPtr ast = python::ParseExpression(text, at.source, at.line, at.column);
  python::Arena arena;
  python::Evaluator evaluator(arena, at.source);
  return python::ToNode(evaluator.Evaluate(*ast));
}

}  // namespace xp::config
