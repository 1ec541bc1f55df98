// What is shown on a terminal while something takes long, and how wide that is.
#pragma once

#include <string>

namespace xp::cli {

bool IsTerminal(int descriptor);
// Of the terminal behind it; 100 where it doesn't say.
int TerminalColumns(int descriptor);

// "[=====>    ]", `width` characters within; `share` of it is done.
std::string Bar(double share, int width);
// "01:02:03" or "02:03".
std::string DurationText(double seconds);

}  // namespace xp::cli
