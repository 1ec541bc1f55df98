#include "src/config/placeholder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "src/config/suggest.h"

namespace xp::config {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMarkStart = "@@exp-base:";
constexpr std::string_view kMarkEnd = "@@";
constexpr size_t kMaxDefault = 4096;  // an environment default; many unclosed ones stay linear

bool Word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// {{$NAME:default}} with optional quotes inside the braces and spaces around the parts.
struct Environment {
  std::string name;
  std::string fallback;
  size_t length = 0;  // 0: not one
};

Environment ReadEnvironment(std::string_view text, size_t begin) {
  Environment found;
  size_t at = begin + 2;
  auto skip = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  };
  if (at < text.size() && (text[at] == '\'' || text[at] == '"')) ++at;
  skip();
  if (at >= text.size() || text[at] != '$') return found;
  size_t name = ++at;
  while (at < text.size() && Word(text[at])) ++at;
  std::string_view word = text.substr(name, at - name);
  skip();
  if (word.empty() || at >= text.size() || text[at] != ':') return found;
  ++at;
  const std::string_view rest = text.substr(at, kMaxDefault);
  const size_t end = rest.find("}}");
  if (end == std::string_view::npos || rest.find('\n') < end) return found;
  std::string_view fallback = rest.substr(0, end);
  if (!fallback.empty() && (fallback.back() == '\'' || fallback.back() == '"'))
    fallback.remove_suffix(1);
  while (!fallback.empty() && (fallback.front() == ' ' || fallback.front() == '\t'))
    fallback.remove_prefix(1);
  while (!fallback.empty() && (fallback.back() == ' ' || fallback.back() == '\t'))
    fallback.remove_suffix(1);
  found.name = word;
  found.fallback = fallback;
  found.length = at + end + 2 - begin;
  return found;
}

}  // namespace

std::string_view ReadName(std::string_view text, size_t begin, size_t* length) {
  size_t from = text.find_first_not_of(" \t", begin + 2);
  if (from == std::string_view::npos) return {};
  size_t end = from;
  while (end < text.size() && (Word(text[end]) || text[end] == '.')) ++end;
  size_t close = text.find_first_not_of(" \t", end);
  if (close == std::string_view::npos || text.substr(close, 2) != "}}") return {};
  *length = close + 2 - begin;
  return text.substr(from, end - from);
}

bool ReadPlaceholder(std::string_view text, size_t begin, const fs::path& file, const Origin& at,
                     std::string* replacement, size_t* length) {
  if (text.substr(begin, 2) != "{{") return false;
  Environment environment = ReadEnvironment(text, begin);
  if (environment.length > 0) {
    const char* value = std::getenv(environment.name.c_str());
    if (value == nullptr && environment.fallback.empty()) {
      throw UsageError(
          {.what = fmt::format("the environment variable {} isn't set", environment.name),
           .where = at.Text(),
           .expected = "",
           .next =
               fmt::format("set it, or give a default: {{{{${}:default}}}}", environment.name)});
    }
    *replacement = value == nullptr ? environment.fallback : value;
    *length = environment.length;
    return true;
  }
  std::string_view name = ReadName(text, begin, length);
  if (name.rfind("file", 0) != 0) return false;
  fs::path absolute = fs::absolute(file).lexically_normal();
  if (name == "fileDirname") {
    *replacement = absolute.parent_path().string();
  } else if (name == "fileBasename") {
    *replacement = absolute.filename().string();
  } else if (name == "fileBasenameNoExtension") {
    *replacement = absolute.stem().string();
  } else if (name == "fileExtname") {
    *replacement = absolute.extension().string();
  } else {
    return false;
  }
  return true;
}

std::string SubstituteText(std::string_view text, const fs::path& file, const Origin& at) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t open = text.find("{{", i);
    if (open == std::string_view::npos) return out.append(text.substr(i));
    out.append(text.substr(i, open - i));
    std::string replacement;
    size_t length = 0;
    if (ReadPlaceholder(text, open, file, at, &replacement, &length)) {
      out += replacement;
      i = open + length;
    } else {
      out += '{';
      i = open + 1;
    }
  }
  return out;
}

bool IsNullDefault(std::string_view text) {
  if (text.substr(0, 2) != "{{") return false;
  Environment environment = ReadEnvironment(text, 0);
  return environment.length == text.size() && environment.fallback == "None" &&
         std::getenv(environment.name.c_str()) == nullptr;
}

namespace {

// Whether a place of a YAML or JSON line is inside quotes, and which.
struct Quotes {
  char open = 0;
  bool escaped = false;  // the next character, by a backslash in double quotes
  void See(std::string_view text, size_t i) {
    char c = text[i];
    const bool taken = std::exchange(escaped, false);
    if (c == '\n') {
      open = 0;
    } else if (open == '"' && (taken || c == '\\')) {
      escaped = !taken;
    } else if (c == '"' && open != '\'') {
      open = open == '"' ? 0 : '"';
    } else if (c == '\'' && open != '"') {
      bool apostrophe = open == 0 && i > 0 && Word(text[i - 1]);
      if (!apostrophe) open = open == '\'' ? 0 : '\'';
    }
  }
};

// Goes through a file's text and writes what it becomes.
class Substitution {
 public:
  Substitution(std::string_view text, const fs::path& file, Places* places)
      : text_(text), file_(file), places_(places) {}

