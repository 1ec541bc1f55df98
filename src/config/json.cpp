#include "src/config/json.h"

#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "src/config/scalar.h"
#include "src/config/yaml.h"

namespace xp::config {
namespace {

constexpr size_t kMaxDepth = 100;
constexpr const char* kLargeInts = "write it with a decimal point, or in quotes to keep it as text";

// nlohmann's SAX interface gives no places. This iterator runs ahead of the parser by at most a
// character and remembers where the last token started.
struct Tracker {
  int line = 1, column = 0;
  size_t seen = 0;  // bytes
  int token_line = 1, token_column = 1;
  bool in_string = false, escaped = false, in_word = false;

  void See(char c) {
    ++seen;
    if (c == '\n') {
      ++line;
      column = 0;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
      ++column;
    }
    if (in_string) {
      if (!escaped && c == '"') in_string = false;
      escaped = !escaped && c == '\\';
      return;
    }
    bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    bool punctuation = c == ',' || c == ':' || c == ']' || c == '}';
    bool opens = c == '"' || c == '[' || c == '{';
    if (opens || (!space && !punctuation && !in_word)) {
      token_line = line;
      token_column = column;
    }
    in_string = c == '"';
    in_word = !space && !punctuation && !opens;
  }
};

class Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  Iterator(const char* at, Tracker* tracker) : at_(at), tracker_(tracker) {}
  const char& operator*() const { return *at_; }
  Iterator& operator++() {
    tracker_->See(*at_++);
    return *this;
  }
  Iterator operator++(int) {
    Iterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Iterator& other) const { return at_ == other.at_; }
  bool operator!=(const Iterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Tracker* tracker_;
};

// What people write that other languages allow, by the character before which reading stopped.
std::string Advice(std::string_view text, size_t seen) {
  const std::string_view before = text.substr(0, seen);
  const char last = before.empty() ? '\0' : before.back();
  const size_t previous =
      before.empty()
          ? std::string_view::npos
          : before.find_last_not_of(" \t\r\n", before.size() < 2 ? 0 : before.size() - 2);
  if (last == '/' || last == '#') return "JSON has no comments: remove it, or write YAML";
  if (last == '\'') return "put keys and text into double quotes";
  if ((last == '}' || last == ']') && previous != std::string_view::npos && text[previous] == ',')
    return "remove the comma before it";
  if (last == 'N' || last == 'I')
    return "write {\"!!float\": \".nan\"} or {\"!!float\": \".inf\"} for what JSON can't hold";
  if (last == 'T' || last == 'F') return "write true or false in small letters";
  if (last == '\n') return "write a line end in text as \\n";
  return "";
}

class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, const std::string& name, const Tracker& tracker,
          const Places& places)
      : text_(text), source_(InternName(name)), tracker_(tracker), places_(places) {}

  bool null() override { return Add(Node()); }
  bool boolean(bool value) override { return Add(Node(value)); }
  bool number_integer(number_integer_t value) override { return Add(Node(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      Node big(std::to_string(value));
      big.set_tag(kBigInt);
      return Add(std::move(big));
    }
    return Add(Node(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    // nlohmann makes floats of ints that are too large for it.
    if (text.find_first_of(".eE") == std::string::npos) {
      Fail("the int " + text.substr(0, 40) + " doesn't fit into 64 bits", kLargeInts);
    }
    return Add(Node(value));
  }
  bool string(string_t& value) override { return Add(Node(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Node::Dict()); }
  bool key(string_t& value) override {
    Node& dict = open_.back();
    if (const Node* earlier = dict.Find(value)) {
      Fail("the key `" + value + "` is already set at " + earlier->Where(),
           "remove one of the two");
    }
    keys_.back() = std::move(value);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(Node::List()); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string what = error.what();
    if (what.find("number overflow") != std::string::npos)
      Fail("a number doesn't fit into 64 bits", kLargeInts);
    size_t colon = what.rfind("; ");
    if (colon != std::string::npos) what.resize(std::min(what.size(), colon + 200));
    const Origin here{source_, tracker_.line, std::max(1, tracker_.column)};
    throw UsageError(
        {.what = "not valid JSON: " + (colon == std::string::npos ? what : what.substr(colon + 2)),
         .where = places_.InFile(here).Text(),
         .next = Advice(text_, tracker_.seen)});
  }

  Node root;

 private:
  Origin Here() const {
    return places_.InFile({source_, tracker_.token_line, tracker_.token_column});
  }
  [[noreturn]] void Fail(const std::string& what, const std::string& next) const {
    throw UsageError({.what = what, .where = Here().Text(), .next = next});
  }
  bool Open(Node node) {
    if (open_.size() >= kMaxDepth) Fail("nested more than 100 levels deep", "flatten it");
    node.set_origin(Here());
    open_.push_back(std::move(node));
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return Put(Untag(std::move(node)));
  }
  bool Add(Node node) {
    node.set_origin(Here());
    return Put(std::move(node));
  }
  bool Put(Node node) {
    if (open_.empty()) {
      root = std::move(node);
    } else if (open_.back().IsList()) {
      open_.back().Append(std::move(node));
    } else {
      open_.back().Set(keys_.back(), std::move(node));
    }
    return true;
  }
  static Node Untag(Node node) {
    if (!node.IsDict() || node.size() != 1) return node;
    const Entry& entry = node.entries().front();
    if (entry.key.size() < 2 || entry.key[0] != '!' || entry.key == kBigInt) return node;
    Node value = entry.value;
    if (!value.tag().empty()) return node;
    if (entry.key == "!!float" && value.IsString()) {
      Node number = ResolveScalar(value.AsString(), ScalarStyle::kFile, nullptr);
      if (!number.IsFloat()) return node;
      number.set_origin(value.origin());
      return number;
    }
    if (entry.key.starts_with("!!")) return node;  // YAML's own tags, which no value keeps
    value.set_tag(entry.key);
    return value;
  }

  std::string_view text_;
  const std::string* source_;
  const Tracker& tracker_;
  const Places& places_;
  std::vector<Node> open_;
  std::vector<std::string> keys_;
};

}  // namespace

Node ParseJson(std::string_view text, const std::string& name, const Places& places) {
  RequireUtf8(text, name);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Tracker tracker;
  Builder builder(text, name, tracker, places);
  nlohmann::json::sax_parse(Iterator(text.data(), &tracker),
                            Iterator(text.data() + text.size(), &tracker), &builder);
  return builder.root;
}

Node FromJson(std::string_view text, const std::string& name) { return ParseJson(text, name); }

}  // namespace xp::config
