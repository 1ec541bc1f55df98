// A child process that answers questions by a function of this program: for libraries that may end
// or hang the process that calls them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace xp {

class AnsweringChild {
 public:
  using Answer = std::function<std::string(const std::string& question)>;
  enum class State { kAnswers, kEnded, kHangs };

  // Forks: what `answer` changes stays in the child, which ends with this object or this program.
  // Where no process can be started (`ulimit -u`) the questions are answered in this one.
  explicit AnsweringChild(Answer answer);
  ~AnsweringChild();
  AnsweringChild(const AnsweringChild&) = delete;
  AnsweringChild& operator=(const AnsweringChild&) = delete;

  // nullopt where the child ends or says nothing for so many seconds (at most 250): it answers
  // nothing more then. Also for a question of 64 KiB; answers are cut there. One thread at a time.
  std::optional<std::string> Ask(const std::string& question, int seconds);
  State state() const { return state_; }

 private:
  void End(State state);

  Answer answer_;
  pid_t pid_ = -1;  // -1: there is no child
  int socket_ = -1;
  State state_ = State::kAnswers;
};

}  // namespace xp
