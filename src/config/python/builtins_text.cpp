// The builtins of letters and text: ascii, chr, ord, hex, oct, bin, format, repr.
#include <fmt/format.h>

#include "exp/base/utf8.h"
#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

// The number of the one UTF-8 character that the text is.
uint32_t CodePoint(const std::string& character) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0xffU >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3fU);
  return code;
}

}  // namespace

Value Evaluator::Text(const Ast& at, const std::string& name, Arguments& arguments) {
  const auto& given = arguments.positional;
  Need(at, arguments, 1, name == "format" ? 2 : 1, name);
  const Value& value = given[0];
  if (name == "repr") return Value::String(Repr(value));
  if (name == "format") {
    if (given.size() == 2 && given[1].type != Type::kString) Fail(at, "format() takes a string");
    return Value::String(Format(at, value, given.size() == 2 ? given[1].Text() : ""));
  }
  if (name == "ascii") {
    std::string out;
    for (const std::string& character : Characters(Repr(value))) {
      const uint32_t code = CodePoint(character);
      out += code < 0x80      ? character
             : code < 0x100   ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
    }
    return Value::String(std::move(out));
  }
  if (name == "ord") {
    if (value.type != Type::kString || Characters(value.Text()).size() != 1)
      Fail(at, "ord() takes one character");
    return Value::Int(CodePoint(value.Text()));
  }
  if (!value.IsIntegral()) Fail(at, fmt::format("{}() takes an int", name));
  int64_t number = value.AsInt();
  if (name == "chr") {
    const bool surrogate = number >= 0xd800 && number <= 0xdfff;
    if (number < 0 || number > 0x10ffff || surrogate)
      Fail(at, "chr() takes the number of a character, up to 0x10ffff");
    std::string character;
    AppendUtf8(character, static_cast<uint32_t>(number));
    return Value::String(std::move(character));
  }
  uint64_t magnitude =
      number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string digits = name == "hex"   ? fmt::format("{:#x}", magnitude)
                       : name == "oct" ? fmt::format("0o{:o}", magnitude)
                                       : fmt::format("{:#b}", magnitude);
  return Value::String((number < 0 ? "-" : "") + digits);
}

}  // namespace xp::config::python
