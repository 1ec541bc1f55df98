// Secrets that are known by the name they stand under.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "src/snapshot/token_shapes.h"

namespace xp::snapshot {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool IsAlpha(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsUpper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool IsLower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }

// The words of a name, lower case, joined by '_': "WandbApiKey", "db.api-key" give
// "_wandb_api_key_".
std::string Words(std::string_view name) {
  std::string out = "_";
  char before = '_';
  for (char c : name) {
    if (IsUpper(c) && IsLower(before)) out += '_';
    out += std::isalnum(static_cast<unsigned char>(c))
               ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
               : '_';
    before = c;
  }
  return out + "_";
}

template <size_t N>
bool EndsInOneOf(const std::string& words, const std::array<std::string_view, N>& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return words.ends_with(end); });
}

constexpr std::array<std::string_view, 32> kStrong = {
    "_password_",       "_passwords_",   "_passwd_",      "_passphrase_",        "_pwd_",
    "_secret_",         "_secrets_",     "_apikey_",      "_api_key_",           "_api_keys_",
    "_access_key_",     "_secret_key_",  "_private_key_", "_account_key_",       "_client_secret_",
    "_credential_",     "_credentials_", "_pgpassword_",  "_connection_string_", "_passcode_",
    "_encryption_key_", "_sshpass_",     "_signing_key_", "_license_key_",       "_master_key_",
    "_wandb_key_",      "_openai_key_",  "_kaggle_key_",  "_aws_key_",           "_azure_key_",
    "_comet_key_",      "_storage_key_"};
// Written in one word, as MYSQLPASSWORD is.
constexpr std::array<std::string_view, 7> kJoined = {
    "password_", "passwd_", "passphrase_", "apikey_", "secretkey_", "accesskey_", "privatekey_"};
// What a password is for, before "_pass_"; "forward_pass" is none.
constexpr std::array<std::string_view, 18> kPass = {
    "_db_pass_",   "_smtp_pass_",  "_mail_pass_", "_email_pass_",    "_user_pass_", "_mysql_pass_",
    "_pg_pass_",   "_redis_pass_", "_ssh_pass_",  "_postgres_pass_", "_ftp_pass_",  "_admin_pass_",
    "_root_pass_", "_login_pass_", "_auth_pass_", "_mongo_pass_",    "_ldap_pass_", "_mqtt_pass_"};
constexpr std::array<std::string_view, 9> kWeak = {
    "token_",          "_auth_",    "_authorization_",
    "_access_key_id_", "_webhook_", "_webhook_url_",
    "_dsn_",           "_cookie_",  "_pat_"};
// What models call a token.
constexpr std::array<std::string_view, 24> kModelTokens = {
    "_pad_token_",   "_bos_token_",  "_eos_token_",      "_unk_token_",    "_mask_token_",
    "_cls_token_",   "_sep_token_",  "_class_token_",    "_image_token_",  "_special_token_",
    "_start_token_", "_end_token_",  "_stop_token_",     "_query_token_",  "_reg_token_",
    "_dist_token_",  "_next_token_", "_prev_token_",     "_prompt_token_", "_new_token_",
    "_first_token_", "_last_token_", "_register_token_", "_distill_token_"};

bool AtLineEnd(std::string_view text, size_t i) {
  while (i < text.size() && (text[i] == ' ' || text[i] == '\t' || text[i] == ';')) ++i;
  return i >= text.size() || text[i] == '\n' || text[i] == '\r' || text[i] == '#';
}

// Where the value begins, behind the separator; npos where there is none.
struct Separator {
  size_t value = std::string_view::npos;
  bool colon = false, spaced = false;
};
Separator FindSeparator(std::string_view text, size_t i) {
  auto skip = [&](std::string_view set) {
    size_t from = i;
    while (i < text.size() && set.find(text[i]) != std::string_view::npos) ++i;
    return i - from;
  };
  Separator out;
  skip("\\\"'] ");
  size_t sign = i;
  if (skip(":=>") == 0 || i - sign > 2 || text[sign] == '>') return out;
  if (text.substr(sign, i - sign) == "==") return out;  // a comparison
  out.colon = text[i - 1] == ':';
  out.spaced = skip(" \t") > 0;
  // `password: str = "..."`: an annotation stands between.
  size_t annotation = RunLength(text, i, [](char c) { return IsTokenChar(c) || c == '.'; });
  size_t j = i + annotation;
  while (j < text.size() && text[j] == ' ') ++j;
  if (out.colon && annotation > 0 && j + 1 < text.size() && text[j] == '=' && text[j + 1] != '=') {
    size_t quote = j + 1 + RunLength(text, j + 1, [](char c) { return c == ' ' || c == '\t'; });
    // Else it is the padding of base64.
    if (quote < text.size() && (text[quote] == '"' || text[quote] == '\'')) {
      i = quote;
      out.colon = false;
    }
  }
  out.value = i;
  return out;
}

