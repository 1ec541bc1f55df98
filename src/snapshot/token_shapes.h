// The shapes of well-known credentials; private to src/snapshot.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xp::snapshot {

struct TokenMatch {
  size_t begin = 0, size = 0;  // of what must go; begin may lie behind the position asked about
  const char* kind = nullptr;  // nullptr: nothing here
};

// Whether a credential starts at `at`: a known prefix, a JSON web token, a private key, a URL's
// userinfo or parameter, a webhook, or a name that says secret with its value.
TokenMatch MatchToken(std::string_view text, size_t at);

// A text in quotes, or the whole text, that looks random: upper and lower case and digits in no
// order, as keys of unknown issuers do and words, paths and digests don't.
TokenMatch MatchRandom(std::string_view text, size_t at);

// What a name says of its value.
enum class NameKind {
  kPlain,
  kWeak,    // "token", "auth": secret where the value looks it
  kStrong,  // "password", "api_key": secret whatever the value looks like
};
NameKind ClassifyName(std::string_view name);
// `name = value`, `"name": "value"`, NAME=value, and netrc's `password value`, starting at `at`.
TokenMatch MatchNamed(std::string_view text, size_t at);

// "<s>", "[SEP]", "<|im_start|>": what `sos_token` is of a language model.
bool IsSpecialToken(std::string_view value);
// true, None, numbers, marks, templates: no secret, whatever the name.
bool IsPlaceholder(std::string_view value);
// Twelve characters or more that look random, not like a word.
bool LooksSecret(std::string_view value);

// What MatchToken tries in turn. A token of a fixed beginning, such as "ghp_...":
TokenMatch MatchPrefix(std::string_view text, size_t at);
// Secrets by the way a format or a command writes them: XML, PuTTY's keys, kaggle.json, `curl -u`.
TokenMatch MatchWritten(std::string_view text, size_t at);

// Pieces shared by these files.
// A value under a strong name in quotes or in an environment file: anything but a template or a
// word that only repeats the name.
bool Plausible(std::string_view value);
bool HasDigitAndLetter(std::string_view text);
// Shannon entropy in bits a character: random base64 of 20 characters has over 3.5, words less.
double Entropy(std::string_view text);
bool IsTokenChar(char c);   // letters, digits, '_', '-'
bool IsSecretChar(char c);  // these and what passwords hold besides
template <class Accept>
size_t RunLength(std::string_view text, size_t from, Accept accept) {
  size_t end = from;
  while (end < text.size() && accept(text[end])) ++end;
  return end - from;
}

}  // namespace xp::snapshot
