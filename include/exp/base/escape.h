// Text put into files of other languages.
#pragma once

#include <string>
#include <string_view>

namespace xp {

// Text as it stands in HTML, between tags or in a quoted attribute; what is no UTF-8 is replaced.
std::string EscapeHtml(std::string_view text);

// A cell of a CSV file (RFC 4180): in quotes where it holds a comma, a quote or a line end.
std::string CsvCell(std::string_view text);

}  // namespace xp
