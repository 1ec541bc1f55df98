#include "src/cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace xp::cli {
namespace {

constexpr const char* kGivenText = "given text";

// `--resume "$RUN"` without such a variable isn't the same as no --resume, and an empty text would
// be the beginning of every run's id.
CLI::Validator GivenText() {
  return {[](std::string& text) {
            return text.empty() ? std::string(
                                      "an empty text is no value; leave it out, or look "
                                      "whether a variable is unset")
                                : std::string();
          },
          "", kGivenText};
}

// CLI11 takes `[a,b]` for a list of two, where a folder may be called so, or an argument of another
// program be one of Python's lists. A word that begins so gets a character at its end until it is
// an option's or a positional's.
constexpr char kWholeWord = '\x1f';

CLI::Validator TakenWhole() {
  return {[](std::string& text) {
            if (text.starts_with('[') && text.ends_with(kWholeWord)) text.pop_back();
            return std::string();
          },
          "", "taken whole"};
}

// What a number may be: its type's values, within a range where there is one.
template <typename Number>
struct Limits {
  Number least = std::numeric_limits<Number>::lowest(), most = std::numeric_limits<Number>::max();

  std::string Text(bool beyond) const {
    const char* kind = std::is_integral_v<Number> ? "a whole number" : "a finite number";
    // The bounds of a type are no news but to who goes beyond them.
    if (least != std::numeric_limits<Number>::lowest())
      return fmt::format("{} from {} to {}", kind, least, most);
    return beyond && std::is_integral_v<Number> ? fmt::format("{}, at most {}", kind, most) : kind;
  }
};

// Instead of CLI11's own: it takes 010 for 8, and prints the largest double with 309 digits.
template <typename Number>
CLI::Validator Within(Limits<Number> limits) {
  return {[limits](std::string& text) -> std::string {
            const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
            const char* end = text.data() + text.size();
            Number value{};
            const auto [stop, error] = std::from_chars(begin, end, value);
            const bool number = stop == end && begin != end && error == std::errc();
            if (number && value >= limits.least && value <= limits.most) {
              text = fmt::format("{}", value);
              return "";
            }
            const bool beyond = error == std::errc::result_out_of_range;
            return fmt::format("`{}` can't be taken; expected {}", text, limits.Text(beyond));
          },
          ""};
}

template <typename Value>
struct NumberOf {
  using Type = Value;
};
template <typename Value>
struct NumberOf<std::optional<Value>> {
  using Type = Value;
};
template <typename Value>
struct NumberOf<std::vector<Value>> {
  using Type = Value;
};

}  // namespace

Argument& Argument::Required() {
  option_->required();
  return *this;
}
Argument& Argument::ShowDefault() {
  option_->capture_default_str();
  return *this;
}
Argument& Argument::OneOf(std::vector<std::string> words) {
  option_->check(CLI::IsMember(std::move(words)));
  return *this;
}
Argument& Argument::Range(int least, int most) {
  option_->transform(Within<int64_t>({least, most}));
  return *this;
}
Argument& Argument::Range(double least, double most) {
  option_->transform(Within<double>({least, most}));
  return *this;
}
Argument& Argument::OneEachTime() {
  option_->allow_extra_args(false);
  return *this;
}
Argument& Argument::Words(int count) {
  option_->expected(count);
  return *this;
}
Argument& Argument::Words(int least, int most) {
  option_->expected(least, most);
  return *this;
}
Argument& Argument::SplitAt(char separator) {
  option_->delimiter(separator);
  return *this;
}
Argument& Argument::Placeholder(const char* in) {
  option_->type_name(in);
  return *this;
}
Argument& Argument::Hidden() {
  option_->group("");
  return *this;
}
Argument& Argument::MayBeEmpty() {
  option_->get_validator(kGivenText)->active(false);
  return *this;
}
Argument& Argument::Check(std::function<std::string(const std::string&)> problem) {
  // A function of a text that may be changed: else CLI11 would take what it returns for the text.
  option_->check(CLI::Validator(
      [problem = std::move(problem)](std::string& text) { return problem(text); }, ""));
  return *this;
}
bool Argument::given() const { return option_->count() > 0; }

Command Command::AddCommand(const char* name, const char* description) {
  return Command(app_->add_subcommand(name, description));
}

template <typename Value>
Argument Command::AddOption(const char* name, Value& value, const char* description) {
  CLI::Option* option = app_->add_option(name, value, description);
  constexpr bool kText = std::is_same_v<Value, std::string> ||
                         std::is_same_v<Value, std::optional<std::string>> ||
                         std::is_same_v<Value, std::vector<std::string>>;
  option->transform(TakenWhole());
  if constexpr (kText) {
    option->check(GivenText());
  } else {
    option->transform(Within<typename NumberOf<Value>::Type>({}));
  }
  return Argument(option);
}
template Argument Command::AddOption(const char*, std::string&, const char*);
template Argument Command::AddOption(const char*, int&, const char*);
template Argument Command::AddOption(const char*, int64_t&, const char*);
template Argument Command::AddOption(const char*, uint32_t&, const char*);
template Argument Command::AddOption(const char*, uint64_t&, const char*);
template Argument Command::AddOption(const char*, double&, const char*);
template Argument Command::AddOption(const char*, std::optional<std::string>&, const char*);
template Argument Command::AddOption(const char*, std::optional<int>&, const char*);
template Argument Command::AddOption(const char*, std::optional<double>&, const char*);
template Argument Command::AddOption(const char*, std::vector<std::string>&, const char*);
template Argument Command::AddOption(const char*, std::vector<int>&, const char*);

Argument Command::AddFlag(const char* name, bool& value, const char* description) {
  return Argument(app_->add_flag(name, value, description));
}
std::vector<std::string> ForParser(int argc, char** argv) {
  std::vector<std::string> words;
  const bool help = argc > 1 && std::string_view(argv[1]) == "help";  // exp help COMMAND
  if (help) words.emplace_back("--help");
  for (int i = argc - 1; i > (help ? 1 : 0); --i) {
    words.emplace_back(argv[i]);
    if (words.back().starts_with('[')) words.back() += kWholeWord;
  }
  return words;
}

void Command::RequireCommand() { app_->require_subcommand(1); }
void Command::Footer(const char* text) { app_->footer(text); }
void Command::Callback(std::function<void()> run) { app_->callback(std::move(run)); }

}  // namespace xp::cli
