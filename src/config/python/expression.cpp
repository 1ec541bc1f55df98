#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <unordered_set>

#include "exp/base/error.h"
#include "src/config/python/parser.h"
#include "src/config/python/parser_base.h"

namespace xp::config::python {
namespace {

constexpr int kMaxDepth = 500;  // of the tree; a sum of 400 parts is that deep

}  // namespace

bool ExpressionParser::Take(std::string_view text) {
  if (!Is(text)) return false;
  ++at_;
  return true;
}

void ExpressionParser::Expect(std::string_view text, const char* after) {
  if (!Take(text)) Fail(fmt::format("`{}` is missing {}", text, after));
}

bool ExpressionParser::IsKeyword(std::string_view name) {
  static constexpr std::string_view kKeywords[] = {
      "and",    "as",   "assert", "async",  "await",  "break",   "class",    "continue",
      "def",    "del",  "elif",   "else",   "except", "finally", "for",      "from",
      "global", "if",   "import", "in",     "is",     "lambda",  "nonlocal", "not",
      "or",     "pass", "raise",  "return", "try",    "while",   "with",     "yield"};
  const bool may_be = name.size() >= 2 && name.size() <= 8 && name[0] >= 'a' && name[0] <= 'y';
  return may_be && std::binary_search(std::begin(kKeywords), std::end(kKeywords), name);
}

std::string ExpressionParser::Name(const char* what) {
  const std::string& text = Peek().text;
  const bool constant = text == "None" || text == "True" || text == "False";
  if (Peek().kind == TokenKind::kName && (constant || IsKeyword(text)))
    Fail(fmt::format("`{}` can't be {}", text, what));
  if (Peek().kind != TokenKind::kName) Fail(fmt::format("{} is missing", what));
  return tokens_[at_++].text;
}

void ExpressionParser::Fail(const std::string& what, const std::string& next) const {
  const Token& token = Peek();
  throw UsageError({.what = what,
                    .where = Origin{source_, token.line, token.column}.Text(),
                    .expected = "",
                    .next = next});
}

AstPtr ExpressionParser::New(AstKind kind) const {
  auto ast = std::make_unique<Ast>();
  ast->kind = kind;
  ast->line = Peek().line;
  ast->column = Peek().column;
  return ast;
}

AstPtr ExpressionParser::NewAt(AstKind kind, const Ast& place) const {
  auto ast = std::make_unique<Ast>();
  ast->kind = kind;
  ast->line = place.line;
  ast->column = place.column;
  return ast;
}

void ExpressionParser::Add(Ast& parent, AstPtr kid) const {
  if (kid != nullptr) {
    parent.depth = std::max(parent.depth, kid->depth + 1);
    if (parent.depth > kMaxDepth) Fail("an expression with more than 500 levels");
  }
  parent.kids.push_back(std::move(kid));
}

void ExpressionParser::ExpectEnd() {
  if (Peek().kind != TokenKind::kEnd) Fail("text after the expression");
}

AstPtr ExpressionParser::ExpressionList(const Ast* bracket) {
  auto one = [&]() -> AstPtr {
    if (!Is("*")) return Expression();
    AstPtr star = New(AstKind::kStarred);
    ++at_;
    Add(*star, Binary(0));
    return star;
  };
  AstPtr first = one();
  if (!Is(",")) return first;
  AstPtr tuple = NewAt(AstKind::kTuple, bracket == nullptr ? *first : *bracket);
  Add(*tuple, std::move(first));
  while (Take(",")) {
    const Token& token = Peek();
    bool ends = token.kind == TokenKind::kNewline || token.kind == TokenKind::kEnd ||
                (token.kind == TokenKind::kOperator &&
                 (token.text == ")" || token.text == "]" || token.text == "}" ||
                  token.text == "=" || token.text == ":" || token.text == ";"));
    if (ends) break;
    Add(*tuple, one());
  }
  return tuple;
}

AstPtr ExpressionParser::Expression() {
  Nested nested(*this);
  if (Is("lambda")) return Lambda();
  if (Is("yield") || Is("await")) Fail(fmt::format("`{}` can't be used in a config", Peek().text));
  AstPtr value = Or();
  if (value->kind == AstKind::kName && Is(":=")) {
    AstPtr walrus = NewAt(AstKind::kWalrus, *value);
    ++at_;
    walrus->text = value->text;
    Add(*walrus, Expression());
    return walrus;
  }
  if (!Is("if")) return value;
  AstPtr conditional = NewAt(AstKind::kConditional, *value);
  ++at_;
  Add(*conditional, Or());
  Add(*conditional, std::move(value));
  Expect("else", "in a conditional expression");
  Add(*conditional, Expression());
  return conditional;
}

void ExpressionParser::Parameters(Ast& function, std::string_view end) {
  bool defaults = false;
  bool keyword_only = false;
  std::unordered_set<std::string> known;
  while (!Is(end)) {
    if (!function.names.empty() && function.names.back().rfind("**", 0) == 0)
      Fail("a parameter after **");
    if (Take("/")) {  // what stands before may not be named in a call: nothing to check here
      if (!Take(",")) break;
      continue;
    }
    std::string star = Is("*") || Is("**") ? tokens_[at_++].text : "";
    if (star == "*" && keyword_only) Fail("a second * among the parameters");
    bool bare = star == "*" && Is(",");
    const std::string name = bare ? "" : Name("a parameter's name");
    if (!bare && !known.insert(name).second)
      Fail(fmt::format("the parameter `{}` is named twice", name));
    function.names.push_back(star + name);
    keyword_only = keyword_only || star == "*";
    if (end == ")" && Take(":")) Expression();  // an annotation
    AstPtr fallback;
    if (star.empty() && Take("=")) {
      fallback = Expression();
      defaults = true;
    } else if (star.empty() && defaults && !keyword_only) {
      Fail("a parameter without default after one with a default");
    }
    Add(function, std::move(fallback));
    if (!Take(",")) break;
  }
}

AstPtr ExpressionParser::Lambda() {
  AstPtr lambda = New(AstKind::kLambda);
  ++at_;
  lambda->kids.push_back(nullptr);
  Parameters(*lambda, ":");
  Expect(":", "after lambda's parameters");
  AstPtr body = Expression();
  lambda->depth = std::max(lambda->depth, body->depth + 1);
  lambda->kids[0] = std::move(body);
  return lambda;
}

AstPtr ExpressionParser::Or() { return Chain("or", &ExpressionParser::And); }

AstPtr ExpressionParser::And() { return Chain("and", &ExpressionParser::Not); }

// Operands joined by `word`, from the left.
AstPtr ExpressionParser::Chain(const char* word, AstPtr (ExpressionParser::*operand)()) {
  AstPtr left = (this->*operand)();
  while (Is(word)) {
    AstPtr node = NewAt(AstKind::kBool, *left);
    node->text = tokens_[at_++].text;
    Add(*node, std::move(left));
    Add(*node, (this->*operand)());
    left = std::move(node);
  }
  return left;
}

AstPtr ExpressionParser::Not() {
  if (!Is("not")) return Comparison();
  Nested nested(*this);
  AstPtr node = New(AstKind::kUnary);
  node->text = "not";
  ++at_;
  Add(*node, Not());
  return node;
}

// The operator of a comparison that stands here, taken; "" when there is none.
std::string ExpressionParser::Comparator() {
  if (Is("not") && Peek(1).text == "in") {
    at_ += 2;
    return "not in";
  }
  if (Take("is")) return Take("not") ? "is not" : "is";
  for (std::string_view candidate : {"<", ">", "==", ">=", "<=", "!=", "in"}) {
    if (Take(candidate)) return std::string(candidate);
  }
  return "";
}

AstPtr ExpressionParser::Comparison() {
  AstPtr first = Binary(0);
  std::string op = Comparator();
  if (op.empty()) return first;
  AstPtr compare = NewAt(AstKind::kCompare, *first);
  Add(*compare, std::move(first));
  for (; !op.empty(); op = Comparator()) {
    compare->names.push_back(op);
    Add(*compare, Binary(0));
  }
  return compare;
}

// How tightly a binary operator binds, from 1; 0 for what isn't one.
int ExpressionParser::Precedence() const {
  if (Peek().kind != TokenKind::kOperator) return 0;
  const std::string& op = Peek().text;
  const bool single = op.size() == 1;
  switch (op[0]) {
    case '|':
      return single ? 1 : 0;
    case '^':
      return single ? 2 : 0;
    case '&':
      return single ? 3 : 0;
    case '<':
    case '>':
      return op == "<<" || op == ">>" ? 4 : 0;
    case '+':
    case '-':
      return single ? 5 : 0;
    case '*':
    case '%':
    case '@':
      return single ? 6 : 0;
    case '/':
      return single || op == "//" ? 6 : 0;
    default:
      return 0;
  }
}

// Operators that bind tighter than `level`, by precedence climbing.
AstPtr ExpressionParser::Binary(int level) {
  AstPtr left = Unary();
  for (int binds = Precedence(); binds > level; binds = Precedence()) {
    AstPtr node = NewAt(AstKind::kBinary, *left);
    node->text = tokens_[at_++].text;
    Add(*node, std::move(left));
    Add(*node, Binary(binds));
    left = std::move(node);
  }
  return left;
}

AstPtr ExpressionParser::Unary() {
  if (!Is("-") && !Is("+") && !Is("~")) return Power();
  Nested nested(*this);
  AstPtr node = New(AstKind::kUnary);
  node->text = tokens_[at_++].text;
  Add(*node, Unary());
  return node;
}

AstPtr ExpressionParser::Power() {
  AstPtr left = Primary();
  if (!Is("**")) return left;
  Nested nested(*this);
  AstPtr node = NewAt(AstKind::kBinary, *left);
  node->text = tokens_[at_++].text;
  Add(*node, std::move(left));
  Add(*node, Unary());
  return node;
}

AstPtr ExpressionParser::Primary() {
  AstPtr value = Atom();
  while (true) {
    if (Is("(")) {
      value = Call(std::move(value));
    } else if (Is("[")) {
      value = Subscript(std::move(value));
    } else if (Is(".")) {
      AstPtr node = NewAt(AstKind::kAttribute, *value);
      ++at_;
      node->text = Name("an attribute's name");
      Add(*node, std::move(value));
      value = std::move(node);
    } else {
      return value;
    }
  }
}

AstPtr ExpressionParser::Call(AstPtr function) {
  Nested nested(*this);
  AstPtr call = NewAt(AstKind::kCall, *function);
  Add(*call, std::move(function));
  ++at_;
  std::unordered_set<std::string> given;
  while (!Is(")")) {
    if (Is("**") || (Peek().kind == TokenKind::kName && Peek(1).kind == TokenKind::kOperator &&
                     Peek(1).text == "=")) {
      AstPtr keyword = New(AstKind::kKeyword);
      if (!Take("**")) {
        if (!given.insert(Peek().text).second)
          Fail(fmt::format("the argument `{}` is given twice", Peek().text));
        keyword->text = Name("an argument's name");
        ++at_;
      }
      Add(*keyword, Expression());
      Add(*call, std::move(keyword));
    } else if (Is("*")) {
      AstPtr star = New(AstKind::kStarred);
      ++at_;
      Add(*star, Expression());
      Add(*call, std::move(star));
    } else {
      if (call->kids.back()->kind == AstKind::kKeyword)
        Fail("an argument without a name after one with a name",
             "name it, or move it to the front");
      AstPtr value = Expression();
      if (Is("for")) {
        AstPtr generator = NewAt(AstKind::kGenerator, *value);
        Add(*generator, std::move(value));
        Clauses(*generator);
        value = std::move(generator);
      }
      Add(*call, std::move(value));
    }
    if (!Take(",")) break;
  }
  Expect(")", "or a comma after this argument");
  return call;
}

AstPtr ExpressionParser::Index() {
  AstPtr slice = New(AstKind::kSlice);
  AstPtr from = Is(":") ? nullptr : Expression();
  if (!Is(":")) return from;
  Add(*slice, std::move(from));
  for (int part = 0; part < 2; ++part) {
    bool more = Take(":");
    Add(*slice, !more || Is(":") || Is("]") || Is(",") ? nullptr : Expression());
  }
  return slice;
}

AstPtr ExpressionParser::Subscript(AstPtr object) {
  Nested nested(*this);
  AstPtr node = NewAt(AstKind::kSubscript, *object);
  Add(*node, std::move(object));
  ++at_;
  AstPtr index = Index();
  if (Is(",")) {
    AstPtr tuple = NewAt(AstKind::kTuple, *index);
    Add(*tuple, std::move(index));
    while (Take(",")) {
      if (Is("]")) break;
      Add(*tuple, Index());
    }
    index = std::move(tuple);
  }
  Add(*node, std::move(index));
  Expect("]", "after the index");
  return node;
}

AstPtr ParseExpression(std::string_view text, const std::string* source, int line, int column) {
  Start start{source, line, column, true};
  ExpressionParser parser(Lex(text, start), source);
  AstPtr value = parser.ExpressionList();
  parser.ExpectEnd();
  return value;
}

}  // namespace xp::config::python
