#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "src/config/scalar.h"

namespace xp::config {
namespace {

// What libyaml refuses in a file (C1 controls, U+FEFF, U+FFFE, U+FFFF) or takes for a line end
// (U+0085, U+2028, U+2029).
bool NeedsEscapeInYaml(char32_t c) {
  return (c >= 0x80 && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe ||
         c == 0xffff;
}

// Replaces those by escapes that YAML and JSON share; `quoted` is UTF-8.
std::string EscapedForYaml(std::string_view quoted) {
  std::string out;
  for (size_t at = 0; at < quoted.size();) {
    const size_t length = std::max<size_t>(1, Utf8Length(quoted.substr(at)));
    const std::string_view character = quoted.substr(at, length);
    at += length;
    auto bits = [&](size_t i) { return static_cast<unsigned char>(character[i]) & 0x3fu; };
    const char32_t code = length == 2   ? (character[0] & 0x1fu) << 6 | bits(1)
                          : length == 3 ? (character[0] & 0x0fu) << 12 | bits(1) << 6 | bits(2)
                                        : 0;
    if (NeedsEscapeInYaml(code)) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      out += character;
    }
  }
  return out;
}

void AppendString(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        // C0 controls must be escaped in JSON; DEL is escaped too because YAML doesn't print it.
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

bool IsBigInt(const Node& node) { return node.IsString() && node.tag() == kBigInt; }

std::string FloatText(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// Strings that go through interpolation again when the output is loaded.
std::string Escaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "${") == 0) out += '\\';
    out += text[i];
  }
  return out;
}

struct JsonStyle {
  bool sorted = true;
  bool pretty = false;
  bool escape = false;  // "${" as "\${"
  bool bare = false;    // .inf as YAML has it, for people to read
};

class JsonWriter {
 public:
  explicit JsonWriter(JsonStyle style) : style_(style) {}

  void Write(const Node& node, int depth) {
    if (node.tag().empty()) return Untagged(node, depth);
    if (IsBigInt(node)) {
      out += node.AsString();
      return;
    }
    out += "{";
    Line(depth + 1);
    AppendString(out, node.tag());
    out += style_.pretty ? ": " : ":";
    Untagged(node, depth + 1);
    Line(depth);
    out += "}";
  }

  std::string out;

 private:
  void Line(int depth) {
    if (!style_.pretty) return;
    out += '\n';
    out.append(static_cast<size_t>(depth) * 2, ' ');
  }

  void Untagged(const Node& node, int depth) {
    switch (node.kind()) {
      case Kind::kNull:
        out += "null";
        return;
      case Kind::kBool:
        out += node.AsBool() ? "true" : "false";
        return;
      case Kind::kInt:
        out += std::to_string(node.AsInt());
        return;
      case Kind::kFloat:
        if (std::isfinite(node.AsDouble()) || style_.bare) {
          out += FloatText(node.AsDouble());
        } else {
          out += style_.pretty ? "{\"!!float\": \"" : "{\"!!float\":\"";
          out += FloatText(node.AsDouble()) + "\"}";
        }
        return;
      case Kind::kString:
        AppendString(out, style_.escape ? Escaped(node.AsString()) : node.AsString());
        return;
      case Kind::kList:
        return WriteList(node, depth);
      case Kind::kDict:
        return WriteDict(node, depth);
    }
  }

  void WriteList(const Node& node, int depth) {
    // Lists of scalars stay on one line; they are what people compare by eye.
    bool flat = std::none_of(node.items().begin(), node.items().end(), [](const Node& item) {
      return item.IsContainer() || (!item.tag().empty() && !IsBigInt(item));
    });
    out += '[';
    bool first = true;
    for (const Node& item : node.items()) {
      if (!first) out += style_.pretty && flat ? ", " : ",";
      first = false;
      if (!flat) Line(depth + 1);
      Write(item, depth + 1);
    }
    if (!first && !flat) Line(depth);
    out += ']';
  }

  void WriteDict(const Node& node, int depth) {
    std::vector<const Entry*> entries;
    for (const Entry& entry : node.entries()) entries.push_back(&entry);
    if (style_.sorted) {
      std::sort(entries.begin(), entries.end(),
                [](const Entry* a, const Entry* b) { return a->key < b->key; });
    }
    out += '{';
    bool first = true;
    for (const Entry* entry : entries) {
      if (!first) out += ',';
      first = false;
      Line(depth + 1);
      AppendString(out, entry->key);
      out += style_.pretty ? ": " : ":";
      Write(entry->value, depth + 1);
    }
    if (!first) Line(depth);
    out += '}';
  }

  JsonStyle style_;
};

constexpr size_t kWidth = 96;

