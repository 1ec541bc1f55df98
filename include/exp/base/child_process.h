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
  // What stands in its output up to the next line end; nothing at the end, or when `seconds` pass.
  std::optional<std::string> Line(double seconds);
  // The rest of its output, at most 16 MiB; it is ended when `seconds` pass.
  std::string Rest(double seconds);
  void Write(const std::string& text);
  // Its exit code; -1 when it was ended by a signal.
  int Wait();

 private:
  bool Fill(double seconds);  // reads some more; false at the end or after `seconds`

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::string buffer_;
  int status_ = -1;
};

}  // namespace xp