  std::string Run() {
    // Not a character for those who count columns.
    if (text_.starts_with(kByteOrderMark)) out_ = text_.substr(0, at_ = kByteOrderMark.size());
    while (at_ < text_.size()) {
      if (text_.compare(at_, 2, "{{") != 0 || !Placeholder()) Keep();
    }
    return std::move(out_);
  }

 private:
  void Keep() {
    const std::string_view c = text_.substr(at_, 1);
    quotes_.See(text_, at_++);
    from_.See(c);
    to_.See(c);
    out_ += c;
  }

  bool Placeholder() {
    const Origin at{InternName(file_.string()), from_.line, from_.column};
    std::string replacement;
    size_t length = 0;
    const std::string_view name = ReadName(text_, at_, &length);
    if (name.starts_with("_base_.")) {
      const char* quote = quotes_.open == 0 ? "\"" : "";
      Replace(length, fmt::format("{0}{1}{2}{3}{0}", quote, kMarkStart, name.substr(7), kMarkEnd));
      return true;
    }
    if (!ReadPlaceholder(text_, at_, file_, at, &replacement, &length)) return false;
    if (replacement == "None" && IsNullDefault(text_.substr(at_, length))) replacement = "null";
    std::string escaped;
    for (char c : replacement) {
      if (quotes_.open == '"' && (c == '\\' || c == '"')) escaped += '\\';
      if (quotes_.open == '\'' && c == '\'') escaped += '\'';
      escaped += c;
    }
    Replace(length, escaped);
    return true;
  }

  void Replace(size_t length, const std::string& by) {
    TextPlace from_end = from_, to_end = to_;
    from_end.See(text_.substr(at_, length));
    to_end.See(by);
    places_->Replaced(from_, from_end, to_, to_end);
    from_ = from_end;
    to_ = to_end;
    out_ += by;
    at_ += length;
  }

  std::string_view text_;
  const fs::path& file_;
  Places* places_;
  size_t at_ = 0;
  std::string out_;
  TextPlace from_, to_;
  Quotes quotes_;
};

}  // namespace

std::string SubstituteFile(std::string_view text, const fs::path& file, Places* places) {
  if (text.find("{{") == std::string_view::npos) return std::string(text);
  return Substitution(text, file, places).Run();
}

namespace {

// The base's value that a mark at `at` of the text names.
const Node& Marked(const Node& node, size_t at, const Node& bases, std::string* path,
                   size_t* after) {
  const std::string& text = node.AsString();
  const size_t from = at + kMarkStart.size();
  const size_t end = std::min(text.find(kMarkEnd, from), text.size());
  *path = text.substr(from, end - from);
  *after = std::min(end + kMarkEnd.size(), text.size());
  const Node* found = bases.At(*path);
  if (found != nullptr) return *found;
  std::vector<std::string> names;
  for (const Entry& entry : bases.entries()) names.push_back(entry.key);
  throw UsageError({.what = fmt::format("the bases have no key `{}`", *path),
                    .where = node.Where(),
                    .expected = "",
                    .next = DidYouMean(Nearest(*path, names))});
}

void ResolveMarks(Node& node, const Node& bases) {
  const std::string text = node.AsString();
  auto sources = std::make_shared<std::vector<Source>>();
  std::shared_ptr<const Layer> older;
  std::string note;
  std::string joined;
  const Node* whole = nullptr;
  size_t done = 0;
  for (size_t at = text.find(kMarkStart); at != std::string::npos;
       at = text.find(kMarkStart, done)) {
    joined += text.substr(done, at - done);
    std::string path;
    const Node& found = Marked(node, at, bases, &path, &done);
    note += (note.empty() ? "from " : ", ") + path;
    const bool alone = at == 0 && done == text.size();
    if (!alone && found.IsContainer()) {
      throw UsageError({.what = fmt::format("`{}` is {} and can't stand inside text", path,
                                            KindName(found.kind())),
                        .where = node.Where(),
                        .next = "let the placeholder be the whole value"});
    }
    sources->push_back({path, found.IsContainer() ? nullptr : std::make_shared<const Node>(found)});
    if (alone) {
      whole = &found;
      older = found.history();
    } else {
      joined += found.IsString() ? found.AsString() : CanonicalJson(found);
    }
  }
  joined += text.substr(done);
  Node value = whole != nullptr ? *whole : Node(joined);
  value.set_origin(node.origin());
  auto layer = std::make_shared<Layer>();
  layer->action = Action::kComputed;
  layer->at = node.origin();
  layer->value = value;
  layer->value.set_history(nullptr);
  layer->from = std::move(sources);
  layer->note = std::move(note);
  layer->older = std::move(older);
  value.set_history(std::move(layer));
  node = std::move(value);
}

}  // namespace

void ResolveBaseMarks(Node& node, const Node& bases) {
  if (node.IsString()) {
    if (node.AsString().find(kMarkStart) != std::string::npos) ResolveMarks(node, bases);
    return;
  }
  if (node.IsList()) {
    for (size_t i = 0; i < node.size(); ++i) ResolveBaseMarks(node.mutable_items()[i], bases);
  } else if (node.IsDict()) {
    for (size_t i = 0; i < node.size(); ++i)
      ResolveBaseMarks(*node.FindMutable(node.entries()[i].key), bases);
  }
}

}  // namespace xp::config
