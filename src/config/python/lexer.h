// Python text into tokens, with INDENT and DEDENT, as the language reference's chapter 2 describes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exp/config/node.h"

namespace xp::config::python {

enum class TokenKind {
  kName,
  kInt,
  kFloat,
  kString,       // `text` is the decoded value
  kFString,      // `text` is the raw content between the quotes
  kPlaceholder,  // mmengine's {{_base_.a.b}}; `text` is "a.b"
  kOperator,
  kNewline,
  kIndent,
  kDedent,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int64_t integer = 0;  // a kInt; its digits are in `text` when it is 2^63 or more
  bool big = false;
  double number = 0;
  bool raw = false;  // an f-string with the prefix r
  int line = 1;
  int column = 1;
};

// Where the text starts within its file: expressions inside f-strings are lexed on their own.
struct Start {
  const std::string* source = nullptr;
  int line = 1;
  int column = 1;
  bool expression = false;  // line ends don't count
  // Replaces mmengine's placeholders in string literals when given.
  const std::filesystem::path* file = nullptr;
};

// Throws UsageError with file:line:column for what isn't Python, and for bytes and complex
// literals, which no config can hold.
std::vector<Token> Lex(std::string_view text, const Start& start);

// Decodes the escapes of a string literal's content.
std::string Unescape(std::string_view text, const Origin& at);

}  // namespace xp::config::python
