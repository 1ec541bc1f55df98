#include "src/config/python/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "src/config/placeholder.h"
#include "src/config/python/text_search.h"
#include "src/config/python/value.h"

namespace xp::config::python {
namespace {

bool NameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}
bool Digit(char c) { return c >= '0' && c <= '9'; }
bool NamePart(char c) { return NameStart(c) || Digit(c); }

// Longest first.
constexpr std::string_view kOperators[] = {
    "**=", "//=", ">>=", "<<=", "...", "**", "//", "==", "!=", "<=", ">=", "<<",
    ">>",  "+=",  "-=",  "*=",  "/=",  "%=", "&=", "|=", "^=", "->", ":=", "@=",
    "+",   "-",   "*",   "/",   "%",   "@",  "<",  ">",  "(",  ")",  "[",  "]",
    "{",   "}",   ",",   ":",   ".",   ";",  "=",  "&",  "|",  "^",  "~"};

constexpr size_t kMaxTokens = 5'000'000;
constexpr size_t kMaxIndents = 100;
constexpr size_t kMaxName = 1000;

class Lexer {
 public:
  Lexer(std::string_view text, const Start& start)
      : text_(text), start_(start), line_(start.line), column_(start.column) {}

  std::vector<Token> Run() {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    tokens_.reserve(text_.size() / 3);  // about what configs have
    bool line_start = !start_.expression;
    while (true) {
      if (line_start && !Indentation()) break;
      line_start = false;
      SkipSpace();
      if (at_ >= text_.size()) break;
      if (Peek() == '\n') {
        if (depth_ == 0 && !start_.expression) {
          Add(TokenKind::kNewline, "");
          line_start = true;
        }
        Advance(1);
        continue;
      }
      One();
    }
    if (!start_.expression && !tokens_.empty() && tokens_.back().kind != TokenKind::kNewline) {
      Add(TokenKind::kNewline, "");
    }
    for (; indents_.size() > 1; indents_.pop_back()) Add(TokenKind::kDedent, "");
    if (depth_ > 0) Fail("a bracket isn't closed", open_line_, open_column_);
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  struct Indent {
    size_t width = 0;       // with tabs of eight
    size_t characters = 0;  // with tabs of one
  };

  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void Advance(size_t count) {
    for (; count > 0 && at_ < text_.size(); --count, ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        column_ = 1;
      } else if ((static_cast<unsigned char>(text_[at_]) & 0xc0) != 0x80) {
        ++column_;
      }
    }
  }

  [[noreturn]] void Fail(const std::string& what, int line, int column,
                         const std::string& next = {}) const {
    throw UsageError({.what = what,
                      .where = Origin{start_.source, line, column}.Text(),
                      .expected = "",
                      .next = next});
  }
  [[noreturn]] void Fail(const std::string& what, const std::string& next = {}) const {
    Fail(what, line_, column_, next);
  }

