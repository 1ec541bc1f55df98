// Tokens into a syntax tree: the statements and expressions that configs use.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "src/config/python/ast.h"

namespace xp::config::python {

// A whole file. Throws UsageError with source:line:column; constructs outside the subset (class,
// try, async, yield, decorators, global) are named in the message. Nesting is at most 200 levels.
AstPtr ParseModule(std::string_view text, const std::string* source,
                   const std::filesystem::path& file);

// One expression.
AstPtr ParseExpression(std::string_view text, const std::string* source, int line, int column);

}  // namespace xp::config::python
