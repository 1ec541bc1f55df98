// Atoms: names, numbers, brackets of all kinds, comprehensions.
#include <fmt/format.h>

#include "src/config/python/parser_base.h"

namespace xp::config::python {

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
      if (token.big) node->text = token.text;
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
  AstPtr value = ExpressionList(place.get());
  if (Is("for")) {
    AstPtr generator = NewAt(AstKind::kGenerator, *place);
    Add(*generator, std::move(value));
    Clauses(*generator);
    value = std::move(generator);
  }
  Expect(")", "or a comma to go on");
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
  Expect("]", "or a comma to go on");
  return list;
}

AstPtr ExpressionParser::Braces() {
  Nested nested(*this);
  AstPtr braces = New(AstKind::kDict);
  ++at_;
  if (Take("}")) return braces;
  bool first = true;
  while (!Is("}")) {
    if (braces->kind == AstKind::kDict && Take("**")) {
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
  Expect("}", "or a comma to go on");
  return braces;
}

}  // namespace xp::config::python