  Token& Add(TokenKind kind, std::string text) {
    if (tokens_.size() >= kMaxTokens) Fail("the file has more than five million tokens");
    Token token;
    token.kind = kind;
    token.text = std::move(text);
    token.line = line_;
    token.column = column_;
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  // Reads the indentation of the next line that holds something; false at the end.
  bool Indentation() {
    while (true) {
      Indent indent;
      size_t at = at_;
      for (; at < text_.size() && (text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\f');
           ++at) {
        const bool tab = text_[at] == '\t';
        indent.width = tab ? indent.width / 8 * 8 + 8 : indent.width + 1;
        indent.characters += 1;
        if (text_[at] == '\f') indent = {};
      }
      if (at >= text_.size()) return false;
      char c = text_[at];
      if (c == '#' || c == '\n') {
        size_t end = text_.find('\n', at);
        Advance((end == std::string_view::npos ? text_.size() : end + 1) - at_);
        if (at_ >= text_.size()) return false;
        continue;
      }
      Advance(at - at_);
      if (Deeper(indent)) {
        if (indents_.size() > kMaxIndents) Fail("indented more than 100 levels deep");
        indents_.push_back(indent);
        Add(TokenKind::kIndent, "");
      }
      while (indent.width < indents_.back().width) {
        indents_.pop_back();
        Add(TokenKind::kDedent, "");
        if (Deeper(indent)) Fail("the indentation fits no line above");
      }
      return true;
    }
  }

  // Python's rule: what is deeper with tabs of eight must be so with tabs of one.
  bool Deeper(const Indent& indent) const {
    const Indent& open = indents_.back();
    const bool wider = indent.width > open.width;
    if (wider != (indent.characters > open.characters) ||
        (indent.width == open.width) != (indent.characters == open.characters))
      Fail("tabs and spaces are mixed in the indentation", "use spaces throughout");
    return wider;
  }

  void SkipSpace() {
    while (at_ < text_.size()) {
      char c = Peek();
      if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
        Advance(1);
      } else if (c == '\\' && Peek(1) == '\n') {
        Advance(2);
      } else if (c == '#') {
        size_t end = std::min(text_.find('\n', at_), text_.size());
        Advance(end - at_);
      } else {
        return;
      }
    }
  }

  void One() {
    if (Placeholder()) return;
    char c = Peek();
    if (Digit(c) || (c == '.' && Digit(Peek(1)))) return Number();
    if (c == '"' || c == '\'') return String(0);
    if (NameStart(c)) {
      size_t end = at_;
      while (end < text_.size() && NamePart(text_[end])) ++end;
      size_t length = end - at_;
      const bool quoted = end < text_.size() && (text_[end] == '"' || text_[end] == '\'');
      if (quoted && IsPrefix(text_.substr(at_, length))) return String(length);
      RequireName(text_.substr(at_, length));
      Add(TokenKind::kName, std::string(text_.substr(at_, length)));
      Advance(length);
      return;
    }
    // Most are brackets and commas: only a few characters begin or end a longer one.
    const bool single = std::string_view("=*/<>.:-").find(Peek(1)) == std::string_view::npos;
    for (std::string_view op : kOperators) {
      if (op.size() > 1 && single) continue;
      if (op[0] != c || text_.substr(at_, op.size()) != op) continue;
      Brackets(op[0]);
      Add(TokenKind::kOperator, std::string(op));
      Advance(op.size());
      return;
    }
    Fail(fmt::format("the character `{}` doesn't belong in Python", c));
  }

  // Signs and blanks beyond ASCII, as text processors and input methods leave them.
  void RequireName(std::string_view name) {
    if (name.size() > kMaxName) Fail("a name of more than 1,000 characters");
    if (std::all_of(name.begin(), name.end(),
                    [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; }))
      return;
    size_t at = 0;
    while (at < name.size()) {
      const std::string_view character = FirstCharacter(name.substr(at));
      const uint32_t code = CodePoint(character);
      const bool letter = code == 0xaa || code == 0xb5 || code == 0xb7 || code == 0xba ||
                          (code >= 0xff10 && code <= 0xff19) ||
                          (code >= 0xff21 && code <= 0xff3a) ||
                          (code >= 0xff41 && code <= 0xff5a) || (code >= 0xff66 && code <= 0xffdc);
      const bool sign = (code >= 0x80 && code <= 0xbf) || (code >= 0x2000 && code <= 0x206f) ||
                        (code >= 0x3000 && code <= 0x3004) || (code >= 0x3008 && code <= 0x3020) ||
                        code >= 0xfe00;
      if (sign && !letter && code < 0x10000) {
        Advance(at);
        Fail(fmt::format("the character `{}` (U+{:04X}) doesn't belong in Python", character, code),
             "write the sign or blank of ASCII");
      }
      at += character.size();
    }
  }

  void Brackets(char c) {
    if (c == '(' || c == '[' || c == '{') {
      if (depth_++ == 0) {
        open_line_ = line_;
        open_column_ = column_;
      }
    } else if (c == ')' || c == ']' || c == '}') {
      if (depth_-- == 0) Fail(fmt::format("`{}` closes nothing", c));
    }
  }

  // {{ _base_.a.b }}: mmengine replaces it in the text before Python sees it.
  bool Placeholder() {
    constexpr std::string_view kPrefix = "_base_.";
    if (Peek() != '{' || Peek(1) != '{') return false;
    if (PastedCode()) return true;
    size_t at = text_.find_first_not_of(" \t", at_ + 2);
    if (at == std::string_view::npos || text_.substr(at, kPrefix.size()) != kPrefix) return false;
    at += kPrefix.size();
    size_t end = at;
    while (end < text_.size() && (NamePart(text_[end]) || text_[end] == '.')) ++end;
    size_t close = text_.find_first_not_of(" \t", end);
    if (end == at || close == std::string_view::npos || text_.substr(close, 2) != "}}")
      return false;
    if (text_[end - 1] == '.') Fail("a name is missing after the dot");
    Add(TokenKind::kPlaceholder, std::string(text_.substr(at, end - at)));
    Advance(close + 2 - at_);
    return true;
  }

  // {{$NUM:80}} outside of quotes: its text is code.
  bool PastedCode() {
    std::string replacement;
    size_t length = 0;
    Origin here{start_.source, line_, column_};
    if (start_.file == nullptr ||
        !ReadPlaceholder(text_, at_, *start_.file, here, &replacement, &length))
      return false;
    Start inner = start_;
    inner.line = line_;
    inner.column = column_;
    inner.expression = true;
    inner.file = nullptr;
    std::vector<Token> pasted = Lex(replacement, inner);
    pasted.pop_back();  // the end
    tokens_.insert(tokens_.end(), pasted.begin(), pasted.end());
    Advance(length);
    return true;
  }

  void Number() {
    size_t end = at_;
    int base = 10;
    char second = static_cast<char>(std::tolower(Peek(1)));
    if (Peek() == '0' && (second == 'x' || second == 'o' || second == 'b')) {
      base = second == 'x' ? 16 : second == 'o' ? 8 : 2;
      end += 2;
      while (end < text_.size() && (std::isxdigit(text_[end]) != 0 || text_[end] == '_')) ++end;
    } else {
      auto digits = [&] {
        while (end < text_.size() && (Digit(text_[end]) || text_[end] == '_')) ++end;
      };
      digits();
      bool real = false;
      if (end < text_.size() && text_[end] == '.') {
        real = true;
        ++end;
        digits();
      }
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-'))
          ++exponent;
        if (exponent < text_.size() && Digit(text_[exponent])) {
          real = true;
          end = exponent;
          digits();
        }
      }
      if (real) base = 0;
    }
    std::string digits(text_.substr(at_, end - at_));
    for (size_t i = 0; i < digits.size(); ++i) {
      auto digit = [&](char c) {
        return base == 16 ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : Digit(c);
      };
      const bool after = i > 0 && (digit(digits[i - 1]) || (i == 2 && base != 10 && base != 0));
      const bool between = after && i + 1 < digits.size() && digit(digits[i + 1]);
      if (digits[i] == '_' && !between) Fail("not a number: " + digits.substr(0, 40));
    }
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    if (end < text_.size() && NamePart(text_[end])) {
      size_t name_end = end;
      while (name_end < text_.size() && NamePart(text_[name_end])) ++name_end;
      RequireName(text_.substr(at_, name_end - at_));
      const std::string_view name = text_.substr(end, name_end - end);
      static constexpr std::string_view kWords[] = {"and", "else", "for", "if",
                                                    "in",  "is",   "not", "or"};
      if (name == "j" || name == "J") Fail("complex numbers can't be config values");
      if (std::find(std::begin(kWords), std::end(kWords), name) == std::end(kWords))
        Fail("a number runs into a name");
    }
    if (base == 10 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
      Fail("an int can't begin with 0: " + digits.substr(0, 40),
           "drop the zeros, or write 0o for octal");
    }
    Token& token = Add(base == 0 ? TokenKind::kFloat : TokenKind::kInt, digits);
    if (base == 0) {
      token.number = std::strtod(digits.c_str(), nullptr);
    } else {
      Integer(token, digits, base);
    }
    Advance(end - at_);
  }

