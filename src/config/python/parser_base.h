// What the expression and the statement half of the parser share.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/python/ast.h"
#include "src/config/python/lexer.h"

namespace xp::config::python {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, const std::string* source)
      : tokens_(std::move(tokens)), source_(source) {}

  // Everything up to a comma or the end of the construct.
  AstPtr Expression();
  // One or more expressions; several make a tuple, which begins at `bracket` when it stands in one.
  // `*x` may be among them.
  AstPtr ExpressionList(const Ast* bracket = nullptr);
  void ExpectEnd();

 protected:
  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  // An operator or keyword. Asked several times a token: the first letter decides nearly always.
  bool Is(std::string_view text) const {
    const Token& token = Peek();
    return (token.kind == TokenKind::kOperator || token.kind == TokenKind::kName) &&
           token.text[0] == text[0] && token.text == text;
  }
  bool Take(std::string_view text);
  void Expect(std::string_view text, const char* after);
  std::string Name(const char* what);
  [[noreturn]] void Fail(const std::string& what, const std::string& next = {}) const;
  AstPtr New(AstKind kind) const;
  AstPtr NewAt(AstKind kind, const Ast& place) const;
  void Add(Ast& parent, AstPtr kid) const;
  AstPtr Targets();  // what `for` assigns to
  void Parameters(Ast& function, std::string_view end);

  std::vector<Token> tokens_;
  const std::string* source_;
  size_t at_ = 0;
  int nesting_ = 0;

 private:
  static constexpr int kMaxNesting = 200;  // a bracket counts twice: itself and the value in it

  struct Nested {
    explicit Nested(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.Fail("nested more than 100 levels deep");
    }
    ~Nested() { --parser_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ExpressionParser& parser_;
  };

  static bool IsKeyword(std::string_view name);
  AstPtr Lambda();
  AstPtr Or();
  AstPtr And();
  AstPtr Chain(const char* word, AstPtr (ExpressionParser::*operand)());
  AstPtr Not();
  AstPtr Comparison();
  std::string Comparator();
  int Precedence() const;
  AstPtr Binary(int level);
  AstPtr Unary();
  AstPtr Power();
  AstPtr Primary();
  AstPtr Call(AstPtr function);
  AstPtr Subscript(AstPtr object);
  AstPtr Index();
  AstPtr Atom();
  AstPtr Strings();
  AstPtr BaseMarks(const std::string& text) const;
  AstPtr FString(const Token& token);
  void FStringInto(Ast& parent, std::string_view text, const Token& token, size_t base, int depth);
  size_t FStringField(Ast& parent, std::string_view text, size_t at, const Token& token,
                      size_t base, int depth);
  AstPtr Parenthesis();
  AstPtr ListDisplay();
  AstPtr Braces();
  void Clauses(Ast& comprehension);
};

}  // namespace xp::config::python
