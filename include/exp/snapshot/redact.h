// Keeps secrets out of the record: finds credentials in texts, command lines, URLs and config
// values, puts a mark in their place, and remembers the kind and the place, never the secret.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xp::snapshot {

struct Redaction {
  std::string kind;   // "github-token", "url-credentials", "named-secret", ...
  std::string place;  // "argv", "remote origin", "untracked file a/b.env", "config wandb.api_key"
  bool operator==(const Redaction&) const = default;
};

struct RedactOptions {
  bool enable = true;
  bool entropy = true;  // texts in quotes and whole values that look random go, whatever their name
  std::vector<std::string>
      patterns;  // further regular expressions (ECMAScript), each match is removed
  std::vector<std::string> allow;  // exact texts that are never removed
};

class Redactor {
 public:
  // Throws UsageError for a pattern that isn't a regular expression.
  explicit Redactor(RedactOptions options = {});

  // Whether a key or variable of this name holds a secret: "api_key", "WANDB_API_KEY",
  // "db.password"; but no "pad_token".
  static bool SecretName(std::string_view name);
  // Names such as "password" and "api_key", whose values go whatever they look like.
  static bool StrongSecretName(std::string_view name);

  // From now on, removes this literal wherever it is met, also as JSON, YAML and URLs write it, and
  // each long line of it; ignored when shorter than 6 bytes.
  void Learn(const std::string& secret, const std::string& kind);
  // Learns the values of all environment variables with a secret's name or a secret's shape, and
  // what `argv` gives to such flags (`--token X`, `--set db.password=X`).
  void LearnEnvironment();
  void LearnArgv(const std::vector<std::string>& argv);

  // The text without secrets. Any bytes; those that aren't secret stay as they are.
  std::string Text(std::string_view text, const std::string& place);
  // What stands in a place that is known to hold a secret; empty and allowed texts stay.
  std::string Secret(const std::string& value, const std::string& kind, const std::string& place);
  std::vector<std::string> Argv(const std::vector<std::string>& argv);

  // Each kind and place once, in the order found.
  const std::vector<Redaction>& found() const { return found_; }
  std::string FoundJson() const;

 private:
  struct Expressions;  // the compiled patterns
  std::string Known(std::string_view text, const std::string& place);
  std::string Shapes(std::string_view text, const std::string& place);
  std::string Patterns(std::string text, const std::string& place);
  bool Allowed(std::string_view text) const;
  void LearnOne(const std::string& secret, const std::string& kind);
  void LearnArgument(const std::string& value);
  // Names the place without the secret that the place itself may hold (a file's name).
  void Note(const std::string& kind, const std::string& place);

  RedactOptions options_;
  std::shared_ptr<const Expressions> expressions_;
  std::vector<std::pair<std::string, std::string>> known_;  // secret, kind; longest first
  std::vector<Redaction> found_;
};

}  // namespace xp::snapshot
