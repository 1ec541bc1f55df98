// Two processes at once on one device: a wrong CUDA, or a card that mixes up memory, shows itself
// here while each alone is fine.
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "exp/base/child_process.h"
#include "exp/base/stopwatch.h"
#include "exp/doctor/smoke.h"

namespace xp::doctor {
namespace {

constexpr double kPatience = 60;  // seconds

std::string NextLine(ChildProcess& child, StopFlag stop) {
  constexpr double kLook = 0.2;  // seconds between looks at `stop`
  for (Stopwatch watch; watch.Seconds() < kPatience && !child.at_end();) {
    ThrowIfStopped(stop);
    if (auto line = child.Line(kLook)) return *line;
  }
  return "";
}

// The hash that each process ends with; a text that tells what went wrong instead, after "!".
std::vector<std::string> RunTogether(const std::vector<std::string>& argv, int count,
                                     StopFlag stop) {
  std::vector<std::unique_ptr<ChildProcess>> children;
  std::vector<std::string> results;
  children.reserve(static_cast<size_t>(count));
  results.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) children.push_back(std::make_unique<ChildProcess>(argv));
  for (auto& child : children) {
    // Nobody begins before everybody is ready, so that they do compute at the same time.
    results.push_back(!child->started()                   ? "!it can't be started"
                      : NextLine(*child, stop) == "ready" ? ""
                                                          : "!it didn't get ready");
  }
  for (auto& child : children) child->Write("go\n");
  for (size_t i = 0; i < children.size(); ++i) {
    std::string line = results[i].empty() ? NextLine(*children[i], stop) : "";
    if (line.starts_with("hash ")) {
      results[i] = line.substr(5);
    } else if (results[i].empty()) {
      results[i] = "!it ended without a result";
    }
  }
  return results;
}

// A terminal's Ctrl-C also ends the processes, and this one may see that before its own signal.
void RequireNoSignal(StopFlag stop) {
  if (stop != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ThrowIfStopped(stop);
}

}  // namespace

Finding TwoProcesses(const std::vector<std::string>& argv, StopFlag stop) {
  Finding f{.id = "smoke.two_processes", .group = "smoke"};
  f.needed = "the same weights as one process alone";
  std::vector<std::string> alone = RunTogether(argv, 1, stop), both = RunTogether(argv, 2, stop);
  for (const std::string& result : {alone[0], both[0], both[1]}) {
    if (!result.starts_with('!')) continue;
    RequireNoSignal(stop);
    f.level = Level::kError;
    const bool also_alone = alone[0].starts_with('!');
    f.found = "a process failed: " + result.substr(1) +
              (also_alone ? " (also alone)" : " (not alone, only two at once)");
    f.why = also_alone ? "a training in a process of its own will fail, too"
                       : "a training beside another one will fail, too";
    f.fix = also_alone ? "look at the rows about memory, processes and temporary files"
                       : "in compute mode exclusive only one may: nvidia-smi -c DEFAULT; else look "
                         "at free memory";
    return f;
  }
  bool same = alone[0] == both[0] && alone[0] == both[1];
  f.found = same ? "two trainings at once give the same weights as one alone"
                 : fmt::format("alone {}, at once {} and {}", alone[0].substr(0, 8),
                               both[0].substr(0, 8), both[1].substr(0, 8));
  if (same) return f;
  f.level = Level::kError;
  f.why = "processes disturb each other's results: driver, CUDA or the card is at fault";
  f.fix = "train one at a time, and install another driver version; have the card looked at";
  return f;
}

void Rendezvous(const std::function<std::string()>& compute) {
  std::cout << "ready\n" << std::flush;
  std::string word;
  if (!std::getline(std::cin, word)) return;
  std::cout << "hash " << compute() << "\n" << std::flush;
}

}  // namespace xp::doctor
