// The methods of str. Those that depend on letters know ASCII's only and refuse others, rather than
// be wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

constexpr const char* kSpace = " \t\n\r\f\v";
constexpr int64_t kMaxWidth = 1000;

std::string Stripped(const std::string& text, const std::string& what, bool left, bool right) {
  size_t from = left ? text.find_first_not_of(what) : 0;
  if (from == std::string::npos) return "";
  size_t to = right ? text.find_last_not_of(what) + 1 : text.size();
  return to <= from ? "" : text.substr(from, to - from);
}

bool Ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; });
}

// isalpha and its kin, of ASCII.
bool IsAll(const std::string& name, const std::string& text) {
  auto all = [&](int (*test)(int)) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [&](char c) { return test(c) != 0; });
  };
  if (name == "isalpha") return all(std::isalpha);
  if (name == "isalnum") return all(std::isalnum);
  if (name == "isspace") return all(std::isspace);
  if (name == "isdigit" || name == "isdecimal" || name == "isnumeric") return all(std::isdigit);
  if (name == "isidentifier") {
    return !text.empty() && std::isdigit(text[0]) == 0 &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return std::isalnum(c) != 0 || c == '_'; });
  }
  auto any = [&](int (*test)(int)) {
    return std::any_of(text.begin(), text.end(), [&](char c) { return test(c) != 0; });
  };
  if (name == "islower") return any(std::islower) && !any(std::isupper);
  return any(std::isupper) && !any(std::islower);  // isupper
}

std::string WithCase(const std::string& name, const std::string& text) {
  std::string out = text;
  bool start = true;
  for (char& c : out) {
    bool letter = std::isalpha(c) != 0;
    bool up = name == "upper" || (name == "swapcase" && std::islower(c) != 0) ||
              ((name == "title" || name == "capitalize") && start);
    if (letter) c = static_cast<char>(up ? std::toupper(c) : std::tolower(c));
    start = name == "title" && !letter;
  }
  return out;
}

}  // namespace

// split, rsplit, partition, rpartition, splitlines.
Value Evaluator::Split(const Ast& at, const std::string& name, const Value& self,
                       Arguments& arguments) {
  auto& given = arguments.positional;
  for (auto& [word, value] : arguments.keywords) {
    if (word == "sep" && given.empty()) given.push_back(value);
    if (word == "maxsplit" && given.empty()) given.push_back(Value::None());
    if (word == "maxsplit" && given.size() == 1) given.push_back(value);
  }
  const std::string& text = self.Text();
  const bool partition = name == "partition" || name == "rpartition";
  const bool spaces = given.empty() || given[0].type == Type::kNone;
  if (!spaces && given[0].type != Type::kString)
    Fail(at, fmt::format("str.{}() takes a string", name));
  const std::string separator = spaces ? "" : given[0].Text();
  if (!spaces && separator.empty()) Fail(at, "an empty separator");
  if (partition && spaces) Fail(at, fmt::format("str.{}() takes a string", name));
  std::vector<std::string> parts;
  if (name == "splitlines") {
    for (size_t from = 0; from < text.size();) {
      size_t end = std::min(text.find_first_of("\r\n", from), text.size());
      parts.push_back(text.substr(from, end - from));
      bool both = end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n';
      from = end + (both ? 2 : 1);
    }
  } else {
    int64_t most = given.size() > 1 && given[1].IsIntegral() ? given[1].AsInt() : -1;
    if (partition) most = 1;
    const bool right = name[0] == 'r';
    std::string rest = spaces ? Stripped(text, kSpace, true, true) : text;
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
      size_t hit = spaces ? (right ? rest.find_last_of(kSpace) : rest.find_first_of(kSpace))
                          : (right ? rest.rfind(separator) : rest.find(separator));
      if (hit == std::string::npos) break;
      Charge(at, sizeof(Value) + rest.size());
      size_t after = hit + (spaces ? 1 : separator.size());
      parts.push_back(right ? rest.substr(after) : rest.substr(0, hit));
      rest = right ? rest.substr(0, hit) : rest.substr(after);
      if (spaces) rest = Stripped(rest, kSpace, !right, right);
    }
    if (!spaces || !rest.empty()) parts.push_back(rest);
    if (right) std::reverse(parts.begin(), parts.end());
  }
  if (partition) {
    const bool found = parts.size() == 2;
    std::vector<std::string> three{found ? parts[0] : "", found ? separator : "",
                                   found ? parts[1] : ""};
    if (!found) three[name == "partition" ? 0 : 2] = text;
    parts = three;
  }
  std::vector<Value> values;
  values.reserve(parts.size());
  for (std::string& part : parts) values.push_back(Value::String(std::move(part)));
  Charge(at, values.size() * sizeof(Value) + text.size());
  return arena_.List(std::move(values), partition ? Type::kTuple : Type::kList);
}

