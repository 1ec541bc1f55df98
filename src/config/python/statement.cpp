#include <fmt/format.h>

#include "exp/base/error.h"
#include "src/config/python/parser.h"
#include "src/config/python/parser_base.h"

namespace xp::config::python {
namespace {

constexpr int kMaxBlocks = 50;

class ModuleParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  AstPtr Module() {
    AstPtr module = New(AstKind::kModule);
    while (Peek().kind != TokenKind::kEnd) {
      if (Peek().kind == TokenKind::kNewline) {
        ++at_;
        continue;
      }
      if (Peek().kind == TokenKind::kIndent) Fail("unexpected indentation");
      Statement(*module);
    }
    return module;
  }

 private:
  [[noreturn]] void Refuse(const std::string& construct) const {
    Fail(construct + " can't be used in a config",
         "configs are evaluated without running Python; write the value out");
  }

  void Statement(Ast& block) {
    static constexpr std::string_view kRefused[] = {"class", "try", "async", "await", "yield", "@"};
    for (std::string_view word : kRefused) {
      if (Is(word)) Refuse(word == "@" ? "a decorator" : fmt::format("`{}`", word));
    }
    if (IsMatch()) Refuse("`match`");
    if (Is("if")) return Add(block, If());
    if (Is("for")) return Add(block, For());
    if (Is("while")) return Add(block, While());
    if (Is("def")) return Add(block, Function());
    if (Is("with")) return Add(block, With());
    do {
      if (Peek().kind == TokenKind::kNewline) break;
      Add(block, Simple());
    } while (Take(";"));
    EndLine();
  }

  bool LineEnds() const {
    return Peek().kind == TokenKind::kNewline || Peek().kind == TokenKind::kEnd || Is(";");
  }

  // `match` is a name too: a statement is what has a block of `case`s.
  bool IsMatch() const {
    if (!Is("match")) return false;
    size_t end = 1;
    while (Peek(end).kind != TokenKind::kNewline && Peek(end).kind != TokenKind::kEnd) ++end;
    return Peek(end - 1).text == ":" && Peek(end + 1).kind == TokenKind::kIndent &&
           Peek(end + 2).text == "case";
  }

  void EndLine() {
    if (Peek().kind == TokenKind::kEnd) return;
    if (Peek().kind != TokenKind::kNewline) Fail("text after the statement");
    ++at_;
  }

  AstPtr Block() {
    if (++blocks_ > kMaxBlocks) Fail("blocks nested more than 50 levels deep");
    Expect(":", "before the block");
    AstPtr block = New(AstKind::kBlock);
    if (Peek().kind != TokenKind::kNewline) {
      do {
        if (Peek().kind == TokenKind::kNewline) break;
        Add(*block, Simple());
      } while (Take(";"));
      EndLine();
    } else {
      while (Peek().kind == TokenKind::kNewline) ++at_;
      if (Peek().kind != TokenKind::kIndent) Fail("an indented block is missing");
      ++at_;
      while (Peek().kind != TokenKind::kDedent && Peek().kind != TokenKind::kEnd) {
        if (Peek().kind == TokenKind::kNewline) {
          ++at_;
        } else {
          Statement(*block);
        }
      }
      if (Peek().kind == TokenKind::kDedent) ++at_;
    }
    --blocks_;
    return block;
  }

  AstPtr If() {
    AstPtr node = New(AstKind::kIf);
    do {
      ++at_;
      Add(*node, Expression());
      Add(*node, Block());
    } while (Is("elif"));
    Add(*node, Take("else") ? Block() : nullptr);
    return node;
  }

  AstPtr For() {
    AstPtr node = New(AstKind::kFor);
    ++at_;
    Add(*node, Targets());
    Expect("in", "in `for`");
    Add(*node, ExpressionList());
    Add(*node, Block());
    Add(*node, Take("else") ? Block() : nullptr);
    return node;
  }

  AstPtr While() {
    AstPtr node = New(AstKind::kWhile);
    ++at_;
    Add(*node, Expression());
    Add(*node, Block());
    Add(*node, Take("else") ? Block() : nullptr);
    return node;
  }

  AstPtr Function() {
    AstPtr node = New(AstKind::kFunction);
    ++at_;
    node->text = Name("the function's name");
    Expect("(", "after the function's name");
    node->kids.push_back(nullptr);
    Parameters(*node, ")");
    Expect(")", "after the parameters");
    if (Take("->")) Expression();
    AstPtr body = Block();
    node->depth = std::max(node->depth, body->depth + 1);
    node->kids[0] = std::move(body);
    return node;
  }