  void Integer(Token& token, const std::string& digits, int base) {
    size_t from = base == 10 ? 0 : 2;
    auto [end, error] =
        std::from_chars(digits.data() + from, digits.data() + digits.size(), token.integer, base);
    if (error == std::errc::result_out_of_range) {
      uint64_t large = 0;
      auto [stop, failed] =
          std::from_chars(digits.data() + from, digits.data() + digits.size(), large, base);
      if (failed != std::errc() || stop != digits.data() + digits.size())
        Fail("the int " + digits.substr(0, 40) + " doesn't fit into 64 bits");
      token.big = true;
      token.text = std::to_string(large);
      return;
    }
    if (error != std::errc() || end != digits.data() + digits.size())
      Fail("not a number: " + digits.substr(0, 40));
  }

  // What may stand before a string's quote: other names, as `in'abc'`, are words.
  static bool IsPrefix(std::string_view name) {
    static constexpr std::string_view kPrefixes[] = {"r", "u", "f", "b", "rf", "fr", "rb", "br"};
    std::string lower(name);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return std::find(std::begin(kPrefixes), std::end(kPrefixes), lower) != std::end(kPrefixes);
  }

  void String(size_t prefix_length) {
    const std::string_view prefix = text_.substr(at_, prefix_length);
    const bool raw = prefix.find_first_of("rR") != std::string_view::npos;
    const bool formatted = prefix.find_first_of("fF") != std::string_view::npos;
    if (prefix.find_first_of("bB") != std::string_view::npos)
      Fail("bytes can't be config values", "write a string without the prefix b");
    size_t open = at_ + prefix_length;
    char quote = text_[open];
    bool triple = text_.substr(open, 3) == std::string(3, quote);
    size_t from = open + (triple ? 3 : 1);
    size_t end = from;
    while (true) {
      if (end >= text_.size() || (!triple && text_[end] == '\n')) Fail("a string isn't closed");
      if (text_[end] == '\\') {
        end += 2;
        continue;
      }
      if (text_[end] == quote && (!triple || text_.substr(end, 3) == std::string(3, quote))) break;
      ++end;
    }
    std::string_view content = text_.substr(from, end - from);
    Token& token = Add(formatted ? TokenKind::kFString : TokenKind::kString, "");
    token.raw = raw;
    Origin at{start_.source, line_, column_};
    token.text = raw || formatted ? std::string(content) : Unescape(content, at);
    if (start_.file != nullptr && content.find("{{") != std::string_view::npos) {
      if (IsNullDefault(content)) token.kind = TokenKind::kName;
      token.text =
          token.kind == TokenKind::kName ? "None" : SubstituteText(token.text, *start_.file, at);
    }
    Advance(end + (triple ? 3 : 1) - at_);
  }

