#include "exp/snapshot/redact.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/escape.h"
#include "src/snapshot/token_shapes.h"

extern char** environ;

namespace xp::snapshot {
namespace {

std::string Mark(const std::string& kind) { return "[redacted:" + kind + "]"; }

// How a JSON string writes it, without the quotes.
std::string JsonEscaped(const std::string& text, bool ascii) {
  std::string out =
      nlohmann::json(text).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
  return out.substr(1, out.size() - 2);
}

std::string Doubled(const std::string& text, char quote) {
  std::string out;
  for (char c : text) out += c == quote ? std::string(2, quote) : std::string(1, c);
  return out;
}

}  // namespace

struct Redactor::Expressions {
  std::vector<std::regex> all;
};

Redactor::Redactor(RedactOptions options) : options_(std::move(options)) {
  auto expressions = std::make_shared<Expressions>();
  for (const std::string& pattern : options_.patterns) {
    try {
      expressions->all.emplace_back(pattern);
    } catch (const std::regex_error& e) {
      throw UsageError({.what = "`" + pattern + "` is no regular expression: " + e.what(),
                        .where = "snapshot.redact.patterns",
                        .expected = "a regular expression of ECMAScript",
                        .next = "escape characters such as ( [ { . * + ? with a backslash"});
    }
  }
  expressions_ = std::move(expressions);
}

bool Redactor::SecretName(std::string_view name) { return ClassifyName(name) != NameKind::kPlain; }
bool Redactor::StrongSecretName(std::string_view name) {
  return ClassifyName(name) == NameKind::kStrong;
}

bool Redactor::Allowed(std::string_view text) const {
  return std::find(options_.allow.begin(), options_.allow.end(), text) != options_.allow.end();
}

void Redactor::LearnOne(const std::string& secret, const std::string& kind) {
  if (secret.size() < 6) return;
  for (const auto& [known, k] : known_) {
    if (known == secret) return;
  }
  known_.emplace_back(secret, kind);
  std::stable_sort(known_.begin(), known_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

void Redactor::Learn(const std::string& secret, const std::string& kind) {
  if (!options_.enable || secret.size() < 6 || Allowed(secret)) return;
  bool number = std::all_of(secret.begin(), secret.end(),
                            [](char c) { return std::isdigit(static_cast<unsigned char>(c)); });
  if (IsPlaceholder(secret) && !number) return;
  LearnOne(secret, kind);
  // The same as other files write it.
  for (const std::string& written : {JsonEscaped(secret, false), JsonEscaped(secret, true),
                                     Doubled(secret, '\''), PercentEncoded(secret)}) {
    LearnOne(written, kind);
  }
  // A key of many lines may be indented, or stand in a patch.
  if (secret.find('\n') == std::string::npos) return;
  for (size_t at = 0; at < secret.size();) {
    size_t end = std::min(secret.find('\n', at), secret.size());
    std::string line = secret.substr(at, end - at);
    line.erase(0, line.find_first_not_of(" \t+"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.size() >= 16 && line.find(' ') == std::string::npos) LearnOne(line, kind);
    at = end + 1;
  }
}

void Redactor::LearnEnvironment() {
  for (char** variable = environ; variable && *variable; ++variable) {
    std::string_view text(*variable);
    size_t equal = text.find('=');
    if (equal == std::string_view::npos) continue;
    std::string value(text.substr(equal + 1));
    NameKind kind = ClassifyName(text.substr(0, equal));
    // OPENAI_KEY and its like; in files "key" names many a thing, a digest among them.
    if (kind == NameKind::kPlain && text.substr(0, equal).ends_with("_KEY") && LooksSecret(value)) {
      kind = NameKind::kWeak;
    }
    if (kind == NameKind::kPlain) {
      // SOME_URL=https://user:password@host: the password counts where it looks like one.
      for (size_t i = 0; i < value.size(); ++i) {
        TokenMatch match = MatchToken(value, i);
        if (!match.kind) continue;
        std::string found = value.substr(match.begin, match.size);
        size_t colon = found.find(':');
        bool url = std::string_view(match.kind) == "url-credentials";
        if (url && colon != std::string::npos) found = found.substr(colon + 1);
        if (LooksSecret(found)) Learn(found, "environment-secret");
        i = match.begin + match.size;
      }
      continue;
    }
    // A short word such as DISPLAY_AUTH=none would take harmless words out of every file.
    size_t shortest = kind == NameKind::kStrong ? 6 : 8;
    bool file = value.size() > 1 && value[0] == '/' && ::access(value.c_str(), F_OK) == 0;
    if (value.size() >= shortest && !file) Learn(value, "environment-secret");
  }
}

// What follows a flag such as --token.
void Redactor::LearnArgument(const std::string& value) { Learn(value, "argument-secret"); }

void Redactor::LearnArgv(const std::vector<std::string>& argv) {
  for (size_t i = 0; i < argv.size(); ++i) {
    size_t equal = argv[i].find('=');
    std::string name = argv[i].substr(0, equal);
    if (!SecretName(name)) continue;
    if (equal != std::string::npos) {
      LearnArgument(argv[i].substr(equal + 1));
    } else if (i + 1 < argv.size() &&  // `--token X`, `aws configure set aws_secret_access_key X`
               (name.rfind("-", 0) == 0 || (StrongSecretName(name) && LooksSecret(argv[i + 1])))) {
      LearnArgument(argv[i + 1]);
    }
  }
  // `sshpass -p X`, `mysql -pX`: the program's name tells.
  std::string line;
  for (const std::string& argument : argv) line += (line.empty() ? "" : " ") + argument;
  for (size_t i = 0; i < line.size(); ++i) {
    if (i > 0 && IsTokenChar(line[i - 1])) continue;
    const TokenMatch match = MatchWritten(line, i);
    if (match.kind) LearnArgument(line.substr(match.begin, match.size));
  }
}

void Redactor::Note(const std::string& kind, const std::string& place) {
  // Learned texts and shapes, without noting them: that would never end.
  size_t before = found_.size();
  std::string clean = place;
  for (const auto& [secret, unused] : known_) {
    for (size_t at; (at = clean.find(secret)) != std::string::npos;) {
      clean.replace(at, secret.size(), "[redacted]");
    }
  }
  for (size_t i = 0; i < clean.size(); ++i) {
    TokenMatch match = MatchToken(clean, i);
    if (match.kind) clean.replace(match.begin, match.size, "[redacted]");
  }
  found_.resize(before);
  Redaction r{kind, std::move(clean)};
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
    if (!match.kind && options_.entropy) match = MatchRandom(text, i);
    if (!match.kind) continue;
    std::string found(text.substr(match.begin, match.size));
    if (Allowed(found)) continue;
    // Its lines may turn up alone in a patch; what is random may stand elsewhere without quotes.
    bool random = std::string_view(match.kind) == "random-text";
    if (random || found.find('\n') != std::string::npos) Learn(found, match.kind);
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
  // std::regex recurses once a character: it sees one line, and of a long line a window; a match
  // counts when it begins in the window's first three quarters, so that none is cut in two.
  constexpr size_t kWindow = 4096, kStep = 3072;
  for (const std::regex& expression : expressions_->all) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      size_t line = std::min(text.find('\n', at), text.size() - 1) + 1;
      bool rest = line - at <= kWindow;
      size_t end = rest ? line : at + kWindow, step = rest ? line : at + kStep;
      std::cmatch match;
      auto flags = at > 0 && text[at - 1] != '\n' ? std::regex_constants::match_prev_avail
                                                  : std::regex_constants::match_default;
      bool found = std::regex_search(std::as_const(text).data() + at,
                                     std::as_const(text).data() + end, match, expression, flags);
      size_t begin = found ? at + static_cast<size_t>(match.position(0)) : step;
      if (!found || match.length(0) == 0 || begin >= step) {
        out.append(text, at, step - at);
        at = step;
        continue;
      }
      std::string secret = match.str(0);
      out.append(text, at, begin - at);
      out += Allowed(secret) ? secret : Mark("pattern");
      if (!Allowed(secret)) Note("pattern", place);
      at = begin + secret.size();
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
  if (!options_.enable || value.empty() || Allowed(value)) return value;
  if (value.rfind("[redacted:", 0) == 0 || IsSpecialToken(value)) return value;
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
               argv[i + 1].rfind("-", 0) != 0 && !IsSpecialToken(argv[i + 1])) {
      Note("argument-secret", "argv " + name);
      out.push_back(argv[i++]);
      out.push_back(Mark("argument-secret"));
    } else if ((argv[i] == "-u" || argv[i] == "--user") && i + 1 < argv.size() &&
               argv[i + 1].find(':') != std::string::npos) {  // curl
      Note("argument-secret", "argv " + argv[i]);
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
