// Names that a person may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xp::config {

// Up to `limit` of the candidates that are nearest to `name` by edits (a swap of neighbours counts
// as one), nearest first; none that is farther than a third of the name's length plus one.
std::vector<std::string> Nearest(std::string_view name, const std::vector<std::string>& candidates,
                                 size_t limit = 3);

// "did you mean `a`, `b` or `c`?"; "" for none.
std::string DidYouMean(const std::vector<std::string>& names);

}  // namespace xp::config
