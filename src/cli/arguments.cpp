#include "src/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <utility>

namespace xp::cli {

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
  option_->check(CLI::Range(least, most));
  return *this;
}
Argument& Argument::Range(double least, double most) {
  option_->check(CLI::Range(least, most));
  return *this;
}
Argument& Argument::Positive() {
  option_->check(CLI::PositiveNumber);
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
bool Argument::given() const { return option_->count() > 0; }

Command Command::AddCommand(const char* name, const char* description) {
  return Command(app_->add_subcommand(name, description));
}

template <typename Value>
Argument Command::AddOption(const char* name, Value& value, const char* description) {
  return Argument(app_->add_option(name, value, description));
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
void Command::RequireCommand() { app_->require_subcommand(1); }
void Command::Footer(const char* text) { app_->footer(text); }
void Command::Callback(std::function<void()> run) { app_->callback(std::move(run)); }

}  // namespace xp::cli
