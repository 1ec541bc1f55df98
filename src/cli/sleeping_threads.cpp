#include "src/cli/sleeping_threads.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace xp::cli {
namespace {

constexpr char kPolicy[] = "OMP_WAIT_POLICY";
constexpr char kRestarted[] = "EXP_THREADS_SLEEP";

bool Trains(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view command = argv[1];
  return command == "run" || command == "reproduce" || command == "resume" || command == "replay" ||
         command == "eval" || command == "predict" || command == "bench" || command == "doctor";
}

}  // namespace

void LetThreadsSleep(int argc, char** argv) {
  if (std::getenv(kRestarted) != nullptr) {  // OpenMP has read it
    ::unsetenv(kRestarted);
    ::unsetenv(kPolicy);
    return;
  }
  if (!Trains(argc, argv) || std::getenv(kPolicy) != nullptr) return;
  if (std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  ::setenv(kPolicy, "passive", 1);
  ::setenv(kRestarted, "1", 1);
  ::execv("/proc/self/exe", argv);
  ::unsetenv(kRestarted);  // it can't be: go on as it is
  ::unsetenv(kPolicy);
}

}  // namespace xp::cli
