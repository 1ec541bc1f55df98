// Text put into files of other languages.
#pragma once

#include <string>
#include <string_view>

namespace xp {

// Text as it stands in HTML, between tags or in a quoted attribute; what is no UTF-8 is replaced,
// control characters are shown as Printable does.
std::string EscapeHtml(std::string_view text);

// A cell of a CSV file (RFC 4180): in quotes where it holds a comma, a quote or a line end.
std::string CsvCell(std::string_view text);

// A word of a POSIX shell's command line: in single quotes where the shell would read it otherwise.
std::string ShellWord(std::string_view text);

// All but letters, digits, "-_.~" and `kept` as %XX (RFC 3986).
std::string PercentEncoded(std::string_view text, std::string_view kept = "");

}  // namespace xp
