#include "src/snapshot/token_shapes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace xp::snapshot {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// JSON web token: three base64url parts, the first of which is `{"` encoded.
TokenMatch MatchJwt(std::string_view text, size_t at) {
  if (text.substr(at, 3) != "eyJ") return {};
  size_t end = at;
  for (int part = 0; part < 3; ++part) {
    size_t n = RunLength(text, end, IsTokenChar);
    if (n < 8) return {};
    end += n;
    if (part < 2 && (end >= text.size() || text[end++] != '.')) return {};
  }
  return {at, end - at, "json-web-token"};
}

TokenMatch MatchPrivateKey(std::string_view text, size_t at) {
  if (text.substr(at, 11) != "-----BEGIN ") return {};
  size_t line = text.find("PRIVATE KEY", at);
  if (line == std::string_view::npos || line > at + 40) return {};
  size_t end = text.find("-----END ", line);
  if (end == std::string_view::npos) return {at, text.size() - at, "private-key"};
  size_t dashes = text.find("-----", end + 9);
  end = dashes == std::string_view::npos ? text.size() : dashes + 5;
  return {at, end - at, "private-key"};
}

// user:password@ or token@ behind "://". A password may hold an '@' itself: the last one counts.
TokenMatch MatchUrl(std::string_view text, size_t at) {
  if (text.substr(at, 3) != "://") return {};
  size_t begin = at + 3;
  auto inside = [](char c) {
    return std::isgraph(static_cast<unsigned char>(c)) && c != '/' && c != '"' && c != '\'' &&
           c != '<' && c != '>' && c != '?' && c != '#';
  };
  std::string_view authority = text.substr(begin, RunLength(text, begin, inside));
  size_t n = authority.rfind('@');
  if (n == std::string_view::npos || n == 0) return {};
  std::string_view user = authority.substr(0, n);
  // A name alone is how ssh says who asks; in http it is a token.
  bool name = user.find(':') == std::string_view::npos;
  bool ssh = at >= 3 && (text.substr(at - 3, 3) == "ssh" || text.substr(at - 3, 3) == "ftp");
  if (user == "git" || (name && ssh) || user.substr(0, 3) == "***") return {};
  if (user.substr(0, 10) == "[redacted:") return {};
  return {begin, n, "url-credentials"};
}

// "?access_token=..." and "&X-Amz-Signature=..." of a URL.
TokenMatch MatchParameter(std::string_view text, size_t at) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "access_token", "token",           "key",    "api_key", "apikey",   "sig",
      "signature",    "x-amz-signature", "secret", "auth",    "password", "x-amz-security-token"};
  size_t length = RunLength(text, at + 1, IsTokenChar);
  if (length < 3 || length > 24) return {};
  std::string name(text.substr(at + 1, length));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  size_t begin = at + 1 + length;
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) return {};
  if (begin >= text.size() || text[begin] != '=') return {};
  ++begin;
  size_t n = RunLength(text, begin, [](char c) {
    return IsTokenChar(c) || c == '.' || c == '~' || c == '%' || c == '+' || c == '/' || c == '=';
  });
  std::string_view value = text.substr(begin, n);
  if (n < 8 || !HasDigitAndLetter(value)) return {};
  return {begin, n, "url-parameter"};
}

// A bot's number and key, as Telegram gives them.
TokenMatch MatchBot(std::string_view text, size_t at) {
  size_t digits =
      RunLength(text, at, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  size_t colon = at + digits;
  if (digits < 8 || digits > 10 || colon >= text.size() || text[colon] != ':') return {};
  size_t n = RunLength(text, colon + 1, IsTokenChar);
  if (n != 35 || Entropy(text.substr(colon + 1, n)) < 3.5) return {};
  return {at, digits + 1 + n, "telegram-token"};
}

TokenMatch MatchBearer(std::string_view text, size_t at) {
  std::string word(text.substr(at, 7));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!word.starts_with("bearer ") && !word.starts_with("basic ")) return {};
  size_t begin = at + word.find(' ') + 1;
  size_t n = RunLength(text, begin, IsSecretChar);
  if (!LooksSecret(text.substr(begin, n))) return {};
  return {begin, n, "authorization"};
}

}  // namespace

