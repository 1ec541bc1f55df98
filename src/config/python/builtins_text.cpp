// The builtins of letters and text: ascii, chr, ord, hex, oct, bin, format, repr.
#include <fmt/format.h>

#include "exp/base/utf8.h"
#include "src/config/python/evaluator.h"
#include "src/config/python/format_spec.h"
#include "src/config/python/text_search.h"

namespace xp::config::python {
Value Evaluator::Text(const Ast& at, const std::string& name, Arguments& arguments) {
  const auto& given = arguments.positional;
  Need(at, arguments, 1, name == "format" ? 2 : 1, name);
  const Value& value = given[0];
  if (name == "repr" || name == "ascii")
    return Value::String(Converted(at, value, name == "repr" ? "r" : "a"));
  if (name == "format") {
    if (given.size() == 2 && given[1].type != Type::kString) Fail(at, "format() takes a string");
    return Value::String(Format(at, value, given.size() == 2 ? given[1].Text() : ""));
  }
  if (name == "ord") {
    if (value.type != Type::kString || CountCharacters(value.Text()) != 1)
      Fail(at, "ord() takes one character");
    return Value::Int(CodePoint(value.Text()));
  }
  if (name == "chr") {
    const int64_t number = value.IsIntegral() ? value.AsInt() : -1;
    const bool surrogate = number >= 0xd800 && number <= 0xdfff;
    if (number < 0 || number > 0x10ffff || surrogate)
      Fail(at, "chr() takes the number of a character, up to 0x10ffff");
    std::string character;
    AppendUtf8(character, static_cast<uint32_t>(number));
    return Value::String(std::move(character));
  }
  if (!value.IsIntegral() && value.type != Type::kBig)
    Fail(at, fmt::format("{}() takes an int", name));
  FormatSpec spec;
  spec.alternate = true;
  spec.type = name == "hex" ? 'x' : name == "oct" ? 'o' : 'b';
  return Value::String(FormatInt(value, spec));
}

}  // namespace xp::config::python
