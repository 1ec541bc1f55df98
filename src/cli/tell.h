// What is said beside a command's result or on the way to it: errors, warnings, notes, rows. Not by
// fmt::print, which throws where nothing can be written.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

namespace xp::cli {

// To stderr. fmt::print throws where nothing can be written (a full disk behind `2>log`, a terminal
// that is gone); what can't be told is lost then, and ends nothing.
inline void TellText(const std::string& text) { std::fputs(text.c_str(), stderr); }

// Why SayText lost something, the first time (errno); 0: nothing was lost.
inline int lost_output = 0;

// To stdout, line by line while something long goes on: what can't be written then is told at the
// end (app.cpp).
inline void SayText(const std::string& text) {
  const bool lost = std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0;
  if (lost && lost_output == 0) lost_output = errno;
}

template <typename... Args>
void Say(fmt::format_string<Args...> format, Args&&... args) {
  SayText(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void Tell(fmt::format_string<Args...> format, Args&&... args) {
  TellText(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace xp::cli