bool HasDigitAndLetter(std::string_view text) {
  bool digit = false, letter = false;
  for (char c : text) {
    digit = digit || std::isdigit(static_cast<unsigned char>(c));
    letter = letter || std::isalpha(static_cast<unsigned char>(c));
  }
  return digit && letter;
}

// Shannon entropy in bits a character: random base64 of 20 characters has over 3.5, words less.
double Entropy(std::string_view text) {
  std::array<int, 256> counts{};
  for (char c : text) ++counts[static_cast<unsigned char>(c)];
  double bits = 0, n = static_cast<double>(text.size());
  for (int count : counts) {
    if (count > 0) bits -= count / n * std::log2(count / n);
  }
  return bits;
}

bool LooksSecret(std::string_view value) {
  if (value.size() < 12 || value.substr(0, 10) == "[redacted:") return false;
  return HasDigitAndLetter(value) && Entropy(value) >= 3.0;
}

TokenMatch MatchToken(std::string_view text, size_t at) {
  char c = text[at];
  if (c == ':') return MatchUrl(text, at);
  if (c == '?' || c == '&') return MatchParameter(text, at);
  // A dash may also begin a name ("--token=..."): the name itself is met one byte later.
  if (c == '-') return MatchPrivateKey(text, at);
  if (at > 0 && IsWord(text[at - 1])) return {};  // inside a word
  if (std::isdigit(static_cast<unsigned char>(c))) return MatchBot(text, at);
  if (!std::isalpha(static_cast<unsigned char>(c)) && c != '_') return {};
  if (TokenMatch m = MatchPrefix(text, at); m.kind) return m;
  if (TokenMatch m = MatchJwt(text, at); m.kind) return m;
  if (TokenMatch m = MatchBearer(text, at); m.kind) return m;
  if (TokenMatch m = MatchWritten(text, at); m.kind) return m;
  return MatchNamed(text, at);
}

TokenMatch MatchRandom(std::string_view text, size_t at) {
  constexpr size_t kShortest = 24, kLongest = 128;
  bool quoted = at > 0 && (text[at - 1] == '"' || text[at - 1] == '\'' || text[at - 1] == '`');
  if (!quoted && at > 0) return {};
  size_t n = RunLength(text, at, [](char c) { return IsTokenChar(c) || c == '+' || c == '/'; });
  n += RunLength(text, at + n, [](char c) { return c == '='; });
  bool closed = quoted ? at + n < text.size() && text[at + n] == text[at - 1] : n == text.size();
  if (!closed || n < kShortest || n > kLongest) return {};
  std::string_view token = text.substr(at, n);
  if (token.substr(0, 3) == "sha" || token.substr(0, 3) == "md5") return {};  // a digest
  // The longest piece without separators: names such as "R-101-FPN-X4d" aren't random.
  std::string_view piece;
  for (size_t i = 0; i < n; ++i) {
    size_t m = RunLength(token, i,
                         [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
    if (m > piece.size()) piece = token.substr(i, m);
    i += m;
  }
  std::array<int, 3> kinds{};
  int changes = 0, before = -1;
  for (char c : piece) {
    unsigned char u = static_cast<unsigned char>(c);
    int kind = std::isdigit(u) ? 0 : std::isupper(u) ? 1 : 2;
    ++kinds[static_cast<size_t>(kind)];
    changes += before >= 0 && kind != before;
    before = kind;
  }
  // Random letters and digits change between the three kinds at 62 % of the places, words written
  // in camel case at a third.
  bool mixed = std::all_of(kinds.begin(), kinds.end(), [](int count) { return count >= 2; });
  if (piece.size() < 20 || !mixed) return {};
  if (changes < 0.42 * static_cast<double>(piece.size() - 1)) return {};
  return {at, n, "random-text"};
}

}  // namespace xp::snapshot
