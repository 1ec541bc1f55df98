#include "exp/snapshot/redact.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <regex>

#include "exp/base/error.h"
#include "src/snapshot/token_shapes.h"

extern char** environ;

namespace xp::snapshot {
namespace {

std::string Mark(const std::string& kind) { return "[redacted:" + kind + "]"; }

// The words of a name, lower case, joined by '_': "WandbApiKey", "db.api-key" give
// "_wandb_api_key_".
std::string Words(std::string_view name) {
  std::string out = "_";
  char before = '_';
  for (char c : name) {
    bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (upper && std::islower(static_cast<unsigned char>(before))) out += '_';
    out += std::isalnum(static_cast<unsigned char>(c))
               ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
               : '_';
    before = c;
  }
  return out + "_";
}

bool IsPlaceholder(const std::string& value) {
  return value.empty() || value == "true" || value == "false" || value == "null" ||
         value == "None" || value.rfind("[redacted:", 0) == 0 ||
         std::all_of(value.begin(), value.end(), [](char c) {
           return std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == '-';
         });
}

}  // namespace

Redactor::Redactor(RedactOptions options) : options_(std::move(options)) {
  for (const std::string& pattern : options_.patterns) {
    try {
      std::regex tried(pattern);
    } catch (const std::regex_error& e) {
      throw UsageError({.what = "`" + pattern + "` is no regular expression: " + e.what(),
                        .where = "snapshot.redact.patterns"});
    }
  }
}

bool Redactor::SecretName(std::string_view name) {
  std::string words = Words(name);
  // A name that ends in a secret's word holds one; "tokenizer" or "num_tokens" doesn't.
  for (const char* end :
       {"_password_",         "_passwd_",     "_passphrase_",    "_pwd_",
        "_secret_",           "_token_",      "_apikey_",        "_api_key_",
        "_access_key_",       "_secret_key_", "_private_key_",   "_credential_",
        "_credentials_",      "_auth_",       "_authorization_", "_access_key_id_",
        "_client_secret_",    "_webhook_",    "_webhook_url_",   "_dsn_",
        "_connection_string_"}) {
    std::string_view e(end);
    if (words.size() >= e.size() && words.compare(words.size() - e.size(), e.size(), e) == 0) {
      return true;
    }
  }
  return false;
}

void Redactor::Learn(const std::string& secret, const std::string& kind) {
  if (!options_.enable || secret.size() < 6 || IsPlaceholder(secret)) return;
  if (std::count(options_.allow.begin(), options_.allow.end(), secret)) return;
  for (const auto& [known, k] : known_) {
    if (known == secret) return;
  }
  known_.emplace_back(secret, kind);
  std::stable_sort(known_.begin(), known_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

void Redactor::LearnEnvironment() {
  for (char** variable = environ; variable && *variable; ++variable) {
    std::string_view text(*variable);
    size_t equal = text.find('=');
    if (equal == std::string_view::npos || !SecretName(text.substr(0, equal))) continue;
    std::string value(text.substr(equal + 1));
    // A short word such as DISPLAY_AUTH=none would take harmless words out of every file.
    if (value.size() >= 8 && value[0] != '/') Learn(value, "environment-secret");
  }
}

void Redactor::LearnArgv(const std::vector<std::string>& argv) {
  for (size_t i = 0; i < argv.size(); ++i) {
    size_t equal = argv[i].find('=');
    std::string name = argv[i].substr(0, equal);
    if (!SecretName(name)) continue;
    if (equal != std::string::npos) {
      Learn(argv[i].substr(equal + 1), "argument-secret");
    } else if (name.rfind("-", 0) == 0 && i + 1 < argv.size()) {
      Learn(argv[i + 1], "argument-secret");
    }
  }
}

void Redactor::Note(const std::string& kind, const std::string& place) {
  Redaction r{kind, place};
  if (std::find(found_.begin(), found_.end(), r) == found_.end()) found_.push_back(std::move(r));
}

std::string Redactor::Known(std::string_view text, const std::string& place) {
  std::string out(text);
  for (const auto& [secret, kind] : known_) {
    size_t at = out.find(secret);
    if (at == std::string::npos) continue;
    Note(kind, place);
    std::string mark = Mark(kind);
    for (; at != std::string::npos; at = out.find(secret, at + mark.size())) {
      out.replace(at, secret.size(), mark);
    }
  }
  return out;
}

std::string Redactor::Shapes(std::string_view text, const std::string& place) {
  std::string out;
  out.reserve(text.size());
  size_t copied = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    TokenMatch match = MatchToken(text, i);
    if (!match.kind) continue;
    std::string found(text.substr(match.begin, match.size));
    if (std::count(options_.allow.begin(), options_.allow.end(), found)) continue;
    out.append(text, copied, match.begin - copied);
    out += Mark(match.kind);
    copied = match.begin + match.size;
    i = copied - 1;
    Note(match.kind, place);
  }
  out.append(text, copied, text.size() - copied);
  return out;
}

std::string Redactor::Patterns(std::string text, const std::string& place) {
  // std::regex recurses once a character: long lines are cut into pieces that it can take.
  constexpr size_t kPiece = 4096;
  for (const std::string& pattern : options_.patterns) {
    std::regex regex(pattern);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      size_t end = text.find('\n', at);
      end = std::min(end == std::string::npos ? text.size() : end + 1, at + kPiece);
      std::string piece = text.substr(at, end - at);
      std::string mended = std::regex_replace(piece, regex, Mark("pattern"));
      if (mended != piece) Note("pattern", place);
      out += mended;
      at = end;
    }
    text = std::move(out);
  }
  return text;
}

std::string Redactor::Text(std::string_view text, const std::string& place) {
  if (!options_.enable) return std::string(text);
  return Patterns(Shapes(Known(text, place), place), place);
}

std::string Redactor::Secret(const std::string& value, const std::string& kind,
                             const std::string& place) {
  bool allowed = std::count(options_.allow.begin(), options_.allow.end(), value) > 0;
  if (!options_.enable || value.empty() || allowed) return value;
  if (value.rfind("[redacted:", 0) == 0) return value;
  Note(kind, place);
  return Mark(kind);
}

std::vector<std::string> Redactor::Argv(const std::vector<std::string>& argv) {
  if (!options_.enable) return argv;
  std::vector<std::string> out;
  for (size_t i = 0; i < argv.size(); ++i) {
    size_t equal = argv[i].find('=');
    std::string name = argv[i].substr(0, equal);
    bool secret = SecretName(name);
    if (secret && equal != std::string::npos && !IsPlaceholder(argv[i].substr(equal + 1))) {
      Note("argument-secret", "argv " + name);
      out.push_back(name + "=" + Mark("argument-secret"));
    } else if (secret && name.rfind("-", 0) == 0 && i + 1 < argv.size() &&
               argv[i + 1].rfind("-", 0) != 0) {
      Note("argument-secret", "argv " + name);
      out.push_back(argv[i++]);
      out.push_back(Mark("argument-secret"));
    } else {
      out.push_back(Text(argv[i], "argv"));
    }
  }
  return out;
}

std::string Redactor::FoundJson() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Redaction& r : found_) list.push_back({{"kind", r.kind}, {"place", r.place}});
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace xp::snapshot
