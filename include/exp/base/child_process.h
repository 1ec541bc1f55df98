// A child process with pipes to its input and output.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace xp {

class ChildProcess {
 public:
  // Starts argv[0], looked up on the PATH; its standard error goes nowhere unless `errors`.
  ChildProcess(const std::vector<std::string>& argv, bool errors = false);
  ~ChildProcess();  // ends it if it hasn't ended
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool started() const { return pid_ > 0; }
  // What stands in its output up to the next line end; nothing at the end, when `seconds` pass or a
  // signal comes, and where a line is longer than 16 MiB.
  std::optional<std::string> Line(double seconds);
  // No further line will come.
  bool at_end() const { return at_end_; }
  // The rest of its output, at most 16 MiB; it is ended when `seconds` pass.
  std::string Rest(double seconds);
  void Write(const std::string& text);
  // Its exit code; -1 when it was ended by a signal. One that goes on for `seconds` more (it may
  // have closed its output, or nobody reads it any more) is ended: kEnded.
  int Wait(double seconds = 5);
  static constexpr int kEnded = -2;

 private:
  bool Fill(double seconds);  // reads some more; false at the end or after `seconds`

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::string buffer_;
  bool at_end_ = false;
  int status_ = -1;
};

}  // namespace xp
