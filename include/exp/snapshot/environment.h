// The machine and the program that run: whatever may explain a different result or another speed.
#pragma once

#include <string>
#include <vector>

namespace xp::snapshot {

struct EnvironmentOptions {
  int threads = 0;      // compute threads that the run will use
  bool gpu = true;      // ask NVML and the CUDA libraries
  bool python = false;  // list the packages of the interpreter on the PATH
  // That may take as long; on a network's disk many packages are read slowly.
  double python_seconds = 120;
  std::vector<std::string> variables;  // environment variables to keep besides the usual ones
};

class Redactor;

// A JSON object of groups ("program", "os", "cpu", "memory", "libraries", "variables", "gpu", ...);
// equal machines in an equal state give equal texts, so nothing in it changes from minute to
// minute. docs/record.md lists the keys.
std::string CaptureEnvironment(const EnvironmentOptions& options, Redactor& redactor);

}  // namespace xp::snapshot
