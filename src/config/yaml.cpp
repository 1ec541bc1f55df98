#include "src/config/yaml.h"

#include <yaml.h>

#include <unordered_map>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "src/config/scalar.h"

namespace xp::config {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxValues =
    10'000'000;  // after aliases are followed: a "billion laughs" stops here
constexpr std::string_view kStandardTag = "tag:yaml.org,2002:";

std::string_view View(const yaml_char_t* text) {
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

// `!<!!int>` spells out a tag that only the short form `!!int` may mean here.
std::string TagOf(const yaml_char_t* text) {
  std::string tag(View(text));
  return tag.rfind("!!", 0) == 0 ? std::string(kStandardTag) + tag.substr(2) : tag;
}

struct Event {
  yaml_event_t raw{};
  bool alive = false;
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { Clear(); }
  void Clear() {
    if (alive) yaml_event_delete(&raw);
    alive = false;
  }
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& name, const YamlOptions& options)
      : text_(text), source_(InternName(name)), options_(options) {
    if (yaml_parser_initialize(&parser_) == 0) throw JobError({.what = "out of memory"});
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~Parser() { yaml_parser_delete(&parser_); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  Node Document() {
    Event event;
    Next(event);  // stream start
    Next(event);
    if (event.raw.type == YAML_STREAM_END_EVENT) return Node();
    Next(event);
    size_t weight = 0;
    Node root = Value(event, 0, &weight);
    Next(event);  // document end
    Next(event);
    if (event.raw.type != YAML_STREAM_END_EVENT) {
      Fail("a second document starts here", event.raw.start_mark, "one document a file",
           "remove the line `---`, or split the file");
    }
    return root;
  }

 private:
  struct Anchored {
    Node value;
    size_t weight;
  };

  Origin At(const yaml_mark_t& mark) const {
    return options_.places.InFile(
        {source_, static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1});
  }

  [[noreturn]] void Fail(const std::string& what, const yaml_mark_t& mark,
                         const std::string& expected = {}, const std::string& next = {}) const {
    throw UsageError({.what = what, .where = At(mark).Text(), .expected = expected, .next = next});
  }

  void Next(Event& event) {
    event.Clear();
    if (yaml_parser_parse(&parser_, &event.raw) == 0) Malformed();
    event.alive = true;
  }

  [[noreturn]] void Malformed() const {
    const yaml_mark_t& mark = parser_.problem_mark;
    std::string problem = parser_.problem == nullptr ? "not YAML" : parser_.problem;
    std::string context = parser_.context == nullptr ? "" : parser_.context;
    if (parser_.error == YAML_READER_ERROR) {
      throw UsageError({.what = "not valid YAML: " + problem,
                        .where = AtByte(parser_.problem_offset).Text(),
                        .next = "write it as an escape in double quotes, such as \"\\x07\""});
    }
    if (mark.index < text_.size() && TabAt(mark)) {
      Fail("a tab stands in the indentation", mark, "spaces", "replace the tabs by spaces");
    }
    static constexpr std::pair<const char*, const char*> kAdvice[] = {
        {"simple key",
         "check the indentation, and that every key is followed by a colon and a space"},
        {"':'", "check the indentation, and that every key is followed by a colon and a space"},
        {"mapping values",
         "put quotes around a value that holds a colon and a space, or check the indentation"},
        {"cannot start any token", "put quotes around text that starts with @, % or `"},
        {"unknown escape", "double each backslash, or put the text into single quotes"},
    };
    std::string next;
    for (const auto& [part, advice] : kAdvice) {
      if (next.empty() && problem.find(part) != std::string::npos) next = advice;
    }
    std::string where_from;
    if (!context.empty() && parser_.context_mark.line != mark.line) {
      where_from = " from line " + std::to_string(parser_.context_mark.line + 1);
    }
    Fail("not valid YAML: " + problem + (context.empty() ? "" : " (" + context + where_from + ")"),
         mark, "", next);
  }

  Origin AtByte(size_t offset) const {
    Origin at{source_, 1, 1};
    for (char c : text_.substr(0, offset)) {
      if (c == '\n') {
        ++at.line;
        at.column = 1;
      } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
        ++at.column;
      }
    }
    return options_.places.InFile(at);
  }

  // libyaml counts characters, not bytes: walks the marked line.
  bool TabAt(const yaml_mark_t& mark) const {
    size_t at = 0;
    for (size_t line = 0; line < mark.line && at != std::string_view::npos; ++line) {
      at = text_.find('\n', at);
      if (at != std::string_view::npos) ++at;
    }
    if (at == std::string_view::npos) return false;
    size_t first = text_.find_first_not_of(' ', at);
    return first != std::string_view::npos && text_[first] == '\t';
  }

  void Count(size_t* weight, size_t more, const yaml_mark_t& mark) {
    *weight += more;
    total_ += more;
    if (total_ > kMaxValues) {
      Fail("aliases multiply to more than ten million values", mark, "", "write the values out");
    }
  }

  Node Value(Event& event, int depth, size_t* weight) {
    if (depth > kMaxDepth) {
      Fail("nested more than " + std::to_string(kMaxDepth) + " levels deep", event.raw.start_mark);
    }
    switch (event.raw.type) {
      case YAML_ALIAS_EVENT:
        return Alias(event.raw, weight);
      case YAML_SCALAR_EVENT:
        return Scalar(event.raw, weight);
      case YAML_SEQUENCE_START_EVENT:
        return Sequence(event, depth, weight);
      case YAML_MAPPING_START_EVENT:
        return Mapping(event, depth, weight);
      default:
        Fail("not valid YAML: a value is missing", event.raw.start_mark);
    }
  }

  Node Alias(const yaml_event_t& event, size_t* weight) {
    std::string name(View(event.data.alias.anchor));
    auto it = anchors_.find(name);
    if (it == anchors_.end()) {
      Fail("the alias *" + name + " is used before its anchor &" + name + " is complete",
           event.start_mark, "an anchor above it");
    }
    Count(weight, it->second.weight, event.start_mark);
    Node value = it->second.value;
    value.set_origin(At(event.start_mark));  // what lies in it was written at the anchor
    return value;
  }

  static bool IsBlock(const yaml_event_t& event) {
    if (event.type == YAML_SEQUENCE_START_EVENT)
      return event.data.sequence_start.style != YAML_FLOW_SEQUENCE_STYLE;
    return event.type == YAML_MAPPING_START_EVENT &&
           event.data.mapping_start.style != YAML_FLOW_MAPPING_STYLE;
  }

  void Remember(const yaml_char_t* anchor, const Node& value, size_t weight) {
    if (anchor != nullptr) anchors_[std::string(View(anchor))] = {value, weight};
  }

  Node Scalar(const yaml_event_t& event, size_t* weight) {
    const auto& scalar = event.data.scalar;
    std::string_view text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    const std::string tag = TagOf(scalar.tag);
    Node node;
    try {
      node = scalar.plain_implicit != 0 ? Plain(text, event.start_mark)
             : tag.empty()              ? Node(text)
                                        : Tagged(text, tag, scalar.style, event.start_mark);
    } catch (const Error& e) {
      if (!e.text().where.empty()) throw;
      Fail(e.text().what, event.start_mark, e.text().expected, e.text().next);
    }
    node.set_origin(At(event.start_mark));
    Count(weight, 1, event.start_mark);
    Remember(scalar.anchor, node, 1);
    return node;
  }

  Node Plain(std::string_view text, const yaml_mark_t& mark) {
    std::string warning;
    Node node = ResolveScalar(text, ScalarStyle::kFile, &warning);
    if (!warning.empty() && options_.warnings != nullptr) {
      options_.warnings->push_back({"leading-zero", warning, At(mark).Text()});
    }
    return node;
  }

  Node Tagged(std::string_view text, std::string_view tag, yaml_scalar_style_t style,
              const yaml_mark_t& mark) {
    if (tag.substr(0, kStandardTag.size()) == kStandardTag) {
      return Standard(text, tag.substr(kStandardTag.size()), mark);
    }
    if (tag == "!") return Node(text);
    Node node = style == YAML_PLAIN_SCALAR_STYLE ? Plain(text, mark) : Node(text);
    node.set_tag(tag);
    return node;
  }

  [[noreturn]] void Refuse(const std::string& type, const yaml_mark_t& mark) const {
    const bool code = type.rfind("python/", 0) == 0;
    Fail("the tag !!" + type + (code ? " would run code and is refused" : " isn't known"), mark,
         "plain values", "write the value itself");
  }

  Node Standard(std::string_view text, std::string_view type, const yaml_mark_t& mark) {
    if (type == "str") return Node(text);
    if (type != "int" && type != "float" && type != "bool" && type != "null")
      Refuse(std::string(type), mark);
    Node node = ResolveScalar(text, ScalarStyle::kFile, nullptr);
    if (type == "float" && node.IsInt()) return Node(node.AsDouble());
    if (type == "float" && node.tag() == kBigInt)
      return Node(std::strtod(node.AsString().c_str(), nullptr));
    bool fits = (type == "int" && (node.IsInt() || node.tag() == kBigInt)) ||
                (type == "float" && node.IsFloat()) || (type == "bool" && node.IsBool()) ||
                (type == "null" && node.IsNull());
    if (!fits) {
      Fail("`" + std::string(text) + "` can't be read as !!" + std::string(type), mark,
           "one of !!str, !!int, !!float, !!bool, !!null that fits the text");
    }
    return node;
  }

  Node Sequence(Event& event, int depth, size_t* weight) {
    const yaml_mark_t mark = event.raw.start_mark;
    const std::string tag = TagOf(event.raw.data.sequence_start.tag);
    const std::string anchor(View(event.raw.data.sequence_start.anchor));
    size_t own = 1;
    Count(weight, 1, mark);
    std::vector<Node> items;
    while (true) {
      Next(event);
      if (event.raw.type == YAML_SEQUENCE_END_EVENT) break;
      size_t item = 0;
      items.push_back(Value(event, depth + 1, &item));
      own += item;
    }
    *weight += own - 1;
    Node node = Node::List(std::move(items));
    node.set_origin(At(mark));
    node = ListTag(std::move(node), tag, mark);
    if (!anchor.empty()) anchors_[anchor] = {node, own};
    return node;
  }

  Node ListTag(Node node, const std::string& tag, const yaml_mark_t& mark) {
    if (tag.empty() || tag == "!" || tag == std::string(kStandardTag) + "seq") return node;
    if (tag.rfind(kStandardTag, 0) != 0) {
      node.set_tag(tag);
      return node;
    }
    std::string type = tag.substr(kStandardTag.size());
    if (type == "python/tuple" || type == "python/list") return node;
    if (type == "python/object/apply:eval" && options_.eval && node.size() == 1 &&
        node[0].IsString()) {
      return options_.eval(node[0].AsString(), node[0].origin());
    }
    Refuse(type, mark);
  }

  Node Mapping(Event& event, int depth, size_t* weight) {
    const yaml_mark_t mark = event.raw.start_mark;
    const std::string tag = TagOf(event.raw.data.mapping_start.tag);
    const std::string anchor(View(event.raw.data.mapping_start.anchor));
    size_t own = 1;
    Count(weight, 1, mark);
    Node dict = Node::Dict();
    std::vector<Node> merged;  // what `<<` brings in, in order
    while (true) {
      Next(event);
      if (event.raw.type == YAML_MAPPING_END_EVENT) break;
      own += Pair(event, depth, dict, merged);
    }
    if (!merged.empty()) dict = WithMerged(dict, merged);
    *weight += own - 1;
    dict.set_origin(At(mark));
    if (!tag.empty() && tag.rfind(kStandardTag, 0) != 0 && tag != "!") {
      dict.set_tag(tag);
    } else if (!tag.empty() && tag != "!" && tag != std::string(kStandardTag) + "map") {
      Refuse(tag.substr(kStandardTag.size()), mark);
    }
    if (!anchor.empty()) anchors_[anchor] = {dict, own};
    return dict;
  }

  // Reads one key and its value; returns how many values that was.
  size_t Pair(Event& event, int depth, Node& dict, std::vector<Node>& merged) {
    const yaml_mark_t key_mark = event.raw.start_mark;
    std::string key;
    bool merge = false;
    if (event.raw.type == YAML_SCALAR_EVENT) {
      const auto& scalar = event.raw.data.scalar;
      key.assign(reinterpret_cast<const char*>(scalar.value), scalar.length);
      merge = key == "<<" && scalar.plain_implicit != 0;
      if (scalar.anchor != nullptr) {
        Node value(key);
        value.set_origin(At(key_mark));
        Remember(scalar.anchor, value, 1);
      }
    } else if (event.raw.type == YAML_ALIAS_EVENT) {
      size_t ignored = 0;
      Node node = Alias(event.raw, &ignored);
      if (!node.IsString()) Fail("a key must be a string", key_mark, "a name");
      key = node.AsString();
    } else {
      Fail("a key must be a name, not a list or a dict", key_mark, "a name",
           "put quotes around text that starts with [ or {");
    }
    Next(event);
    const bool block = IsBlock(event.raw);
    size_t weight = 0;
    Node value = Value(event, depth + 1, &weight);
    if (merge) {
      CollectMerge(value, merged, key_mark);
      return weight;
    }
    // What begins on a line below its key is found by the key.
    if (block) value.set_origin(At(key_mark));
    if (const Node* earlier = dict.Find(key)) Duplicate(key, *earlier, key_mark);
    dict.Set(key, std::move(value));
    return weight + 1;
  }

  void Duplicate(const std::string& key, const Node& earlier, const yaml_mark_t& mark) {
    std::string what = "the key `" + key + "` is already set at " + earlier.Where();
    if (!options_.allow_duplicate_keys) {
      Fail(what, mark, "each key once", "remove one of the two lines");
    }
    if (options_.warnings != nullptr) {
      options_.warnings->push_back(
          {"duplicate-key", what + "; the later one counts", At(mark).Text()});
    }
  }

  void CollectMerge(const Node& value, std::vector<Node>& merged, const yaml_mark_t& mark) {
    if (value.IsDict()) {
      merged.push_back(value);
      return;
    }
    bool fits = value.IsList();
    if (fits) {
      for (const Node& item : value.items()) fits = fits && item.IsDict();
    }
    if (!fits) Fail("`<<` merges dicts", mark, "an alias of a dict, or a list of them");
    merged.insert(merged.end(), value.items().begin(), value.items().end());
  }

  // Own keys win over merged ones; of several merged dicts the first wins
  // (https://yaml.org/type/merge.html).
  static Node WithMerged(const Node& own, const std::vector<Node>& merged) {
    Node dict = Node::Dict();
    for (const Node& source : merged) {
      for (const Entry& entry : source.entries()) {
        if (!dict.Has(entry.key)) dict.Set(entry.key, entry.value);
      }
    }
    for (const Entry& entry : own.entries()) dict.Set(entry.key, entry.value);
    return dict;
  }

  std::string_view text_;
  const std::string* source_;
  const YamlOptions& options_;
  yaml_parser_t parser_{};
  std::unordered_map<std::string, Anchored> anchors_;
  size_t total_ = 0;
};

}  // namespace

namespace {

// What a text that isn't UTF-8 most likely is, as iconv calls it.
const char* LikelyEncoding(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv)) return "UTF-16";
  if (text.size() < 2 || (text[0] == '\0') == (text[1] == '\0')) return "LATIN1";
  return text[0] == '\0' ? "UTF-16BE" : "UTF-16LE";
}

}  // namespace

void RequireUtf8(std::string_view text, const std::string& name) {
  int line = 1;
  int column = 1;
  for (size_t i = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0; i < text.size();) {
    const char c = text[i];
    size_t length = Utf8Length(text.substr(i));
    if (length == 0 || c == '\0') {
      throw UsageError(
          {.what = c == '\0' ? "a null byte: this isn't a text file" : "not UTF-8 text",
           .where = name + ":" + std::to_string(line) + ":" + std::to_string(column),
           .expected = "UTF-8",
           .next = std::string("convert the file, for instance: iconv -f ") + LikelyEncoding(text) +
                   " -t UTF-8"});
    }
    if (c == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
    i += length;
  }
}

Node ParseYaml(std::string_view text, const std::string& name, const YamlOptions& options) {
  RequireUtf8(text, name);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return Parser(text, name, options).Document();
}

}  // namespace xp::config