  std::string_view text_;
  Start start_;
  size_t at_ = 0;
  int line_;
  int column_;
  int depth_ = 0;
  int open_line_ = 0;
  int open_column_ = 0;
  std::vector<Indent> indents_{Indent{}};
  std::vector<Token> tokens_;
};

// Reads `count` hex digits (or up to 3 octal ones for base 8) at `at`; false when they aren't
// there.
bool ReadCode(std::string_view text, size_t at, size_t count, int base, uint32_t* code,
              size_t* used) {
  size_t end = at;
  while (end < text.size() && end - at < count && std::isxdigit(text[end]) != 0 &&
         (base == 16 || (text[end] >= '0' && text[end] <= '7'))) {
    ++end;
  }
  *used = end - at;
  if (base == 16 ? *used != count : *used == 0) return false;
  std::from_chars(text.data() + at, text.data() + end, *code, base);
  return *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
}

}  // namespace

std::string Unescape(std::string_view text, const Origin& at) {
  constexpr std::string_view kFrom = "n\\'\"tr0abfv";
  constexpr std::string_view kTo("\n\\'\"\t\r\0\a\b\f\v", 11);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    char c = text[++i];
    size_t which = kFrom.find(c);
    uint32_t code = 0;
    size_t used = 0;
    if (c == 'x' || c == 'u' || c == 'U') {
      size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      if (!ReadCode(text, i + 1, count, 16, &code, &used)) {
        throw UsageError(
            {.what = fmt::format("`\\{}` needs {} hex digits of a character", c, count),
             .where = at.Text()});
      }
      AppendUtf8(out, code);
      i += used;
    } else if (c >= '0' && c <= '7' && ReadCode(text, i, 3, 8, &code, &used)) {
      AppendUtf8(out, code);
      i += used - 1;
    } else if (c == 'N') {
      throw UsageError({.what = "`\\N` names a character",
                        .where = at.Text(),
                        .next = "write the character itself"});
    } else if (which != std::string_view::npos) {
      out += kTo[which];
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }
  return out;
}

std::vector<Token> Lex(std::string_view text, const Start& start) {
  return Lexer(text, start).Run();
}

}  // namespace xp::config::python
