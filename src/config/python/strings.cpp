// String literals side by side, f-strings.
#include <fmt/format.h>

#include "src/config/placeholder.h"
#include "src/config/python/parser.h"
#include "src/config/python/parser_base.h"

namespace xp::config::python {

AstPtr ExpressionParser::Strings() {
  AstPtr node = New(AstKind::kString);
  while (Peek().kind == TokenKind::kString || Peek().kind == TokenKind::kFString) {
    const Token token = Peek();
    const bool marked =
        token.kind == TokenKind::kString && token.text.find("{{") != std::string::npos;
    AstPtr formatted;
    if (token.kind == TokenKind::kFString) {
      formatted = FString(token);
    } else if (marked) {
      formatted = BaseMarks(token.text);
    }
    if (formatted != nullptr) {
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

// 'x{{_base_.a.b}}y': the base's value as text, which mmengine's own substitution garbles. Null
// when there is none.
AstPtr ExpressionParser::BaseMarks(const std::string& text) const {
  AstPtr node;
  size_t done = 0;
  auto literal = [&](size_t end) {
    if (end == done) return;
    AstPtr part = New(AstKind::kString);
    part->text = text.substr(done, end - done);
    Add(*node, std::move(part));
  };
  for (size_t open = text.find("{{"); open != std::string::npos; open = text.find("{{", open + 1)) {
    size_t length = 0;
    std::string_view name = ReadName(text, open, &length);
    if (name.rfind("_base_.", 0) != 0 || name.size() == 7) continue;
    if (node == nullptr) node = New(AstKind::kFString);
    literal(open);
    AstPtr mark = New(AstKind::kPlaceholder);
    mark->text = name.substr(7);
    AstPtr field = New(AstKind::kFormatted);
    Add(*field, std::move(mark));
    Add(*field, nullptr);
    Add(*node, std::move(field));
    done = open + length;
  }
  if (node != nullptr) literal(text.size());
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
    } else if (c == '#') {
      Fail("a # in an f-string's braces, where no comment can stand");
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
  size_t last = expression.find_last_not_of(' ');
  bool debug = last != std::string_view::npos && last > 0 && expression[last] == '=' &&
               std::string_view("=!<>").find(expression[last - 1]) == std::string_view::npos;
  if (debug) {  // f"{x=}": the text itself, then the value's repr
    AstPtr text_itself = New(AstKind::kString);
    text_itself->text = expression;
    Add(parent, std::move(text_itself));
    expression = expression.substr(0, last);
    if (text[end] == '}') field->text = "r";
  }
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

}  // namespace xp::config::python
