// `exp doctor`: all checks in order, and their report.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exp/base/stop.h"
#include "exp/doctor/finding.h"

namespace xp::doctor {

struct DoctorOptions {
  bool deep = false;    // minutes instead of half a minute
  bool measure = true;  // smoke tests and speeds; without them only what can be looked at
  std::string root;     // look at the files of another machine below this folder
  std::string device =
      "auto";  // of the smoke tests: auto (the first GPU, else the CPU), cpu, cuda:N
  std::string data, store, work;
  std::string binary;  // this program
  // Starts this program as a child of the test of two processes, followed by the device and a
  // folder for cuDNN's plans; empty: that test is left out.
  std::vector<std::string> child;
  std::function<void(const Finding&)> on_finding;  // as they come
  StopFlag stop = nullptr;                         // ends the examination before its time
};

struct Report {
  Findings findings;
  Level worst = Level::kOk;
  bool deep = false;
  bool interrupted = false;  // it was stopped: checks after the last finding weren't made
  double seconds = 0;
};

// Throws UsageError for a device that can't be; everything else becomes a finding.
Report Examine(const DoctorOptions& options);

// What the child of the test of two processes does. `plans`: so that all take the same ones.
void RunChild(const std::string& device, const std::string& plans);

// 0: nothing wrong; 4: warnings; 1: errors.
int ExitCode(Level worst);

// docs/doctor.md lists the keys.
std::string ReportJson(const Report& report, const std::string& environment_json);
// One finding as lines of text; `colour`: with ANSI colours; `columns`: of the terminal.
std::string FindingText(const Finding& finding, bool colour, int columns);
// What ReportJson wrote; nullopt for text that is no such report.
std::optional<Report> ReportFromJson(const std::string& text);
// "31 checks in 21.3 s: 25 ok, 4 absent, 1 warning, 1 error", in lines of at most `columns`.
std::string SummaryText(const Report& report, int columns);
// The combination of versions as a Markdown table, from the environment that was captured and what
// was found of cuDNN, NCCL and the compilers.
std::string Memo(const std::string& environment_json, const Findings& findings);

}  // namespace xp::doctor