Value Evaluator::StringMethod(const Ast& at, const std::string& name, const Value& self,
                              Arguments& arguments) {
  const std::string& text = self.Text();
  auto& given = arguments.positional;
  auto word = [&](size_t i) -> const std::string& {
    if (i >= given.size() || given[i].type != Type::kString)
      Fail(at, fmt::format("str.{}() takes a string", name));
    return given[i].Text();
  };
  if (name == "format" || name == "format_map") {
    if (name == "format_map") {
      Need(at, arguments, 1, 1, name);
      if (given[0].type != Type::kDict) Fail(at, "str.format_map() takes a dict");
      for (const DictObject::Pair& pair : given[0].dict->pairs)
        arguments.keywords.emplace_back(KeyText(pair.key), pair.value);
      given.clear();
    }
    size_t next = 0;
    return Value::String(FormatTemplate(at, text, arguments, &next));
  }
  if (name == "join") {
    Need(at, arguments, 1, 1, "join");
    std::string out;
    bool first = true;
    Sources from;
    for (const Value& item : Iterate(at, given[0])) {
      if (item.type != Type::kString)
        Fail(at, fmt::format("str.join() takes strings, one is {}", WithArticle(item.type)));
      out += (first ? "" : text) + item.Text();
      first = false;
      from = Join(from, item.from);
      Charge(at, item.Text().size() + text.size());
    }
    Value joined = Value::String(std::move(out));
    joined.from = from;
    return joined;
  }
  const bool cases = name == "lower" || name == "upper" || name == "title" ||
                     name == "capitalize" || name == "swapcase" || name == "casefold";
  if (cases || name.rfind("is", 0) == 0) {
    if (!Ascii(text)) Fail(at, fmt::format("str.{}() knows ASCII letters only", name));
    return cases ? Value::String(WithCase(name, text)) : Value::Bool(IsAll(name, text));
  }
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    std::string what = given.empty() || given[0].type == Type::kNone ? kSpace : word(0);
    if (!Ascii(what)) Fail(at, fmt::format("str.{}() knows ASCII letters only", name));
    return Value::String(Stripped(text, what, name != "rstrip", name != "lstrip"));
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string& part = word(0);
    if (part.size() > text.size()) return Value::String(text);
    size_t from = name == "removeprefix" ? 0 : text.size() - part.size();
    if (text.compare(from, part.size(), part) != 0) return Value::String(text);
    return Value::String(from == 0 && name == "removeprefix" ? text.substr(part.size())
                                                             : text.substr(0, from));
  }
  if (name == "replace") {
    const std::string& from = word(0);
    const std::string& to = word(1);
    int64_t most = given.size() > 2 && given[2].IsIntegral() ? given[2].AsInt() : -1;
    std::string out;
    if (from.empty()) {  // Python puts `to` before each character and at the end
      std::vector<std::string> characters = Characters(text);
      characters.emplace_back();
      for (const std::string& character : characters) {
        if (most != 0) {
          out += to;
          --most;
        }
        out += character;
        Charge(at, to.size() + 1);
      }
      return Value::String(std::move(out));
    }
    size_t pos = 0;
    for (size_t hit = text.find(from); hit != std::string::npos && most != 0;
         hit = text.find(from, pos)) {
      out.append(text, pos, hit - pos).append(to);
      pos = hit + from.size();
      --most;
      Charge(at, to.size() + 1);
    }
    return Value::String(out.append(text, pos));
  }
  if (name == "split" || name == "rsplit" || name == "partition" || name == "rpartition" ||
      name == "splitlines") {
    return Split(at, name, self, arguments);
  }
  if (name == "zfill" || name == "center" || name == "ljust" || name == "rjust") {
    Need(at, arguments, 1, name == "zfill" ? 1 : 2, name);
    if (!given[0].IsIntegral() || given[0].AsInt() > kMaxWidth)
      Fail(at, fmt::format("str.{}() takes an int up to 1000", name));
    const std::string fill = given.size() > 1 ? word(1) : " ";
    if (fill.size() != 1) Fail(at, "a fill character is one ASCII letter");
    auto width = static_cast<size_t>(std::max<int64_t>(0, given[0].AsInt()));
    size_t size = Characters(text).size();
    size_t missing = width > size ? width - size : 0;
    if (name == "zfill") {
      bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
      std::string zeros(missing, '0');
      return Value::String(sign ? text[0] + zeros + text.substr(1) : zeros + text);
    }
    // As CPython: of an odd rest the left gets more when the width is odd.
    size_t left = name == "ljust"   ? 0
                  : name == "rjust" ? missing
                                    : missing / 2 + (missing & width & 1);
    return Value::String(std::string(left, fill[0]) + text + std::string(missing - left, fill[0]));
  }
  if (name == "startswith" || name == "endswith") {
    Need(at, arguments, 1, 1, name);
    std::vector<Value> options =
        given[0].type == Type::kTuple ? given[0].list->items : std::vector<Value>{given[0]};
    for (const Value& option : options) {
      if (option.type != Type::kString) Fail(at, fmt::format("str.{}() takes a string", name));
      const std::string& part = option.Text();
      if (part.size() > text.size()) continue;
      size_t from = name == "startswith" ? 0 : text.size() - part.size();
      if (text.compare(from, part.size(), part) == 0) return Value::Bool(true);
    }
    return Value::Bool(false);
  }
  if (name == "count") {
    const std::string& part = word(0);
    if (part.empty()) return Value::Int(static_cast<int64_t>(Characters(text).size()) + 1);
    int64_t count = 0;
    for (size_t hit = text.find(part); hit != std::string::npos;
         hit = text.find(part, hit + part.size()))
      ++count;
    return Value::Int(count);
  }
  // find, rfind, index, rindex: positions count characters.
  if (!Ascii(text) || given.size() > 2)
    Fail(at, fmt::format("str.{}() takes ASCII text and a start at most", name));
  const bool right = name[0] == 'r';
  size_t start = 0;
  if (given.size() == 2) {
    if (!given[1].IsIntegral()) Fail(at, "a start is an int");
    int64_t from = given[1].AsInt();
    auto size = static_cast<int64_t>(text.size());
    start = static_cast<size_t>(std::clamp<int64_t>(from < 0 ? from + size : from, 0, size));
  }
  size_t hit = right ? text.rfind(word(0)) : text.find(word(0), start);
  if (hit != std::string::npos && hit < start) hit = std::string::npos;
  if (hit == std::string::npos && (name == "index" || name == "rindex"))
    Fail(at, fmt::format("str.{}() finds nothing", name));
  return Value::Int(hit == std::string::npos ? -1 : static_cast<int64_t>(hit));
}

}  // namespace xp::config::python
