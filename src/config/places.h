// Where the places of a text were in its file, when placeholders in it have been replaced by text
// of another length. Lines and columns count from 1, columns in characters; a byte order mark is
// none.
#pragma once

#include <string_view>
#include <vector>

#include "exp/config/node.h"

namespace xp::config {

// A place in a text while it is read from the start.
struct TextPlace {
  int line = 1, column = 1;

  void See(std::string_view text);
};

class Places {
 public:
  // What stood from `from` up to `from_end` in the file stands from `to` up to `to_end` in the
  // text. Called in the order of the text.
  void Replaced(TextPlace from, TextPlace from_end, TextPlace to, TextPlace to_end);

  // The place in the file of one in the text. All of what stands for a placeholder is where the
  // placeholder begins.
  Origin InFile(const Origin& at) const;

 private:
  struct Replacement {
    TextPlace from, from_end, to, to_end;
  };
  std::vector<Replacement> replacements_;
};

}  // namespace xp::config
