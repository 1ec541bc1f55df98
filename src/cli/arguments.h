// The words of a command line, as a command declares them: a narrow door to CLI11, whose header
// takes every file that includes it ten seconds to compile; arguments.cpp is the only one.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace xp::cli {

// An option or a positional, while it is declared; afterwards whether it was given.
class Argument {
 public:
  Argument() = default;
  explicit Argument(CLI::Option* option) : option_(option) {}

  Argument& Required();
  Argument& ShowDefault();  // what the variable holds now, in the help
  Argument& OneOf(std::vector<std::string> words);
  Argument& Range(int least, int most);
  Argument& Range(double least, double most);
  Argument& OneEachTime();                // may be given again; a word each time
  Argument& Words(int count);             // takes so many words
  Argument& Words(int least, int most);   // 0 to 1: also without a value
  Argument& SplitAt(char separator);      // a,b,c is three values
  Argument& Placeholder(const char* in);  // what the help calls the value
  Argument& MayBeEmpty();                 // of a text, which is refused otherwise
  // `problem` says what is wrong with a text; empty: nothing.
  Argument& Check(std::function<std::string(const std::string&)> problem);
  Argument& Hidden();  // not in the help
  bool given() const;

 private:
  CLI::Option* option_ = nullptr;
};

// A command, or one below it. A copy is the same command.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command AddCommand(const char* name, const char* description);
  // A name with dashes is an option, one without the next positional. Value: a string, a number, an
  // optional or a vector of these (arguments.cpp has the list). It must live as long as the
  // callback.
  template <typename Value>
  Argument AddOption(const char* name, Value& value, const char* description = "");
  Argument AddFlag(const char* name, bool& value, const char* description);
  void RequireCommand();  // one of those below must be named
  void Footer(const char* text);
  void Callback(std::function<void()> run);

 private:
  CLI::App* app_;
};

// What the parser is given for a program's arguments: the last one first. `help COMMAND` is
// `COMMAND --help`.
std::vector<std::string> ForParser(int argc, char** argv);

}  // namespace xp::cli
