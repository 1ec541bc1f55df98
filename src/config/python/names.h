// Which names a function's statements assign: these are its own wherever it reads them.
#pragma once

#include <string>
#include <unordered_set>

#include "src/config/python/ast.h"

namespace xp::config::python {

// Of a kFunction or kLambda, without its parameters and what it declares global or nonlocal.
std::unordered_set<std::string> AssignedNames(const Ast& function);

}  // namespace xp::config::python
