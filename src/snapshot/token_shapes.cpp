#include "src/snapshot/token_shapes.h"

#include <array>
#include <cctype>
#include <cmath>

#include "exp/snapshot/redact.h"

namespace xp::snapshot {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsTokenChar(char c) { return IsWord(c) || c == '-'; }
bool IsSecretChar(char c) {
  return IsTokenChar(c) || c == '.' || c == '/' || c == '+' || c == '=' || c == '~' || c == '!' ||
         c == '@' || c == '#' || c == '$' || c == '%' || c == '^' || c == '*';
}

template <class Accept>
size_t Run(std::string_view text, size_t from, Accept accept) {
  size_t end = from;
  while (end < text.size() && accept(text[end])) ++end;
  return end - from;
}

// Fixed beginnings, from the issuers' documentation on secret scanning.
struct Prefix {
  std::string_view text;
  size_t at_least;  // characters behind the prefix
  const char* kind;
};
constexpr std::array kPrefixes = {
    Prefix{"ghp_", 30, "github-token"},
    Prefix{"gho_", 30, "github-token"},
    Prefix{"ghu_", 30, "github-token"},
    Prefix{"ghs_", 30, "github-token"},
    Prefix{"ghr_", 30, "github-token"},
    Prefix{"github_pat_", 22, "github-token"},
    Prefix{"glpat-", 20, "gitlab-token"},
    Prefix{"gldt-", 20, "gitlab-token"},
    Prefix{"glrt-", 20, "gitlab-token"},
    Prefix{"AKIA", 16, "aws-access-key"},
    Prefix{"ASIA", 16, "aws-access-key"},
    Prefix{"hf_", 30, "huggingface-token"},
    Prefix{"sk-", 20, "api-key"},
    Prefix{"sk_live_", 16, "stripe-key"},
    Prefix{"rk_live_", 16, "stripe-key"},
    Prefix{"xoxb-", 16, "slack-token"},
    Prefix{"xoxp-", 16, "slack-token"},
    Prefix{"xoxa-", 16, "slack-token"},
    Prefix{"xoxs-", 16, "slack-token"},
    Prefix{"xapp-", 16, "slack-token"},
    Prefix{"AIza", 35, "google-api-key"},
    Prefix{"ya29.", 20, "google-token"},
    Prefix{"npm_", 36, "npm-token"},
    Prefix{"pypi-", 50, "pypi-token"},
    Prefix{"dckr_pat_", 20, "docker-token"},
    Prefix{"dop_v1_", 40, "digitalocean-token"},
    Prefix{"SG.", 40, "sendgrid-key"},
    Prefix{"wandb_v1_", 40, "wandb-key"},
};

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

TokenMatch MatchPrefix(std::string_view text, size_t at) {
  for (const Prefix& p : kPrefixes) {
    if (text.substr(at, p.text.size()) != p.text) continue;
    size_t n = Run(text, at + p.text.size(), [](char c) { return IsTokenChar(c) || c == '.'; });
    std::string_view rest = text.substr(at + p.text.size(), n);
    // "sk-" begins words too ("sk-learn-contrib-..."): what follows must look random.
    if (n >= p.at_least && (HasDigitAndLetter(rest) || Entropy(rest) > 3.5)) {
      return {at, p.text.size() + n, p.kind};
    }
  }
  return {};
}

// JSON web token: three base64url parts, the first of which is `{"` encoded.
TokenMatch MatchJwt(std::string_view text, size_t at) {
  if (text.substr(at, 3) != "eyJ") return {};
  size_t end = at;
  for (int part = 0; part < 3; ++part) {
    size_t n = Run(text, end, IsTokenChar);
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

// user:password@ or token@ behind "://".
TokenMatch MatchUrl(std::string_view text, size_t at) {
  if (text.substr(at, 3) != "://") return {};
  size_t begin = at + 3;
  auto inside = [](char c) {
    return std::isgraph(static_cast<unsigned char>(c)) && c != '/' && c != '@' && c != '"' &&
           c != '\'' && c != '<' && c != '>' && c != '?' && c != '#';
  };
  size_t n = Run(text, begin, inside);
  if (n == 0 || begin + n >= text.size() || text[begin + n] != '@') return {};
  std::string_view user = text.substr(begin, n);
  if (user == "git" || user.substr(0, 3) == "***") return {};
  return {begin, n, "url-credentials"};
}

// Plain code such as `token = next_token()` must stay; a literal that looks random must not.
bool LooksSecret(std::string_view value) {
  if (value.size() < 12 || value.substr(0, 10) == "[redacted:") return false;
  return HasDigitAndLetter(value) && Entropy(value) >= 3.0;
}

// `name = value`, `name: "value"`, `"name": "value"` where the name says secret and the value looks
// it.
TokenMatch MatchNamed(std::string_view text, size_t at) {
  size_t name = Run(text, at, IsTokenChar);
  if (name < 3 || name > 64 || !Redactor::SecretName(text.substr(at, name))) return {};
  size_t i = at + name;
  auto skip = [&](std::string_view set) {
    size_t from = i;
    while (i < text.size() && set.find(text[i]) != std::string_view::npos) ++i;
    return i > from;
  };
  skip("\"' \t]");
  if (!skip(":=")) return {};
  skip(" \t");
  bool quoted = skip("\"'");
  if (text.substr(i, 7) == "Bearer ") i += 7;
  size_t n = Run(text, i, IsSecretChar);
  std::string_view value = text.substr(i, n);
  bool call = i + n < text.size() && (text[i + n] == '(' || text[i + n] == '[');
  if (!LooksSecret(value) || (!quoted && call)) return {};
  return {i, n, "named-secret"};
}

TokenMatch MatchBearer(std::string_view text, size_t at) {
  if (text.substr(at, 7) != "Bearer " && text.substr(at, 6) != "Basic ") return {};
  size_t begin = at + (text[at + 1] == 'e' ? 7 : 6);
  size_t n = Run(text, begin, IsSecretChar);
  if (!LooksSecret(text.substr(begin, n))) return {};
  return {begin, n, "authorization"};
}

}  // namespace

TokenMatch MatchToken(std::string_view text, size_t at) {
  char c = text[at];
  if (c == ':') return MatchUrl(text, at);
  if (c == '-') {
    // A dash may also begin a name ("--token=..."): the name itself is met one byte later.
    return MatchPrivateKey(text, at);
  }
  if (!std::isalpha(static_cast<unsigned char>(c)) && c != '_') return {};
  if (at > 0 && IsWord(text[at - 1])) return {};  // inside a word
  if (TokenMatch m = MatchPrefix(text, at); m.kind) return m;
  if (TokenMatch m = MatchJwt(text, at); m.kind) return m;
  if (TokenMatch m = MatchBearer(text, at); m.kind) return m;
  return MatchNamed(text, at);
}

}  // namespace xp::snapshot