class YamlWriter {
 public:
  // Writes the value of a key, or of a list's dash: what follows "key:" or "-".
  void Value(const Node& node, size_t indent, bool in_list) {
    const bool tagged = !node.tag().empty() && !IsBigInt(node);
    std::string tag = tagged ? " " + Tag(node.tag()) : "";
    if (!node.IsContainer() || node.size() == 0) {
      out += tag + " " + Flow(node) + "\n";
      return;
    }
    if (Flat(node)) {
      std::string flow = Flow(node);
      size_t line = out.size() - (out.rfind('\n') == std::string::npos ? 0 : out.rfind('\n') + 1);
      if (line + flow.size() + tag.size() < kWidth) {
        out += tag + " " + flow + "\n";
        return;
      }
    }
    out += tag;
    // A dict in a list starts on the dash's line.
    if (in_list && tag.empty()) {
      out += ' ';
      Block(node, indent + 2, true);
      return;
    }
    out += '\n';
    Block(node, indent + (node.IsList() && !in_list ? 0 : 2), false);
  }

  void Block(const Node& node, size_t indent, bool first_inline) {
    bool pad = !first_inline;
    if (node.IsList()) {
      for (const Node& item : node.items()) {
        if (pad) out.append(indent, ' ');
        pad = true;
        out += '-';
        Value(item, indent, true);
      }
      return;
    }
    for (const Entry& entry : node.entries()) {
      if (pad) out.append(indent, ' ');
      pad = true;
      const std::string key = Text(entry.key, false);
      // Longer ones can't stand before a colon in the line. Counted in bytes, to be safe.
      constexpr size_t kLongestKey = 1000;
      if (key.size() > kLongestKey) {
        out += "? " + key + "\n";
        out.append(indent, ' ');
        out += ':';
      } else {
        out += key + ":";
      }
      Value(entry.value, indent, false);
    }
  }

  static std::string Flow(const Node& node) {
    switch (node.kind()) {
      case Kind::kFloat:
        return FloatText(node.AsDouble());
      case Kind::kString:
        if (IsBigInt(node)) return node.AsString();
        // A tagged plain scalar would be typed; its string must stay a string.
        return Text(node.AsString(), true);
      case Kind::kList: {
        std::string text = "[";
        for (const Node& item : node.items()) text += (text.size() > 1 ? ", " : "") + Flow(item);
        return text + "]";
      }
      case Kind::kDict:
        return "{}";
      default:
        return CanonicalScalar(node);
    }
  }

  std::string out;

 private:
  // Short where it is a word, else `!<...>` with escapes.
  static std::string Tag(std::string_view tag) {
    auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
    if (tag.size() > 1 && tag[0] == '!' && std::all_of(tag.begin() + 1, tag.end(), plain))
      return std::string(tag);
    std::string out = "!<";
    for (unsigned char c : tag) {
      if (plain(c) || c == '!' || c == '/' || c == ':' || c == '.' || c == ',') {
        out += static_cast<char>(c);
      } else {
        out += fmt::format("%{:02X}", c);
      }
    }
    return out + ">";
  }

  static std::string CanonicalScalar(const Node& node) {
    JsonWriter writer({});
    Node plain = node;
    plain.set_tag("");
    writer.Write(plain, 0);
    return writer.out;
  }

  static std::string Text(const std::string& text, bool value) {
    std::string escaped = value ? Escaped(text) : text;
    if (!NeedsQuotes(escaped)) return escaped;
    std::string out;
    AppendString(out, escaped);
    return EscapedForYaml(out);
  }

  // A list of untagged scalars.
  static bool Flat(const Node& node) {
    return node.IsList() &&
           std::none_of(node.items().begin(), node.items().end(), [](const Node& item) {
             return (item.IsContainer() && item.size() > 0) ||
                    (!item.tag().empty() && !IsBigInt(item));
           });
  }
};

}  // namespace

std::string CanonicalJson(const Node& node) {
  JsonWriter writer({});
  writer.Write(node, 0);
  return std::move(writer.out);
}

Hash128 Identity(const Node& node) { return HashBytes(CanonicalJson(node)); }

std::string PrettyJson(const Node& node) {
  JsonWriter writer({.sorted = false, .pretty = true, .escape = true});
  writer.Write(node, 0);
  return writer.out + "\n";
}

std::string PrettyYaml(const Node& node) {
  YamlWriter writer;
  if (!node.IsContainer() || node.size() == 0) return YamlWriter::Flow(node) + "\n";
  writer.Block(node, 0, false);
  return std::move(writer.out);
}

std::string Brief(const Node& node, size_t limit) {
  // Cut the tree before writing it: a message must not take as long as the config is large.
  Node cut = node;
  constexpr size_t kItems = 12;
  if (cut.IsList() && cut.size() > kItems) cut.mutable_items().resize(kItems);
  if (cut.IsDict() && cut.size() > kItems) {
    Node few = Node::Dict();
    for (size_t i = 0; i < kItems; ++i) few.Set(cut.entries()[i].key, cut.entries()[i].value);
    cut = few;
  }
  JsonWriter writer({.sorted = false, .bare = true});
  writer.Write(cut, 0);
  std::string text = std::move(writer.out);
  if (text.size() <= limit && cut.size() == node.size()) return text;
  return std::string(Utf8Head(text, limit)) + "...";
}

}  // namespace xp::config