  AstPtr With() {
    AstPtr node = New(AstKind::kWith);
    ++at_;
    Add(*node, Expression());
    if (Is("as") || Is(",")) Refuse("`with` of anything but read_base()");
    Add(*node, Block());
    return node;
  }

  AstPtr Simple() {
    if (Is("pass") || Is("break") || Is("continue")) {
      AstPtr node = New(Is("pass")    ? AstKind::kPass
                        : Is("break") ? AstKind::kBreak
                                      : AstKind::kContinue);
      ++at_;
      return node;
    }
    if (Is("global") || Is("nonlocal")) return Global();
    if (Is("import")) return Import();
    if (Is("from")) return ImportFrom();
    if (Is("del") || Is("return") || Is("assert")) return Keyword();
    if (Is("raise")) return Raise();
    return AssignOrExpression();
  }

  AstPtr Global() {
    AstPtr node = New(AstKind::kGlobal);
    node->text = tokens_[at_++].text;
    do {
      node->names.push_back(Name("a name"));
    } while (Take(","));
    return node;
  }

  AstPtr Keyword() {
    bool is_delete = Is("del");
    bool is_return = Is("return");
    AstPtr node = New(is_delete   ? AstKind::kDelete
                      : is_return ? AstKind::kReturn
                                  : AstKind::kAssert);
    ++at_;
    if (is_return) {
      Add(*node, LineEnds() ? nullptr : ExpressionList());
      return node;
    }
    Add(*node, is_delete ? ExpressionList() : Expression());
    if (!is_delete) Add(*node, Take(",") ? Expression() : nullptr);
    return node;
  }

  AstPtr Raise() {
    AstPtr node = New(AstKind::kRaise);
    ++at_;
    Add(*node, LineEnds() ? nullptr : Expression());
    if (Take("from")) Expression();
    return node;
  }

  AstPtr AssignOrExpression() {
    AstPtr first = ExpressionList();
    static constexpr std::string_view kAugmented[] = {
        "+=", "-=", "*=", "/=", "//=", "%=", "**=", "<<=", ">>=", "&=", "|=", "^="};
    for (std::string_view op : kAugmented) {
      if (!Is(op)) continue;
      AstPtr node = NewAt(AstKind::kAugAssign, *first);
      node->text = op.substr(0, op.size() - 1);
      ++at_;
      Add(*node, std::move(first));
      Add(*node, ExpressionList());
      return node;
    }
    const bool annotated = Take(":");
    if (annotated) {
      Expression();
      if (!Is("=")) return New(AstKind::kPass);
    }
    if (!Is("=")) {
      AstPtr node = NewAt(AstKind::kExpression, *first);
      Add(*node, std::move(first));
      return node;
    }
    AstPtr node = NewAt(AstKind::kAssign, *first);
    if (annotated) node->text = "annotated";
    std::vector<AstPtr> parts;
    parts.push_back(std::move(first));
    while (Take("=")) parts.push_back(ExpressionList());
    Add(*node, std::move(parts.back()));
    parts.pop_back();
    for (AstPtr& target : parts) Add(*node, std::move(target));
    return node;
  }

  std::string Dotted() {
    std::string name = Name("a module's name");
    while (Take(".")) name += "." + Name("a module's name");
    return name;
  }

  AstPtr Import() {
    AstPtr node = New(AstKind::kImport);
    ++at_;
    do {
      node->names.push_back(Dotted());
      node->names.push_back(Take("as") ? Name("an alias") : "");
    } while (Take(","));
    return node;
  }

  AstPtr ImportFrom() {
    AstPtr node = New(AstKind::kImportFrom);
    ++at_;
    while (Is(".") || Is("...")) node->text += tokens_[at_++].text;
    if (!Is("import")) node->text += Dotted();
    Expect("import", "after the module's name");
    bool bracket = Take("(");
    do {
      if (bracket && Is(")")) break;
      if (Take("*")) {
        node->names.emplace_back("*");
        node->names.emplace_back();
      } else {
        node->names.push_back(Name("a name to import"));
        node->names.push_back(Take("as") ? Name("an alias") : "");
      }
    } while (Take(","));
    if (bracket) Expect(")", "after the imported names");
    return node;
  }

  int blocks_ = 0;
};

// CRLF and CR end lines as LF does, within strings too, as when Python reads a file.
std::string UniversalNewlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  return out;
}

}  // namespace

AstPtr ParseModule(std::string_view text, const std::string* source,
                   const std::filesystem::path& file) {
  Start start;
  start.source = source;
  start.file = &file;
  return ModuleParser(Lex(UniversalNewlines(text), start), source).Module();
}

}  // namespace xp::config::python
