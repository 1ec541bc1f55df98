#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "exp/base/error.h"
#include "src/config/python/parser.h"
#include "src/config/python/parser_base.h"

namespace xp::config::python {
namespace {

constexpr int kMaxNesting = 100;  // brackets, lambdas and conditionals inside each other
constexpr int kMaxDepth = 500;    // of the tree; a sum of 400 parts is that deep

constexpr std::string_view kKeywords[] = {
    "and",    "as",   "assert", "async",  "await",  "break",   "class",    "continue",
    "def",    "del",  "elif",   "else",   "except", "finally", "for",      "from",
    "global", "if",   "import", "in",     "is",     "lambda",  "nonlocal", "not",
    "or",     "pass", "raise",  "return", "try",    "while",   "with",     "yield"};

bool IsKeyword(std::string_view name) {
  return std::find(std::begin(kKeywords), std::end(kKeywords), name) != std::end(kKeywords);
}

}  // namespace

struct ExpressionParser::Nested {
  explicit Nested(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxNesting) parser_.Fail("nested more than 100 levels deep");
  }
  ~Nested() { --parser_.nesting_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  ExpressionParser& parser_;
};

bool ExpressionParser::Is(std::string_view text) const {
  const Token& token = Peek();
  return (token.kind == TokenKind::kOperator || token.kind == TokenKind::kName) &&
         token.text == text;
}

bool ExpressionParser::Take(std::string_view text) {
  if (!Is(text)) return false;
  ++at_;
  return true;
}

void ExpressionParser::Expect(std::string_view text, const char* after) {
  if (!Take(text)) Fail(fmt::format("`{}` is missing {}", text, after));
}

std::string ExpressionParser::Name(const char* what) {
  if (Peek().kind != TokenKind::kName || IsKeyword(Peek().text))
    Fail(fmt::format("{} is missing", what));
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

AstPtr ExpressionParser::ExpressionList() {
  auto one = [&]() -> AstPtr {
    if (!Is("*")) return Expression();
    AstPtr star = New(AstKind::kStarred);
    ++at_;
    Add(*star, Binary(0));
    return star;
  };
  AstPtr first = one();
  if (!Is(",")) return first;
  AstPtr tuple = NewAt(AstKind::kTuple, *first);
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
  while (!Is(end)) {
    if (Is("*") || Is("**") || Is("/")) Fail("functions in a config take plain parameters only");
    function.names.push_back(Name("a parameter's name"));
    if (end == ")" && Take(":")) Expression();  // an annotation
    if (Take("=")) {
      Add(function, Expression());
    } else if (function.kids.size() > 1) {
      Fail("a parameter without default after one with a default");
    }
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

AstPtr ExpressionParser::Or() {
  AstPtr left = And();
  while (Is("or")) {
    AstPtr node = NewAt(AstKind::kBool, *left);
    node->text = tokens_[at_++].text;
    Add(*node, std::move(left));
    Add(*node, And());
    left = std::move(node);
  }
  return left;
}

AstPtr ExpressionParser::And() {
  AstPtr left = Not();
  while (Is("and")) {
    AstPtr node = NewAt(AstKind::kBool, *left);
    node->text = tokens_[at_++].text;
    Add(*node, std::move(left));
    Add(*node, Not());
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

AstPtr ExpressionParser::Comparison() {
  AstPtr first = Binary(0);
  AstPtr compare;
  while (true) {
    std::string op;
    if (Is("not") && Peek(1).text == "in") {
      op = "not in";
      at_ += 2;
    } else if (Is("is")) {
      op = "is";
      ++at_;
      if (Take("not")) op = "is not";
    } else {
      for (std::string_view candidate : {"<", ">", "==", ">=", "<=", "!=", "in"}) {
        if (Is(candidate)) op = candidate;
      }
      if (op.empty()) break;
      ++at_;
    }
    if (compare == nullptr) {
      compare = NewAt(AstKind::kCompare, *first);
      Add(*compare, std::move(first));
    }
    compare->names.push_back(op);
    Add(*compare, Binary(0));
  }
  return compare != nullptr ? std::move(compare) : std::move(first);
}

AstPtr ExpressionParser::Binary(int level) {
  static const std::vector<std::string_view> kLevels[] = {
      {"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%", "@"}};
  if (level == static_cast<int>(std::size(kLevels))) return Unary();
  AstPtr left = Binary(level + 1);
  while (true) {
    bool found = false;
    for (std::string_view op : kLevels[level])
      found = found || (Peek().kind == TokenKind::kOperator && Is(op));
    if (!found) return left;
    AstPtr node = NewAt(AstKind::kBinary, *left);
    node->text = tokens_[at_++].text;
    Add(*node, std::move(left));
    Add(*node, Binary(level + 1));
    left = std::move(node);
  }
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
  while (!Is(")")) {
    if (Is("**") || (Peek().kind == TokenKind::kName && Peek(1).kind == TokenKind::kOperator &&
                     Peek(1).text == "=")) {
      AstPtr keyword = New(AstKind::kKeyword);
      if (!Take("**")) {
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
  Expect(")", "after the arguments");
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

void ExpressionParser::Clauses(Ast& comprehension) {
  while (Is("for")) {
    AstPtr clause = New(AstKind::kClause);
    ++at_;
    Add(*clause, Targets());
    Expect("in", "in a comprehension");
    Add(*clause, Or());
    while (Take("if")) Add(*clause, Or());
    Add(comprehension, std::move(clause));
  }
  if (Is("async")) Fail("`async` can't be used in a config");
}

AstPtr ExpressionParser::Targets() {
  AstPtr first = Is("*") ? nullptr : Primary();
  if (first != nullptr && !Is(",")) return first;
  AstPtr tuple = New(AstKind::kTuple);
  if (first != nullptr) {
    Add(*tuple, std::move(first));
    ++at_;
  }
  while (!Is("in")) {
    if (Is("*")) {
      AstPtr star = New(AstKind::kStarred);
      ++at_;
      Add(*star, Primary());
      Add(*tuple, std::move(star));
    } else {
      Add(*tuple, Primary());
    }
    if (!Take(",")) break;
  }
  return tuple;
}

AstPtr ExpressionParser::Atom() {
  const Token& token = Peek();
  switch (token.kind) {
    case TokenKind::kInt: {
      AstPtr node = New(AstKind::kInt);
      node->integer = token.integer;
      ++at_;
      return node;
    }
    case TokenKind::kFloat: {
      AstPtr node = New(AstKind::kFloat);
      node->number = token.number;
      ++at_;
      return node;
    }
    case TokenKind::kString:
    case TokenKind::kFString:
      return Strings();
    case TokenKind::kPlaceholder: {
      AstPtr node = New(AstKind::kPlaceholder);
      node->text = token.text;
      ++at_;
      return node;
    }
    case TokenKind::kName: {
      AstKind kind = token.text == "None"    ? AstKind::kNone
                     : token.text == "True"  ? AstKind::kTrue
                     : token.text == "False" ? AstKind::kFalse
                                             : AstKind::kName;
      if (IsKeyword(token.text)) Fail(fmt::format("`{}` stands where a value should", token.text));
      AstPtr node = New(kind);
      node->text = token.text;
      ++at_;
      return node;
    }
    case TokenKind::kOperator:
      if (token.text == "(") return Parenthesis();
      if (token.text == "[") return ListDisplay();
      if (token.text == "{") return Braces();
      if (token.text == "...") {
        AstPtr node = New(AstKind::kEllipsis);
        ++at_;
        return node;
      }
      Fail(fmt::format("`{}` stands where a value should", token.text));
    default:
      Fail("a value is missing");
  }
}

AstPtr ExpressionParser::Parenthesis() {
  Nested nested(*this);
  AstPtr place = New(AstKind::kTuple);
  ++at_;
  if (Take(")")) return place;
  AstPtr value = ExpressionList();
  if (Is("for")) {
    AstPtr generator = NewAt(AstKind::kGenerator, *place);
    Add(*generator, std::move(value));
    Clauses(*generator);
    value = std::move(generator);
  }
  if (Is(":=")) Fail("`:=` can't be used in a config");
  Expect(")", "to close the bracket");
  return value;
}

AstPtr ExpressionParser::ListDisplay() {
  Nested nested(*this);
  AstPtr list = New(AstKind::kList);
  ++at_;
  while (!Is("]")) {
    AstPtr value;
    if (Is("*")) {
      value = New(AstKind::kStarred);
      ++at_;
      Add(*value, Binary(0));
    } else {
      value = Expression();
    }
    Add(*list, std::move(value));
    if (list->kids.size() == 1 && Is("for")) {
      list->kind = AstKind::kListComp;
      Clauses(*list);
      break;
    }
    if (!Take(",")) break;
  }
  Expect("]", "to close the list");
  return list;
}

AstPtr ExpressionParser::Braces() {
  Nested nested(*this);
  AstPtr braces = New(AstKind::kDict);
  ++at_;
  if (Take("}")) return braces;
  bool first = true;
  while (!Is("}")) {
    if (Take("**")) {
      Add(*braces, nullptr);
      Add(*braces, Binary(0));
    } else {
      AstPtr key;
      if (Is("*")) {
        key = New(AstKind::kStarred);
        ++at_;
        Add(*key, Binary(0));
      } else {
        key = Expression();
      }
      if (first && !Is(":")) braces->kind = AstKind::kSet;
      Add(*braces, std::move(key));
      if (braces->kind == AstKind::kDict) {
        Expect(":", "after a key");
        Add(*braces, Expression());
      }
      if (first && Is("for")) {
        braces->kind = braces->kind == AstKind::kSet ? AstKind::kSetComp : AstKind::kDictComp;
        Clauses(*braces);
        break;
      }
    }
    first = false;
    if (!Take(",")) break;
  }
  Expect("}", "to close the bracket");
  return braces;
}

AstPtr ExpressionParser::Strings() {
  AstPtr node = New(AstKind::kString);
  while (Peek().kind == TokenKind::kString || Peek().kind == TokenKind::kFString) {
    const Token token = Peek();
    if (token.kind == TokenKind::kFString) {
      AstPtr formatted = FString(token);
      if (node->kind == AstKind::kString) {
        AstPtr joined = NewAt(AstKind::kFString, *node);
        if (!node->text.empty()) Add(*joined, std::move(node));
        node = std::move(joined);
      }
      for (AstPtr& kid : formatted->kids) Add(*node, std::move(kid));
    } else if (node->kind == AstKind::kString) {
      node->text += token.text;
    } else {
      AstPtr text = New(AstKind::kString);
      text->text = token.text;
      Add(*node, std::move(text));
    }
    ++at_;
  }
  return node;
}

AstPtr ExpressionParser::FString(const Token& token) {
  AstPtr node = New(AstKind::kFString);
  FStringInto(*node, token.text, token, 0, 0);
  return node;
}

// `base`: where `text` starts within the token, for places.
void ExpressionParser::FStringInto(Ast& parent, std::string_view text, const Token& token,
                                   size_t base, int depth) {
  if (depth > 2) Fail("an f-string nested too deeply");
  std::string literal;
  auto flush = [&] {
    if (literal.empty()) return;
    AstPtr part = New(AstKind::kString);
    part->text = token.raw ? literal : Unescape(literal, Origin{source_, token.line, token.column});
    literal.clear();
    Add(parent, std::move(part));
  };
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    bool doubled = at + 1 < text.size() && text[at + 1] == c;
    if ((c == '{' || c == '}') && doubled) {
      literal += c;
      at += 2;
    } else if (c == '{') {
      flush();
      at = FStringField(parent, text, at + 1, token, base, depth);
    } else if (c == '}') {
      Fail("a single } in an f-string", "write }} for a literal brace");
    } else {
      literal += c;
      ++at;
    }
  }
  flush();
}

// Reads one {value!r:spec} from after its brace; returns the position after it.
size_t ExpressionParser::FStringField(Ast& parent, std::string_view text, size_t at,
                                      const Token& token, size_t base, int depth) {
  size_t end = at;
  int brackets = 0;
  char quote = 0;
  for (; end < text.size(); ++end) {
    char c = text[end];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++brackets;
    } else if (brackets > 0 && (c == ')' || c == ']' || c == '}')) {
      --brackets;
    } else if (brackets == 0 && (c == '}' || c == ':' ||
                                 (c == '!' && end + 1 < text.size() && text[end + 1] != '='))) {
      break;
    }
  }
  if (end >= text.size()) Fail("a { in an f-string isn't closed");
  AstPtr field = New(AstKind::kFormatted);
  std::string_view expression = text.substr(at, end - at);
  bool debug = !expression.empty() && expression.back() == '=';
  if (debug) Fail("`=` in an f-string's braces can't be used in a config");
  int column = token.column + static_cast<int>(base + at) + 2;
  Add(*field, ParseExpression(expression, source_, token.line, column));
  if (text[end] == '!') {
    field->text = text.substr(end + 1, 1);
    end += 2;
  }
  if (end < text.size() && text[end] == ':') {
    size_t spec = end + 1;
    int open = 0;
    for (end = spec; end < text.size() && (open > 0 || text[end] != '}'); ++end) {
      open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
    }
    AstPtr parts = New(AstKind::kFString);
    FStringInto(*parts, text.substr(spec, end - spec), token, base + spec, depth + 1);
    Add(*field, std::move(parts));
  } else {
    Add(*field, nullptr);
  }
  if (end >= text.size() || text[end] != '}') Fail("a { in an f-string isn't closed");
  Add(parent, std::move(field));
  return end + 1;
}

AstPtr ParseExpression(std::string_view text, const std::string* source, int line, int column) {
  Start start{source, line, column, true};
  ExpressionParser parser(Lex(text, start), source);
  AstPtr value = parser.ExpressionList();
  parser.ExpectEnd();
  return value;
}

}  // namespace xp::config::python
