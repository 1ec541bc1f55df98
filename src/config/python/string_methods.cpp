// The methods of str. Those that depend on letters know ASCII's only and refuse others, rather than
// be wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/config/python/evaluator.h"
#include "src/config/python/text_search.h"

namespace xp::config::python {
namespace {

constexpr int64_t kMaxWidth = 1000;

// isalpha and its kin, of ASCII.
bool IsAll(const std::string& name, const std::string& text) {
  auto all = [&](int (*test)(int)) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [&](char c) { return test(c) != 0; });
  };
  if (name == "isalpha") return all(std::isalpha);
  if (name == "isalnum") return all(std::isalnum);
  if (name == "isspace") return !text.empty() && StripBlanks(text, true, false).empty();
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

Value Evaluator::Strings(const Ast& at, std::vector<std::string> parts, Type type) {
  std::vector<Value> values;
  values.reserve(parts.size());
  for (std::string& part : parts) {
    Charge(at, sizeof(Value) + part.size());
    values.push_back(Value::String(std::move(part)));
  }
  return arena_.List(std::move(values), type);
}

// split, rsplit, partition, rpartition, splitlines.
Value Evaluator::Split(const Ast& at, const std::string& name, const Value& self,
                       Arguments& arguments) {
  auto& given = arguments.positional;
  const std::string& text = self.Text();
  if (name == "splitlines") {
    PutKeyword(arguments, "keepends", 0);
    Need(at, arguments, 0, 1, name);
    return Strings(at, SplitLines(text, !given.empty() && Truthy(given[0])), Type::kList);
  }
  const bool partition = name == "partition" || name == "rpartition";
  const bool right = name[0] == 'r';
  if (!partition) {
    PutKeyword(arguments, "sep", 0);
    PutKeyword(arguments, "maxsplit", 1);
  }
  Need(at, arguments, partition ? 1 : 0, partition ? 1 : 2, name);
  const bool blanks = !partition && (given.empty() || given[0].type == Type::kNone);
  if (!blanks && given[0].type != Type::kString)
    Fail(at, fmt::format("str.{}() takes a string", name));
  if (!blanks && given[0].Text().empty()) Fail(at, "an empty separator");
  if (given.size() > 1 && !given[1].IsIntegral())
    Fail(at, fmt::format("str.{}() splits an int of times", name));
  const int64_t most = given.size() > 1 ? given[1].AsInt() : -1;
  if (blanks) return Strings(at, SplitBlanks(text, most, right), Type::kList);
  const std::string& separator = given[0].Text();
  LookFor(at, separator, text);
  if (!partition) return Strings(at, SplitBy(text, separator, most, right), Type::kList);
  std::vector<std::string> parts = SplitBy(text, separator, 1, right);
  if (parts.size() == 2) {
    parts.insert(parts.begin() + 1, separator);
  } else {
    parts.resize(3);
    if (right) std::swap(parts[0], parts[2]);
  }
  return Strings(at, std::move(parts), Type::kTuple);
}

// count, find, index, rfind, rindex, startswith, endswith: between two positions.
Value Evaluator::Search(const Ast& at, const std::string& name, const Value& self,
                        Arguments& arguments) {
  Need(at, arguments, 1, 3, name);
  const auto& given = arguments.positional;
  auto bound = [&](size_t i, int64_t missing) {
    if (given.size() <= i || given[i].type == Type::kNone) return missing;
    if (!given[i].IsIntegral()) Fail(at, fmt::format("str.{}()'s positions are ints", name));
    return given[i].AsInt();
  };
  const std::string_view text = self.Text();
  const Window window = WindowOf(text, bound(1, 0), bound(2, INT64_MAX));
  const std::string_view part = text.substr(window.from, window.to - window.from);
  const bool starts = name == "startswith";
  const bool options = (starts || name == "endswith") && given[0].type == Type::kTuple;
  bool matches = false;
  for (const Value& option : options ? given[0].list->items : std::vector<Value>{given[0]}) {
    if (option.type != Type::kString) Fail(at, fmt::format("str.{}() takes a string", name));
    matches = matches || (window.inside && (starts ? part.starts_with(option.Text())
                                                   : part.ends_with(option.Text())));
  }
  if (starts || name == "endswith") return Value::Bool(matches);
  const std::string& what = given[0].Text();
  LookFor(at, what, part);
  if (name == "count") {
    if (!window.inside) return Value::Int(0);
    if (what.empty()) return Value::Int(static_cast<int64_t>(window.characters) + 1);
    int64_t count = 0;
    for (size_t hit = part.find(what); hit != std::string_view::npos;
         hit = part.find(what, hit + what.size()))
      ++count;
    return Value::Int(count);
  }
  const size_t hit = !window.inside   ? std::string_view::npos
                     : name[0] == 'r' ? part.rfind(what)
                                      : part.find(what);
  if (hit != std::string_view::npos)
    return Value::Int(static_cast<int64_t>(CountCharacters(text.substr(0, window.from + hit))));
  if (name == "index" || name == "rindex") Fail(at, fmt::format("str.{}() finds nothing", name));
  return Value::Int(-1);
}

// zfill, center, ljust, rjust
Value Evaluator::Widen(const Ast& at, const std::string& name, const Value& self,
                       Arguments& arguments) {
  Need(at, arguments, 1, name == "zfill" ? 1 : 2, name);
  const auto& given = arguments.positional;
  if (!given[0].IsIntegral() || given[0].AsInt() > kMaxWidth)
    Fail(at, fmt::format("str.{}() takes an int up to 1000", name));
  if (given.size() > 1 && (given[1].type != Type::kString || CountCharacters(given[1].Text()) != 1))
    Fail(at, "the fill character is a string of one character");
  const std::string& text = self.Text();
  const auto width = static_cast<size_t>(std::max<int64_t>(0, given[0].AsInt()));
  const size_t size = CountCharacters(text);
  const size_t missing = width > size ? width - size : 0;
  auto fill = [&](size_t count) {
    std::string out;
    for (; count > 0; --count) out += given.size() > 1 ? given[1].Text() : " ";
    return out;
  };
  if (name == "zfill") {
    const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
    std::string out = text;
    out.insert(sign ? 1 : 0, missing, '0');
    return Value::String(std::move(out));
  }
  // As CPython: of an odd rest the left gets more when the width is odd.
  const size_t left = name == "ljust"   ? 0
                      : name == "rjust" ? missing
                                        : missing / 2 + (missing & width & 1);
  return Value::String(fill(left) + text + fill(missing - left));
}

Value Evaluator::Replace(const Ast& at, const std::string& text, Arguments& arguments) {
  Need(at, arguments, 2, 3, "replace");
  const auto& given = arguments.positional;
  if (given[0].type != Type::kString || given[1].type != Type::kString)
    Fail(at, "str.replace() takes strings");
  if (given.size() > 2 && !given[2].IsIntegral())
    Fail(at, "str.replace() replaces an int of times");
  const std::string& from = given[0].Text();
  const std::string& to = given[1].Text();
  int64_t most = given.size() > 2 ? given[2].AsInt() : -1;
  std::string out;
  if (from.empty()) {  // Python puts `to` before each character and at the end
    for (size_t pos = 0;;) {
      if (most != 0) {
        Charge(at, to.size() + 1);
        out += to;
        --most;
      }
      const std::string_view character = FirstCharacter(std::string_view(text).substr(pos));
      if (character.empty()) return Value::String(std::move(out));
      out += character;
      pos += character.size();
    }
  }
  LookFor(at, from, text);
  size_t pos = 0;
  for (size_t hit = text.find(from); hit != std::string::npos && most != 0;
       hit = text.find(from, pos)) {
    Charge(at, to.size() + 1);
    out.append(text, pos, hit - pos).append(to);
    pos = hit + from.size();
    --most;
  }
  return Value::String(out.append(text, pos));
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
      Charge(at, item.Text().size() + text.size());
      if (!first) out += text;
      out += item.Text();
      first = false;
      from = Join(from, item.from);
    }
    Value joined = Value::String(std::move(out));
    joined.from = from;
    return joined;
  }
  const bool cases = name == "lower" || name == "upper" || name == "title" ||
                     name == "capitalize" || name == "swapcase" || name == "casefold";
  if (cases || name.rfind("is", 0) == 0) {
    Need(at, arguments, 0, 0, name);
    if (!IsAscii(text) && name != "isspace")
      Fail(at, fmt::format("str.{}() knows ASCII letters only", name));
    return cases ? Value::String(WithCase(name, text)) : Value::Bool(IsAll(name, text));
  }
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    Need(at, arguments, 0, 1, name);
    const bool left = name != "rstrip", right = name != "lstrip";
    const bool blanks = given.empty() || given[0].type == Type::kNone;
    if (!blanks) LookFor(at, word(0), text);
    return Value::String(std::string(blanks ? StripBlanks(text, left, right)
                                            : StripAny(text, word(0), left, right)));
  }
  if (name == "removeprefix" || name == "removesuffix") {
    Need(at, arguments, 1, 1, name);
    std::string_view rest = text;
    if (name == "removeprefix" && rest.starts_with(word(0))) rest.remove_prefix(word(0).size());
    if (name == "removesuffix" && rest.ends_with(word(0))) rest.remove_suffix(word(0).size());
    return Value::String(std::string(rest));
  }
  if (name == "replace") return Replace(at, text, arguments);
  if (name == "split" || name == "rsplit" || name == "partition" || name == "rpartition" ||
      name == "splitlines") {
    return Split(at, name, self, arguments);
  }
  if (name == "zfill" || name == "center" || name == "ljust" || name == "rjust")
    return Widen(at, name, self, arguments);
  return Search(at, name, self, arguments);
}

}  // namespace xp::config::python
