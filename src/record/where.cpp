#include "src/record/where.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"

namespace xp::record {

struct Where::Node {
  enum class Kind { kOr, kAnd, kNot, kCompare, kName, kValue } kind;
  std::string text;  // of kCompare the operator, of kName the name
  Value value;
  std::unique_ptr<Node> left, right;
};

namespace {

using NodePtr = std::unique_ptr<Where::Node>;
using Kind = Where::Node::Kind;

NodePtr Make(Kind kind, std::string text = "", NodePtr left = nullptr, NodePtr right = nullptr) {
  auto node = std::make_unique<Where::Node>();
  node->kind = kind;
  node->text = std::move(text);
  node->left = std::move(left);
  node->right = std::move(right);
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
    NodePtr left = And();
    while (TakeWord("or")) left = Make(Kind::kOr, "", std::move(left), And());
    --depth_;
    return left;
  }
  NodePtr And() {
    NodePtr left = Factor();
    while (TakeWord("and")) left = Make(Kind::kAnd, "", std::move(left), Factor());
    return left;
  }
  NodePtr Factor() {
    if (TakeWord("not")) {
      Deeper();
      NodePtr inner = Factor();
      --depth_;
      return Make(Kind::kNot, "", std::move(inner));
    }
    if (Take("(")) {
      NodePtr inner = Or();
      if (!Take(")")) Fail("`)`");
      return inner;
    }
    NodePtr left = Operand();
    for (const char* op : {"==", "!=", "<=", ">=", "=", "<", ">", "~"}) {
      if (!Take(op)) continue;
      std::string name = std::string(op) == "=" ? "==" : op;
      return Make(Kind::kCompare, name, std::move(left), Operand(true));
    }
    return left;
  }
  NodePtr Quoted(char quote) {
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) Fail(fmt::format("a closing {}", quote));
    NodePtr node = Make(Kind::kValue);
    node->value = QuotedText(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    Skip();
    return node;
  }
  NodePtr Operand(bool right = false) {
    static constexpr const char* kExpected = "a name, a number or a text in quotes";
    bool keyword = AtWord("and") || AtWord("or") || AtWord("not");
    if (at_ >= text_.size() || keyword) Fail(kExpected);
    char c = text_[at_];
    if (c == '\'' || c == '"') return Quoted(c);
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
    if (!right) subjects_.push_back(name);
    Skip();
    return Make(Kind::kName, std::move(name));
  }

  // Whole numbers stay exact, however large; nullptr where there is none.
  NodePtr Number() {
    bool plus = text_[at_] == '+';
    const char *begin = text_.data() + at_ + (plus ? 1 : 0), *end = text_.data() + text_.size();
    auto ends = [&](const char* p) { return p == end || !NameChar(*p); };
    double real = 0;
    int64_t whole = 0;
    auto [p, error] = std::from_chars(begin, end, real);
    auto [q, error_whole] = std::from_chars(begin, end, whole);
    if (error == std::errc::result_out_of_range && ends(p)) Fail("a number that a double can hold");
    if (error != std::errc() || !ends(p)) return nullptr;
    NodePtr node = Make(Kind::kValue);
    node->value = real;
    if (error_whole == std::errc() && q == p) node->value = whole;
    if (error_whole == std::errc::result_out_of_range && q == p)
      node->value = JsonText{std::string(begin, p)};
    at_ = static_cast<size_t>(p - text_.data());
    Skip();
    return node;
  }

  // `any text` in backticks; else letters and such, with parts in quotes behind dots: a."b c".d
  std::string Name() {
    size_t start = at_;
    if (text_[at_] == '`') {
      size_t end = text_.find('`', at_ + 1);
      if (end == std::string::npos) Fail("a closing `");
      at_ = end + 1;
      return text_.substr(start + 1, end - start - 1);
    }
    while (at_ < text_.size()) {
      if (NameChar(text_[at_])) {
        ++at_;
      } else if (text_[at_] == '"' && at_ > start && text_[at_ - 1] == '.') {
        size_t end = text_.find('"', at_ + 1);
        if (end == std::string::npos) Fail("a closing \"");
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
  return Show(value);
}

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

bool Evaluate(const Where::Node& n, const Where::Get& get) {
  auto values = [&](const Where::Node& operand) {
    if (operand.kind == Kind::kName) return get(operand.text);
    return std::vector<Value>(1, operand.value);
  };
  switch (n.kind) {
    case Kind::kOr:
      return Evaluate(*n.left, get) || Evaluate(*n.right, get);
    case Kind::kAnd:
      return Evaluate(*n.left, get) && Evaluate(*n.right, get);
    case Kind::kNot:
      return !Evaluate(*n.left, get);
    case Kind::kName:
      return !get(n.text).empty();
    case Kind::kValue:
      return n.value == Value(JsonText{"true"}) || AsDouble(n.value) != 0;
    case Kind::kCompare:
      // A bare word on the right is a text where the run has no such name: state = killed.
      for (const Value& a : values(*n.left)) {
        std::vector<Value> right = values(*n.right);
        if (right.empty() && n.right->kind == Kind::kName) {
          right.emplace_back(QuotedText(n.right->text));
        }
        for (const Value& b : right) {
          if (Holds(n.text, a, b)) return true;
        }
      }
      return false;
  }
  return false;
}

}  // namespace

int CompareValues(const Value& a, const Value& b) {
  bool number_a = !std::holds_alternative<JsonText>(a),
       number_b = !std::holds_alternative<JsonText>(b);
  if (number_a != number_b) return 2;
  if (number_a) {
    if (std::holds_alternative<int64_t>(a) && std::holds_alternative<int64_t>(b)) {
      int64_t x = std::get<int64_t>(a), y = std::get<int64_t>(b);
      return x < y ? -1 : x > y;
    }
    double x = AsDouble(a), y = AsDouble(b);
    if (std::isnan(x) || std::isnan(y)) return 2;
    return x < y ? -1 : x > y;
  }
  int order = PlainText(a).compare(PlainText(b));
  return order < 0 ? -1 : order > 0;
}

bool SortsBefore(const Value& a, const Value& b) {
  auto rank = [](const Value& v) { return std::holds_alternative<JsonText>(v) ? 2 : IsNan(v); };
  return rank(a) != rank(b) ? rank(a) < rank(b) : CompareValues(a, b) == -1;
}

Where::Where(const std::string& text) { root_ = Parser(text, names_, subjects_).Parse(); }
Where::~Where() = default;
Where::Where(Where&&) noexcept = default;

bool Where::Matches(const Get& get) const { return !root_ || Evaluate(*root_, get); }

}  // namespace xp::record
