// Secrets that neither their beginning nor a name tells, but the format or the command they are in.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "src/snapshot/token_shapes.h"

namespace xp::snapshot {
namespace {

bool Starts(std::string_view text, size_t at, std::string_view with) {
  return text.substr(at, with.size()) == with;
}

// What follows up to the line's end, lines that a backslash joins included.
std::string_view CommandLine(std::string_view text, size_t at) {
  size_t end = text.find('\n', at);
  while (end != std::string_view::npos && end > at && text[end - 1] == '\\') {
    end = text.find('\n', end + 1);
  }
  return text.substr(at, end == std::string_view::npos ? end : end - at);
}

bool IsQuote(char c) { return c == '"' || c == '\''; }
bool IsWordOfShell(char c) {
  return std::isgraph(static_cast<unsigned char>(c)) && !IsQuote(c) && c != '`';
}

// The text in quotes at or behind `at`, blanks aside; size 0 where none begins there.
TokenMatch Quoted(std::string_view text, size_t at) {
  at += RunLength(text, at, [](char c) { return c == ' ' || c == '\n'; });
  if (at >= text.size() || !IsQuote(text[at])) return {};
  char quote = text[at];
  size_t n = RunLength(text, at + 1, [&](char c) { return c != quote && c != '\n'; });
  return {at + 1, n, "named-secret"};
}

// PuTTY's key file: "Private-Lines: 14" and so many lines of base64.
TokenMatch PuttyKey(std::string_view text, size_t at) {
  constexpr std::string_view kHead = "Private-Lines: ";
  if (!Starts(text, at, kHead) || (at > 0 && text[at - 1] != '\n')) return {};
  size_t lines = 0, number = at + kHead.size();
  const char* after = std::from_chars(text.data() + number, text.data() + text.size(), lines).ptr;
  size_t begin = text.find_first_not_of('\r', static_cast<size_t>(after - text.data()));
  if (begin == std::string_view::npos || text[begin] != '\n') return {};
  size_t end = begin;
  for (size_t i = 0; i < std::min<size_t>(lines, 1000) && end != std::string_view::npos; ++i) {
    end = text.find('\n', end + 1);
  }
  if (lines == 0) return {};
  ++begin;
  return {begin, (end == std::string_view::npos ? text.size() : end) - begin, "private-key"};
}

// {"username":"me","key":"32 hex digits"}.
TokenMatch KaggleKey(std::string_view text, size_t at) {
  if (!Starts(text, at, "username\"")) return {};
  size_t key = text.find("\"key\"", at);
  if (key == std::string_view::npos || key > at + 200) return {};
  size_t colon = key + 5 + RunLength(text, key + 5, [](char c) { return c == ' '; });
  if (colon >= text.size() || text[colon] != ':') return {};
  TokenMatch value = Quoted(text, colon + 1);
  return value.size >= 20 && LooksSecret(text.substr(value.begin, value.size)) ? value
                                                                               : TokenMatch{};
}

// wandb.login(key="..."), login("...").
TokenMatch LoginCall(std::string_view text, size_t at) {
  if (!Starts(text, at, "login(")) return {};
  std::string_view call = text.substr(at, text.find(')', at) - at);
  size_t key = call.find("key=");
  TokenMatch value = Quoted(text, key == std::string_view::npos ? at + 6 : at + key + 4);
  return value.kind && LooksSecret(text.substr(value.begin, value.size)) ? value : TokenMatch{};
}

// auth=("me", "..."), HTTPBasicAuth("me", "...").
TokenMatch PairOfAuth(std::string_view text, size_t at) {
  size_t open = 0;
  for (std::string_view with : {"auth=(", "auth = (", "HTTPBasicAuth(", "HTTPDigestAuth("}) {
    if (Starts(text, at, with)) open = at + with.size();
  }
  if (open == 0) return {};
  TokenMatch user = Quoted(text, open);
  size_t comma = user.kind ? user.begin + user.size + 1 : text.size();
  if (comma >= text.size() || text[comma] != ',') return {};
  TokenMatch value = Quoted(text, comma + 1);
  return value.kind && Plausible(text.substr(value.begin, value.size)) ? value : TokenMatch{};
}

// Programs whose options take a password: `curl -u me:PASSWORD`, `sshpass -p PASSWORD`,
// `docker login -p PASSWORD`, `mysql -pPASSWORD`.
struct Command {
  std::string_view name, option;
  bool behind_colon, joined;
};
constexpr Command kCommands[] = {
    {"curl ", " -u", true, false},       {"curl ", " --user", true, false},
    {"wget ", " --user", true, false},   {"sshpass ", " -p", false, false},
    {"sshpass ", " -p", false, true},    {"login ", " -p", false, false},
    {"mysql ", " -p", false, true},      {"mysqldump ", " -p", false, true},
    {"mysqladmin ", " -p", false, true}, {"mariadb ", " -p", false, true},
};

TokenMatch OptionOf(const Command& command, std::string_view text, size_t at) {
  std::string_view line = CommandLine(text, at + command.name.size() - 1);
  size_t option = line.find(command.option);
  if (option == std::string_view::npos) return {};
  size_t i = at + command.name.size() - 1 + option + command.option.size();
  size_t blanks = RunLength(text, i, [](char c) { return c == ' ' || c == '='; });
  if ((blanks == 0) != command.joined) return {};
  i += blanks;
  if (i < text.size() && IsQuote(text[i])) ++i;
  size_t n = RunLength(text, i, IsWordOfShell);
  if (command.behind_colon) {
    size_t colon = text.substr(i, n).find(':');
    if (colon == std::string_view::npos) return {};
    i += colon + 1, n -= colon + 1;
  }
  if (!Plausible(text.substr(i, n))) return {};
  return {i, n, "named-secret"};
}

}  // namespace

TokenMatch MatchWritten(std::string_view text, size_t at) {
  using Match = TokenMatch (*)(std::string_view, size_t);
  for (Match match : {PuttyKey, KaggleKey, LoginCall, PairOfAuth}) {
    if (TokenMatch m = match(text, at); m.kind && m.size > 0) return m;
  }
  for (const Command& command : kCommands) {
    if (!Starts(text, at, command.name)) continue;
    if (TokenMatch m = OptionOf(command, text, at); m.kind && m.size > 0) return m;
  }
  return {};
}

}  // namespace xp::snapshot
