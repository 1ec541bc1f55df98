// Text from files and names that a terminal shall show and not obey.
#pragma once

#include <string>
#include <string_view>

namespace xp {

// Control characters (ESC, NUL, BEL, DEL, ...) as \x1b; what is printable stays, UTF-8 too. With
// `lines`, line feeds and tabs stay as well.
std::string Printable(std::string_view text, bool lines = false);

}  // namespace xp
