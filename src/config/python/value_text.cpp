// Values as text: str(), repr(), ascii(), and what messages show.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "src/config/python/text_search.h"
#include "src/config/python/value.h"

namespace xp::config::python {
namespace {

constexpr int kMaxDepth = 150;
constexpr size_t kMaxText = 16 << 20;
constexpr size_t kMaxShown = 1000;

struct Range {
  uint32_t first, last;
};

// Beyond ASCII, what str.isprintable() refuses: other spaces, controls, marks of format, private
// use. (CPython also escapes what its Unicode version doesn't assign.)
constexpr Range kEscaped[] = {
    {0x80, 0xa0},     {0xad, 0xad},     {0x600, 0x605},   {0x61c, 0x61c},
    {0x6dd, 0x6dd},   {0x70f, 0x70f},   {0x1680, 0x1680}, {0x180e, 0x180e},
    {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000},
    {0xd800, 0xf8ff}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, 0x10ffff}};

bool Escaped(uint32_t code) {
  for (const Range& range : kEscaped) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

std::string Escape(uint32_t code) {
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

// Of its first `most` bytes.
std::string QuotedRepr(std::string_view text, size_t most) {
  char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size() && at < most;) {
    const std::string_view character = FirstCharacter(text.substr(at));
    const uint32_t code = CodePoint(character);
    at += character.size();
    if (character[0] == quote || code == '\\') {
      out.append(1, '\\').append(character);
    } else if (code == '\n' || code == '\t' || code == '\r') {
      out += code == '\n' ? "\\n" : code == '\t' ? "\\t" : "\\r";
    } else if (code < 0x20 || code == 0x7f || Escaped(code)) {
      out += Escape(code);
    } else {
      out += character;
    }
  }
  return out + quote;
}

class Writer {
 public:
  // `exact`: Python's own text, or a message; else what a message can show.
  explicit Writer(bool exact) : exact_(exact) {}

  std::string Text(const Value& value) {
    Repr(value, 0);
    return std::move(out_);
  }

 private:
  void Repr(const Value& value, int depth) {
    if (depth > kMaxDepth || out_.size() > (exact_ ? kMaxText : kMaxShown)) {
      if (exact_) throw std::string("the value is nested too deeply or too long for a text");
      out_ += "...";
      return;
    }
    switch (value.type) {
      case Type::kString:
        out_ += QuotedRepr(value.Text(), exact_ ? value.Text().size() : kMaxShown);
        return;
      case Type::kList:
      case Type::kTuple:
        return Sequence(value, depth);
      case Type::kDict:
        return Dict(value, depth);
      case Type::kSet:
        return Set(value, depth);
      default:
        Plain(value);
    }
  }

  // What is neither a string nor a container.
  void Plain(const Value& value) {
    switch (value.type) {
      case Type::kNone:
        out_ += "None";
        return;
      case Type::kBool:
        out_ += value.boolean ? "True" : "False";
        return;
      case Type::kInt:
        out_ += std::to_string(value.integer);
        return;
      case Type::kFloat:
        out_ += FloatRepr(value.number);
        return;
      case Type::kBig:
        out_ += value.Text();
        return;
      case Type::kLazy:
        out_ += value.lazy->name.empty() ? value.lazy->module : value.lazy->name;
        return;
      case Type::kEllipsis:
        out_ += "Ellipsis";
        return;
      default:
        if (exact_)
          throw fmt::format("{} has no text that a config can use", WithArticle(value.type));
        out_ += fmt::format("<{}>", TypeName(value.type));
    }
  }

  template <class Items, class Write>
  void Joined(const Items& items, Write write) {
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ", ";
      first = false;
      write(item);
    }
  }

  void Sequence(const Value& value, int depth) {
    const bool list = value.type == Type::kList;
    if (exact_ && NoOrder(value)) throw std::string(kNoOrder);
    out_ += list ? '[' : '(';
    Joined(value.list->items, [&](const Value& item) { Repr(item, depth + 1); });
    if (!list && value.list->items.size() == 1) out_ += ',';
    out_ += list ? ']' : ')';
  }

  void Dict(const Value& value, int depth) {
    if (exact_ && value.dict->ordered)
      throw std::string("an OrderedDict has no text that a config can use");
    out_ += '{';
    Joined(value.dict->pairs, [&](const DictObject::Pair& pair) {
      Repr(pair.key, depth + 1);
      out_ += ": ";
      Repr(pair.value, depth + 1);
    });
    out_ += '}';
  }

  void Set(const Value& value, int depth) {
    if (value.dict->pairs.empty()) {
      out_ += "set()";
      return;
    }
    if (exact_ && NoOrder(value)) throw std::string(kNoOrder);
    out_ += '{';
    Joined(value.dict->pairs, [&](const DictObject::Pair& pair) { Repr(pair.key, depth + 1); });
    out_ += '}';
  }

  bool exact_;
  std::string out_;
};

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Python: shortest digits, exponent form below 1e-4 and from 1e16 on.
  char buffer[400];
  double magnitude = std::abs(value);
  bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value,
                    scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer, end);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string Str(const Value& value) {
  return value.type == Type::kString ? value.Text() : Repr(value);
}

std::string Repr(const Value& value) { return Writer(true).Text(value); }

std::string Ascii(const Value& value) {
  const std::string text = Repr(value);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = FirstCharacter(std::string_view(text).substr(at));
    const uint32_t code = CodePoint(character);
    out += code < 0x80 ? std::string(character) : Escape(code);
    at += character.size();
  }
  return out;
}

std::string KeyText(const Value& key) {
  return key.type == Type::kString ? key.Text() : Shown(key);
}

std::string Shown(const Value& value) { return Writer(false).Text(value); }

uint32_t CodePoint(std::string_view character) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0xffU >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3fU);
  return code;
}

uint64_t Magnitude(const Value& value) {
  if (value.type == Type::kBig) return std::strtoull(value.Text().c_str(), nullptr, 10);
  const int64_t number = value.AsInt();
  return number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
}

}  // namespace xp::config::python