// The length of "Bearer " and such in front of a credential.
size_t SchemeLength(std::string_view text, size_t at) {
  for (std::string_view scheme : {"Bearer ", "bearer ", "Basic ", "Token ", "token ", "ApiKey "})
    if (text.substr(at, scheme.size()) == scheme) return scheme.size();
  return 0;
}

TokenMatch InQuotes(std::string_view text, size_t i, NameKind kind, std::string_view name) {
  // Within a JSON string (a notebook's cell) the quotes are escaped themselves.
  bool escaped = text[i] == '\\';
  char quote = text[escaped ? i + 1 : i];
  size_t begin = i + (escaped ? 2 : 1), end = begin;
  while (end < text.size() && text[end] != quote && text[end] != '\n') {
    if (escaped && text[end] == '\\') break;
    end += text[end] == '\\' && end + 1 < text.size() ? 2 : 1;
  }
  end = std::min(end, text.size());
  begin = std::min(begin + SchemeLength(text, begin), end);
  std::string_view value = text.substr(begin, end - begin);
  bool phrase = name.find("phrase") != std::string_view::npos;
  bool words = value.find_first_of(" \t\\") != std::string_view::npos && !phrase;
  bool secret = (kind == NameKind::kStrong && Plausible(value) && !words) || LooksSecret(value);
  if (!secret || value.size() > 4096 || value.find("[redacted:") != std::string_view::npos)
    return {};
  return {begin, value.size(), "named-secret"};
}

}  // namespace

bool Plausible(std::string_view value) {
  if (value.size() < 4 || std::string_view("$<{%").find(value[0]) != std::string_view::npos)
    return false;
  bool letters = std::all_of(value.begin(), value.end(), IsAlpha);
  if (!letters) return !IsPlaceholder(value) || (value.size() >= 4 && IsDigit(value[0]));
  std::string lower = Words(value);
  bool repeats = lower.find("passw") != std::string::npos ||
                 lower.find("secret") != std::string::npos ||
                 lower.find("token") != std::string::npos;
  return !IsPlaceholder(value) && (repeats ? value.size() >= 14 : value.size() >= 6);
}

bool IsTokenChar(char c) { return IsAlpha(c) || IsDigit(c) || c == '_' || c == '-'; }
bool IsSecretChar(char c) {
  return IsTokenChar(c) || std::string_view("./+=~!@#$%^*").find(c) != std::string_view::npos;
}

bool IsSpecialToken(std::string_view value) {
  if (value.size() < 3) return false;
  const bool brackets = (value.front() == '<' && value.back() == '>') ||
                        (value.front() == '[' && value.back() == ']');
  return brackets && !LooksSecret(value.substr(1, value.size() - 2));
}

bool IsPlaceholder(std::string_view value) {
  static constexpr std::array<std::string_view, 9> kWords = {
      "", "true", "false", "null", "None", "True", "False", "nil", "undefined"};
  return std::find(kWords.begin(), kWords.end(), value) != kWords.end() ||
         value.substr(0, 10) == "[redacted:" || IsSpecialToken(value) ||
         std::all_of(value.begin(), value.end(),
                     [](char c) { return IsDigit(c) || c == '.' || c == '-'; });
}

NameKind ClassifyName(std::string_view name) {
  // API_KEY_2 and password1 are numbered.
  size_t end = name.find_last_not_of("0123456789_-");
  name = name.substr(0, end == std::string_view::npos ? 0 : end + 1);
  std::string words = Words(name);
  bool capitals = std::none_of(name.begin(), name.end(), [](char c) { return IsLower(c); });
  if (EndsInOneOf(words, kStrong) || EndsInOneOf(words, kJoined) || EndsInOneOf(words, kPass) ||
      (capitals && words.size() > 6 && words.ends_with("_pass_"))) {
    return NameKind::kStrong;
  }
  if (EndsInOneOf(words, kModelTokens)) return NameKind::kPlain;
  return EndsInOneOf(words, kWeak) ? NameKind::kWeak : NameKind::kPlain;
}

