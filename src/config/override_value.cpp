// The value part of `--set k=v`.
#include <fmt/format.h>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "src/config/override.h"
#include "src/config/scalar.h"

namespace xp::config {
namespace {

constexpr int kMaxDepth = 50;

class ValueParser {
 public:
  ValueParser(std::string_view text, const std::string& source, std::string* warning)
      : text_(text), source_(source), warning_(warning) {}

  Node Whole() {
    Skip();
    char first = Peek();
    if (first != '[' && first != '(' && first != '{' && first != '"' && first != '\'') {
      // Anything else is one scalar, as it stands: `a b` keeps its space, `a,b` its comma.
      std::string_view rest = text_.substr(at_);
      rest = rest.substr(0, rest.find_last_not_of(" \t\r\n") + 1);
      return ResolveScalar(rest, ScalarStyle::kOverride, warning_);
    }
    Node value = Value(0);
    Skip();
    if (at_ != text_.size()) Fail("text after the value");
    return value;
  }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }

  [[noreturn]] void Fail(const std::string& what) const {
    throw UsageError({.what = fmt::format("{} at character {} of the value `{}`", what, at_ + 1,
                                          Abridged(text_, 80)),
                      .where = source_,
                      .expected = "a scalar, [1, 2], (1, 2), {a: 1} or a quoted string"});
  }

  Node Value(int depth) {
    if (depth > kMaxDepth) Fail("nested more than 50 levels deep");
    Skip();
    switch (Peek()) {
      case '[':
        return List(']', depth);
      case '(':
        return List(')', depth);
      case '{':
        return Dict(depth);
      case '"':
      case '\'':
        return Node(Quoted());
      default:
        return ResolveScalar(Plain(",]})"), ScalarStyle::kOverride, warning_);
    }
  }

  std::string_view Plain(std::string_view stops) {
    size_t end = text_.find_first_of(stops, at_);
    if (end == std::string_view::npos) end = text_.size();
    std::string_view plain = text_.substr(at_, end - at_);
    plain = plain.substr(0, plain.find_last_not_of(" \t\r\n") + 1);
    if (plain.empty()) Fail("a value is missing");
    if (plain.find_first_of("\"'[({") != std::string_view::npos)
      Fail("a quote or bracket inside an unquoted value");
    at_ = end;
    return plain;
  }

  Node List(char close, int depth) {
    Node list = Node::List();
    ++at_;
    while (true) {
      Skip();
      if (Peek() == close) break;
      list.Append(Value(depth + 1));
      Skip();
      if (Peek() == ',') {
        ++at_;
      } else if (Peek() != close) {
        Fail(fmt::format("`,` or `{}` is missing", close));
      }
    }
    ++at_;
    return list;
  }

  Node Dict(int depth) {
    Node dict = Node::Dict();
    ++at_;
    while (true) {
      Skip();
      if (Peek() == '}') break;
      bool quoted = Peek() == '"' || Peek() == '\'';
      std::string key = quoted ? Quoted() : std::string(Plain(":,}"));
      Skip();
      if (Peek() != ':') Fail("`:` is missing after the key `" + key + "`");
      ++at_;
      if (dict.Has(key)) Fail("the key `" + key + "` stands twice");
      dict.Set(key, Value(depth + 1));
      Skip();
      if (Peek() == ',') {
        ++at_;
      } else if (Peek() != '}') {
        Fail("`,` or `}` is missing");
      }
    }
    ++at_;
    return dict;
  }

  std::string Quoted() {
    char quote = text_[at_++];
    std::string out;
    while (at_ < text_.size()) {
      char c = text_[at_++];
      if (c == quote) {
        if (quote == '\'' && Peek() == '\'') {
          out += text_[at_++];
          continue;
        }
        return out;
      }
      if (c == '\\' && quote == '"') {
        Escape(out);
      } else {
        out += c;
      }
    }
    Fail("a quote isn't closed");
  }

  void Escape(std::string& out) {
    constexpr std::string_view kFrom = "nrt0\\\"'/";
    constexpr std::string_view kTo("\n\r\t\0\\\"'/", 8);
    char c = Peek();
    size_t which = kFrom.find(c);
    if (c == '\0' || which == std::string_view::npos) Fail("an unknown escape");
    out += kTo[which];
    ++at_;
  }

  std::string_view text_;
  const std::string& source_;
  std::string* warning_;
  size_t at_ = 0;
};

}  // namespace

Node ParseOverrideValue(std::string_view text, const std::string& source, std::string* warning) {
  try {
    return ValueParser(text, source, warning).Whole();
  } catch (const Error& e) {
    if (!e.text().where.empty()) throw;
    ErrorText full = e.text();
    full.where = source;
    throw UsageError(std::move(full));
  }
}

}  // namespace xp::config
