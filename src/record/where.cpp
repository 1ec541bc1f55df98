#include "src/record/where.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "exp/base/error.h"

namespace xp::record {

struct Where::Node {
  enum class Kind { kOr, kAnd, kNot, kCompare, kName, kValue } kind;
  std::string text;  // of kCompare the operator, of kName the name, of a number how it is written
  Value value;
  // Of kOr and kAnd as many as were joined, so that a long condition is no deep one.
  std::vector<std::unique_ptr<Node>> parts;
};

namespace {

using NodePtr = std::unique_ptr<Where::Node>;
using Kind = Where::Node::Kind;

NodePtr Make(Kind kind, std::string text = "") {
  auto node = std::make_unique<Where::Node>();
  node->kind = kind;
  node->text = std::move(text);
  return node;
}

JsonText QuotedText(const std::string& text) {
  return {nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

class Parser {
 public:
  Parser(const std::string& text, std::vector<std::string>& names,
         std::vector<std::string>& subjects)
      : text_(text), names_(names), subjects_(subjects) {}

  NodePtr Parse() {
    Skip();
    if (at_ == text_.size()) return nullptr;
    NodePtr node = Or();
    if (at_ < text_.size()) Fail("`and`, `or` or the end");
    return node;
  }

 private:
  [[noreturn]] void Fail(const std::string& expected) {
    throw UsageError(
        {.what = at_ < text_.size()
                     ? fmt::format("the condition can't be read at `{}`", Characters(at_, 20))
                     : std::string("the condition ends too soon"),
         .where = fmt::format("--where, column {}", Column()),
         .expected = expected,
         .next = "for example: --where 'optimizer.lr > 0.01 and metric.bbox_mAP > 0.3'"});
  }
  // In characters, as people count.
  size_t Column() const {
    size_t column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) column += (text_[i] & 0xC0) != 0x80;
    return column;
  }
  std::string Characters(size_t from, size_t most) const {
    size_t end = from;
    while (end < text_.size() && (end - from < most || (text_[end] & 0xC0) == 0x80)) ++end;
    return text_.substr(from, end - from);
  }
  void Skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Take(std::string_view token) {
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    Skip();
    return true;
  }
  static bool NameChar(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' ||
           c == '@' || c == '-' || c == ':' || (c & 0x80);
  }
  // In any case of letters: and, AND.
  bool AtWord(std::string_view word) const {
    size_t end = at_ + word.size();
    if (end > text_.size() || (end < text_.size() && NameChar(text_[end]))) return false;
    for (size_t i = 0; i < word.size(); ++i) {
      if (std::tolower(static_cast<unsigned char>(text_[at_ + i])) != word[i]) return false;
    }
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (!AtWord(word)) return false;
    at_ += word.size();
    Skip();
    return true;
  }
  // Deep nesting would exhaust the stack; nobody writes it by hand.
  void Deeper() {
    if (++depth_ > 200) Fail("fewer parentheses");
  }
  NodePtr Or() {
    Deeper();
    NodePtr node = Joined(Kind::kOr, "or", &Parser::And);
    --depth_;
    return node;
  }
  NodePtr And() { return Joined(Kind::kAnd, "and", &Parser::Factor); }
  NodePtr Joined(Kind kind, std::string_view word, NodePtr (Parser::*part)()) {
    NodePtr first = (this->*part)();
    if (!AtWord(word)) return first;
    NodePtr node = Make(kind);
    node->parts.push_back(std::move(first));
    while (TakeWord(word)) node->parts.push_back((this->*part)());
    return node;
  }
  NodePtr Factor() {
    if (TakeWord("not")) {
      Deeper();
      NodePtr node = Make(Kind::kNot);
      node->parts.push_back(Factor());
      --depth_;
      return node;
    }
    if (Take("(")) {
      NodePtr inner = Or();
      if (!Take(")")) Fail("`)`");
      return inner;
    }
    NodePtr left = Operand(false);
    for (const char* op : {"==", "!=", "<=", ">=", "=", "<", ">", "~"}) {
      if (!Take(op)) continue;
      NodePtr node = Make(Kind::kCompare, std::string(op) == "=" ? "==" : op);
      // Beside a value a word is a name: 0.3 < metric.bbox_mAP.
      const bool may_be_text = left->kind == Kind::kName;
      node->parts.push_back(std::move(left));
      node->parts.push_back(Operand(may_be_text));
      return node;
    }
    return left;
  }
  // What stands between two quotes, of which one inside is written twice.
  std::string Between(char quote) {
    std::string inner;
    for (size_t from = at_ + 1;;) {
      const size_t end = text_.find(quote, from);
      if (end == std::string::npos) Fail(fmt::format("a closing {}", quote));
      inner.append(text_, from, end - from);
      from = end + 2;
      at_ = end + 1;
      if (at_ == text_.size() || text_[at_] != quote) return inner;
      inner += quote;
    }
  }
  NodePtr Operand(bool may_be_text) {
    static constexpr const char* kExpected = "a name, a number or a text in quotes";
    bool keyword = AtWord("and") || AtWord("or") || AtWord("not");
    if (at_ >= text_.size() || keyword) Fail(kExpected);
    char c = text_[at_];
    if (c == '\'' || c == '"') {
      NodePtr node = Make(Kind::kValue);
      node->value = QuotedText(Between(c));
      Skip();
      return node;
    }
    for (const char* word : {"true", "false", "null"}) {
      if (!TakeWord(word)) continue;
      NodePtr node = Make(Kind::kValue);
      node->value = JsonText{word};
      return node;
    }
    if (NodePtr number = Number()) return number;
    std::string name = Name();
    if (name.empty()) Fail(kExpected);
    names_.push_back(name);
    if (!may_be_text) subjects_.push_back(name);
    Skip();
    return Make(Kind::kName, std::move(name));
  }

  // Whole numbers stay exact, up to 2^64-1; what is beyond a double is an infinity. nullptr where
  // there is none.
  NodePtr Number() {
    const bool plus = text_[at_] == '+';
    const char *begin = text_.data() + at_ + (plus ? 1 : 0), *end = text_.data() + text_.size();
    if (plus && begin != end && *begin == '-') return nullptr;
    double real = 0;
    int64_t whole = 0;
    uint64_t large = 0;
    const auto [last, error] = std::from_chars(begin, end, real);
    if (error == std::errc::invalid_argument || (last != end && NameChar(*last))) return nullptr;
    // from_chars doesn't tell too large from too small.
    if (error != std::errc()) real = std::strtod(std::string(begin, last).c_str(), nullptr);
    auto is_whole = [&, last = last](auto& number) {
      const auto [p, e] = std::from_chars(begin, end, number);
      return e == std::errc() && p == last;
    };
    NodePtr node =
        Make(Kind::kValue, text_.substr(at_, static_cast<size_t>(last - text_.data()) - at_));
    if (is_whole(whole))
      node->value = whole;
    else if (is_whole(large))
      node->value = JsonText{std::string(begin, last)};
    else
      node->value = real;
    at_ = static_cast<size_t>(last - text_.data());
    Skip();
    return node;
  }

  // `any text` in backticks; else letters and such, with parts in quotes behind dots, as --set has
  // them: a."b c".d, a."b\"c"
  std::string Name() {
    size_t start = at_;
    if (text_[at_] == '`') return Between('`');
    while (at_ < text_.size()) {
      if (NameChar(text_[at_])) {
        ++at_;
      } else if (text_[at_] == '"' && at_ > start && text_[at_ - 1] == '.') {
        size_t end = at_ + 1;
        while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
        if (end >= text_.size()) Fail("a closing \"");
        at_ = end + 1;
      } else {
        break;
      }
    }
    return text_.substr(start, at_ - start);
  }

  const std::string& text_;
  std::vector<std::string>&names_, &subjects_;
  size_t at_ = 0;
  int depth_ = 0;
};

std::string PlainText(const Value& value) {
  if (const JsonText* json = std::get_if<JsonText>(&value)) {
    nlohmann::json parsed = nlohmann::json::parse(json->text, nullptr, false);
    return parsed.is_string() ? parsed.get<std::string>() : json->text;
  }
  return ShowExact(value);
}

// A whole number between 2^63 and 2^64, which is JSON text.
std::optional<uint64_t> Large(const Value& v) {
  const JsonText* json = std::get_if<JsonText>(&v);
  uint64_t number = 0;
  if (!json) return std::nullopt;
  const char* end = json->text.data() + json->text.size();
  const auto [last, error] = std::from_chars(json->text.data(), end, number);
  return error == std::errc() && last == end ? std::optional(number) : std::nullopt;
}

bool IsText(const Value& v) { return std::holds_alternative<JsonText>(v) && !Large(v); }

bool IsNan(const Value& v) {
  return !std::holds_alternative<JsonText>(v) && std::isnan(AsDouble(v));
}

bool Holds(const std::string& op, const Value& a, const Value& b) {
  if (op == "~") return PlainText(a).find(PlainText(b)) != std::string::npos;
  int order = CompareValues(a, b);
  bool nan = IsNan(a) && IsNan(b);  // to be found, it equals itself here
  if (op == "!=" && nan) return false;
  if (op == "==" && nan) return true;
  if (op == "!=") return order != 0;
  if (order == 2) return false;
  if (op == "==") return order == 0;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

// The values of an operand. A bare word on the right is a text where the run has no such name:
// state = killed.
std::vector<Value> ValuesOf(const Where::Node& operand, bool right, const Where::Get& get) {
  if (operand.kind != Kind::kName) return {operand.value};
  std::vector<Value> values = get(operand.text);
  if (values.empty() && right) values.emplace_back(QuotedText(operand.text));
  return values;
}

// A number is the text that it is written as where it meets one: name = 123, tag = 2024.
Value Beside(const Where::Node& operand, const Value& value, const Value& other) {
  const bool number = operand.kind == Kind::kValue && !operand.text.empty();
  return number && IsText(other) ? Value(QuotedText(operand.text)) : value;
}

bool Compares(const Where::Node& n, const Where::Get& get) {
  const Where::Node &left = *n.parts[0], &right = *n.parts[1];
  const std::vector<Value> of_left = ValuesOf(left, false, get),
                           of_right = ValuesOf(right, true, get);
  // Of several (tags) one is enough; != is that none is equal.
  const bool every = n.text == "!=";
  for (const Value& a : of_left) {
    for (const Value& b : of_right) {
      if (Holds(n.text, Beside(left, a, b), Beside(right, b, a)) != every) return !every;
    }
  }
  return every && !of_left.empty() && !of_right.empty();
}

bool Evaluate(const Where::Node& n, const Where::Get& get) {
  auto holds = [&](const NodePtr& part) { return Evaluate(*part, get); };
  switch (n.kind) {
    case Kind::kOr:
      return std::any_of(n.parts.begin(), n.parts.end(), holds);
    case Kind::kAnd:
      return std::all_of(n.parts.begin(), n.parts.end(), holds);
    case Kind::kNot:
      return !holds(n.parts[0]);
    case Kind::kName:
      return !get(n.text).empty();
    case Kind::kValue:
      return n.value != Value(JsonText{"false"}) && n.value != Value(JsonText{"null"}) &&
             AsDouble(n.value) != 0;
    case Kind::kCompare:
      return Compares(n, get);
  }
  return false;
}

}  // namespace

int CompareValues(const Value& a, const Value& b) {
  auto order = [](const auto& x, const auto& y) { return x < y ? -1 : x > y ? 1 : 0; };
  if (IsText(a) != IsText(b)) return 2;
  if (IsText(a)) return order(PlainText(a), PlainText(b));
  const std::optional<uint64_t> large_a = Large(a), large_b = Large(b);
  if (large_a && large_b) return order(*large_a, *large_b);
  if (large_a && std::holds_alternative<int64_t>(b)) return 1;
  if (large_b && std::holds_alternative<int64_t>(a)) return -1;
  if (std::holds_alternative<int64_t>(a) && std::holds_alternative<int64_t>(b))
    return order(std::get<int64_t>(a), std::get<int64_t>(b));
  const double x = large_a ? static_cast<double>(*large_a) : AsDouble(a),
               y = large_b ? static_cast<double>(*large_b) : AsDouble(b);
  return std::isnan(x) || std::isnan(y) ? 2 : order(x, y);
}

bool SortsBefore(const Value& a, const Value& b, bool reverse) {
  auto rank = [](const Value& v) { return IsText(v) ? 2 : IsNan(v) ? 1 : 0; };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  return (reverse ? CompareValues(b, a) : CompareValues(a, b)) == -1;
}

Where::Where(const std::string& text) { root_ = Parser(text, names_, subjects_).Parse(); }
Where::~Where() = default;
Where::Where(Where&&) noexcept = default;

bool Where::Matches(const Get& get) const { return !root_ || Evaluate(*root_, get); }

}  // namespace xp::record
