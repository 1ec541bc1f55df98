// The syntax tree of a Python config: one plain struct, `kind` says what the fields mean.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace xp::config::python {

enum class AstKind {
  // Expressions. `kids` hold the parts in the order named.
  kNone,
  kTrue,
  kFalse,
  kEllipsis,
  kInt,          // integer
  kFloat,        // number
  kString,       // text
  kFString,      // kids: kString and kFormatted
  kFormatted,    // [value, spec or null]; text: conversion "r", "s" or ""
  kPlaceholder,  // text: "a.b" of {{_base_.a.b}}
  kName,         // text
  kTuple,
  kList,
  kSet,
  kDict,         // [key, value]...; a null key for **value
  kStarred,      // [value]
  kUnary,        // [operand]; text: "-", "+", "~", "not"
  kBinary,       // [left, right]; text
  kBool,         // [left, right]; text: "and", "or"
  kCompare,      // [first, second, ...]; names: the operators between them
  kConditional,  // [condition, then, otherwise]
  kCall,         // [function, positional...]; then keywords
  kKeyword,      // [value]; text: name, empty for **value
  kAttribute,    // [object]; text
  kSubscript,    // [object, index]
  kSlice,        // [from, to, step], each may be null
  kListComp,     // [element, clauses...]
  kSetComp,
  kDictComp,  // [key, value, clauses...]
  kGenerator,
  kClause,  // [target, iterable, conditions...]
  kLambda,  // [body, default or null of each name]; names: parameters, as written: "x", "*", "*x",
            // "**x"
  kWalrus,  // [value]; text: name
  // Statements.
  kModule,
  kAssign,      // [value, targets...]; text: "annotated" for x: int = 1
  kAugAssign,   // [target, value]; text: operator without "="
  kExpression,  // [value]
  kDelete,      // [targets...]
  kFor,         // [target, iterable, body, else or null]
  kWhile,       // [condition, body, else or null]
  kIf,          // [condition, body, condition of elif, body..., else or null]
  kBlock,       // statements
  kFunction,    // as kLambda; text: name
  kGlobal,      // names; text: "global" or "nonlocal"
  kReturn,      // [value or null]
  kPass,
  kBreak,
  kContinue,
  kAssert,      // [condition, message or null]
  kRaise,       // [exception or null]
  kImport,      // names: "a.b", alias ("" for none), ...
  kImportFrom,  // text: module with leading dots; names: name, alias, ...
  kWith,        // [call, body]
};

struct Ast {
  AstKind kind = AstKind::kNone;
  int line = 0;
  int column = 0;
  int depth = 1;  // of the tree below, bounded by the parser: walking it can't exhaust the stack
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Ast>> kids;
};

using AstPtr = std::unique_ptr<Ast>;

}  // namespace xp::config::python
