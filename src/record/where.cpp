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
  Parser(const std::string& text, std::vector<std::string>& names) : text_(text), names_(names) {}

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
        {.what = fmt::format("the condition can't be read at `{}`", text_.substr(at_, 20)),
         .where = fmt::format("--where, column {}", at_ + 1),
         .expected = expected,
         .next = "for example: --where 'optimizer.lr > 0.01 and metric.bbox_mAP > 0.3'"});
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
  bool TakeWord(std::string_view word) {
    size_t end = at_ + word.size();
    if (end < text_.size() && NameChar(text_[end])) return false;
    return Take(word);
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
      return Make(Kind::kCompare, name, std::move(left), Operand());
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
  NodePtr Operand() {
    if (at_ >= text_.size()) Fail("a name, a number or a text in quotes");
    char c = text_[at_];
    if (c == '\'' || c == '"') return Quoted(c);
    for (const char* word : {"true", "false", "null"}) {
      if (!TakeWord(word)) continue;
      NodePtr node = Make(Kind::kValue);
      node->value = JsonText{word};
      return node;
    }
    double number = 0;
    const char* begin = text_.data() + at_ + (c == '+' ? 1 : 0);
    auto [p, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error == std::errc() && (p == text_.data() + text_.size() || !NameChar(*p))) {
      at_ = static_cast<size_t>(p - text_.data());
      Skip();
      NodePtr node = Make(Kind::kValue);
      node->value = number;
      return node;
    }
    size_t end = at_;
    while (end < text_.size() && NameChar(text_[end])) ++end;
    if (end == at_) Fail("a name, a number or a text in quotes");
    NodePtr node = Make(Kind::kName, text_.substr(at_, end - at_));
    names_.push_back(node->text);
    at_ = end;
    Skip();
    return node;
  }

  const std::string& text_;
  std::vector<std::string>& names_;
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

bool Holds(const std::string& op, const Value& a, const Value& b) {
  if (op == "~") return PlainText(a).find(PlainText(b)) != std::string::npos;
  int order = CompareValues(a, b);
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

Where::Where(const std::string& text) { root_ = Parser(text, names_).Parse(); }
Where::~Where() = default;
Where::Where(Where&&) noexcept = default;

bool Where::Matches(const Get& get) const { return !root_ || Evaluate(*root_, get); }

}  // namespace xp::record