namespace {

// netrc: `machine HOST login NAME password VALUE`.
TokenMatch InNetrc(std::string_view text, size_t at, size_t i) {
  if (i >= text.size() || !std::isspace(static_cast<unsigned char>(text[i]))) return {};
  std::string_view before = text.substr(at > 200 ? at - 200 : 0, std::min<size_t>(at, 200));
  size_t begin = text.find_first_not_of(" \t\r\n", i);
  bool netrc = before.find("login ") != std::string_view::npos;
  if (!netrc || begin == std::string_view::npos || text[begin] == '=') return {};
  size_t n = RunLength(text, begin,
                       [](char c) { return std::isgraph(static_cast<unsigned char>(c)) != 0; });
  return {begin, n, "named-secret"};
}

bool SecretValue(NameKind kind, std::string_view value) {
  return (kind == NameKind::kStrong && Plausible(value)) || LooksSecret(value);
}

// <password>VALUE</password>, and name="password" value="VALUE".
TokenMatch InXml(std::string_view text, size_t at, size_t i, NameKind kind) {
  constexpr std::string_view kValue = " value=\"";
  char before = at > 0 ? text[at - 1] : '\0';
  size_t begin = 0;
  char end = '\0';
  if (before == '<' && i < text.size() && text[i] == '>') {
    begin = i + 1, end = '<';
  } else if (before == '"' && i < text.size() && text[i] == '"' &&
             text.substr(i + 1, kValue.size()) == kValue) {
    begin = i + 1 + kValue.size(), end = '"';
  } else {
    return {};
  }
  size_t n = RunLength(text, begin, [&](char c) { return c != end && c != '\n' && c != ' '; });
  bool closed = begin + n < text.size() && text[begin + n] == end;
  if (!closed || !SecretValue(kind, text.substr(begin, n))) return {};
  return {begin, n, "named-secret"};
}

// `--password VALUE` of a shell, `ENV API_TOKEN VALUE` of a Dockerfile.
TokenMatch BehindBlank(std::string_view text, size_t at, size_t i, NameKind kind) {
  bool option = at >= 2 && text.substr(at - 2, 2) == "--";
  bool docker = at >= 4 && text.substr(at - 4, 4) == "ENV ";
  if ((!option && !docker) || i >= text.size() || text[i] != ' ') return {};
  size_t n = RunLength(text, i + 1, IsSecretChar);
  std::string_view value = text.substr(i + 1, n);
  // Words of a help text and the next option are none.
  if (value.starts_with('-') || std::none_of(value.begin(), value.end(), IsDigit)) return {};
  if (!SecretValue(kind, value)) return {};
  return {i + 1, n, "named-secret"};
}

// YAML: the value alone on the next line, behind `>` or `|` or nothing.
TokenMatch OnNextLine(std::string_view text, size_t i) {
  i += RunLength(text, i, [](char c) { return c == '>' || c == '|' || c == '-' || c == '+'; });
  if (!AtLineEnd(text, i)) return {};
  size_t line = text.find('\n', i);
  if (line == std::string_view::npos) return {};
  size_t indent = RunLength(text, line + 1, [](char c) { return c == ' '; });
  size_t begin = line + 1 + indent, n = RunLength(text, begin, IsSecretChar);
  if (indent == 0 || !AtLineEnd(text, begin + n) || !LooksSecret(text.substr(begin, n))) return {};
  return {begin, n, "named-secret"};
}

// Without quotes. Code such as `password = args.password` must stay; lines of an environment or a
// YAML file go, and what stands in a text in quotes or before a program (`PASSWORD=x1 run`).
TokenMatch Bare(std::string_view text, const Separator& separator, NameKind kind,
                std::string_view name) {
  size_t i = separator.value;
  i += SchemeLength(text, i);
  size_t n = RunLength(text, i, IsSecretChar);
  std::string_view value = text.substr(i, n);
  char next = i + n < text.size() ? text[i + n] : '\n';
  if (next == '(' || next == '[' || value.find("[redacted:") != std::string_view::npos) return {};
  bool whole = AtLineEnd(text, i + n);
  bool digit = std::any_of(value.begin(), value.end(), IsDigit);
  bool capitals = std::none_of(name.begin(), name.end(), IsLower);
  bool assigned = !separator.colon && !separator.spaced;
  bool environment = assigned && whole && (capitals || digit);
  bool inside =
      assigned && digit && value.size() >= 6 &&
      (std::string_view("\"';&").find(next) != std::string_view::npos || (capitals && next == ' '));
  bool yaml = separator.colon && separator.spaced && whole && digit;
  bool strong = kind == NameKind::kStrong && (environment || inside || yaml) && Plausible(value);
  if (!strong && !LooksSecret(value)) return {};
  return {i, n, "named-secret"};
}

}  // namespace

TokenMatch MatchNamed(std::string_view text, size_t at) {
  size_t length = RunLength(text, at, IsTokenChar);
  if (length < 3 || length > 64) return {};
  std::string_view name = text.substr(at, length);
  NameKind kind = ClassifyName(name);
  if (kind == NameKind::kPlain) return {};
  size_t i = at + length;
  if (name == "password") {
    if (TokenMatch m = InNetrc(text, at, i); m.kind) return m;
  }
  if (TokenMatch m = InXml(text, at, i, kind); m.kind) return m;
  if (TokenMatch m = BehindBlank(text, at, i, kind); m.kind) return m;
  Separator separator = FindSeparator(text, i);
  if (separator.value >= text.size()) return {};
  i = separator.value;
  auto is_quote = [&](size_t k) {
    return k < text.size() && (text[k] == '"' || text[k] == '\'' || text[k] == '`');
  };
  if (is_quote(i) || (text[i] == '\\' && is_quote(i + 1))) return InQuotes(text, i, kind, name);
  if (separator.colon) {
    if (TokenMatch m = OnNextLine(text, i); m.kind) return m;
  }
  return Bare(text, separator, kind, name);
}

}  // namespace xp::snapshot
