// What is said beside a command's result: errors, warnings, notes.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace xp::cli {

// To stderr. fmt::print throws where nothing can be written (a full disk behind `2>log`, a terminal
// that is gone); what can't be told is lost then, and ends nothing.
inline void TellText(const std::string& text) { std::fputs(text.c_str(), stderr); }

template <typename... Args>
void Tell(fmt::format_string<Args...> format, Args&&... args) {
  TellText(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace xp::cli
