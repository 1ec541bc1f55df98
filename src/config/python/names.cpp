#include "src/config/python/names.h"

namespace xp::config::python {
namespace {

class Names {
 public:
  void Visit(const Ast* ast) {
    if (ast == nullptr) return;
    switch (ast->kind) {
      case AstKind::kFunction:
        assigned_.insert(ast->text);
        return VisitDefaults(*ast);
      case AstKind::kLambda:
        return VisitDefaults(*ast);
      case AstKind::kAssign:
        for (size_t i = 1; i < ast->kids.size(); ++i) Target(*ast->kids[i]);
        break;
      case AstKind::kAugAssign:
      case AstKind::kFor:
      case AstKind::kDelete:
        Target(*ast->kids[0]);
        break;
      case AstKind::kWalrus:
        assigned_.insert(ast->text);
        break;
      case AstKind::kImport:
      case AstKind::kImportFrom:
        Imported(*ast);
        break;
      case AstKind::kGlobal:
        declared_.insert(ast->names.begin(), ast->names.end());
        break;
      default:
        break;
    }
    for (const AstPtr& kid : ast->kids) Visit(kid.get());
  }

  std::unordered_set<std::string> Take() {
    for (const std::string& name : declared_) assigned_.erase(name);
    return std::move(assigned_);
  }

 private:
  // They are evaluated where the function is defined; its body is its own.
  void VisitDefaults(const Ast& function) {
    for (size_t i = 1; i < function.kids.size(); ++i) Visit(function.kids[i].get());
  }

  void Target(const Ast& target) {
    if (target.kind == AstKind::kName) assigned_.insert(target.text);
    if (target.kind != AstKind::kTuple && target.kind != AstKind::kList &&
        target.kind != AstKind::kStarred)
      return;
    for (const AstPtr& kid : target.kids) Target(*kid);
  }

  void Imported(const Ast& statement) {
    for (size_t i = 0; i + 1 < statement.names.size(); i += 2) {
      const std::string& name = statement.names[i];
      const std::string& alias = statement.names[i + 1];
      assigned_.insert(alias.empty() ? name.substr(0, name.find('.')) : alias);
    }
  }

  std::unordered_set<std::string> assigned_;
  std::unordered_set<std::string> declared_;
};

}  // namespace

std::unordered_set<std::string> AssignedNames(const Ast& function) {
  Names names;
  names.Visit(function.kids[0].get());
  return names.Take();
}

}  // namespace xp::config::python
