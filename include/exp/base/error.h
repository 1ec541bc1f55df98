// The one error type of the library: what is wrong, where, what was expected, what to do next.
#pragma once

#include <stdexcept>
#include <string>

namespace xp {

// Exit codes of the program (docs/errors.md): the kind of an error decides which one is used.
enum class ErrorKind {
  kJob = 1,       // the job itself failed: disk full, GPU lost, non-finite loss
  kUsage = 2,     // the user can mend it: config, command line, data, a file that is missing
  kDiverged = 3,  // `exp reproduce` found a difference
  kInterrupted = 130,
};

// Everything a person needs to mend the problem. Fields other than `what` may be empty.
struct ErrorText {
  std::string what;      // "`optimizer.lr` is a string"
  std::string where;     // "configs/a.yaml:3:7", "--set #2", a path
  std::string expected;  // "a number"
  std::string next;      // "write 0.02 without quotes"
};

// what() gives the whole message, ready to print after "error: ":
//   <where>: <what>
//     expected: <expected>
//     next: <next>
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, ErrorText text);

  ErrorKind kind() const { return kind_; }
  const ErrorText& text() const { return text_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
  ErrorText text_;
};

// Shorthands for the two common kinds: `throw UsageError({.what = ..., .where = ...});`
inline Error UsageError(ErrorText text) { return Error(ErrorKind::kUsage, std::move(text)); }
inline Error JobError(ErrorText text) { return Error(ErrorKind::kJob, std::move(text)); }

}  // namespace xp
