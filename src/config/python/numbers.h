// Numbers as CPython has them: reading, rounding, dividing and comparing without a lost bit.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "src/config/python/value.h"

namespace xp::config::python {

// int(text, base): blanks around, a sign, 0x with base 16 or 0, one _ between digits. Nothing where
// Python raises ValueError; throws a std::string, a message, beyond 64 bits. base: 0 or 2 to 36.
std::optional<Value> ReadInt(const std::string& text, int base);

// float(text): a decimal number, inf, infinity, nan.
std::optional<double> ReadFloat(const std::string& text);

// round(value, digits): half to even, of the exact decimal value.
double RoundFloat(double value, int64_t digits);
// Nothing where the result needs more than 64 bits. digits < 0.
std::optional<int64_t> RoundInt(int64_t value, int64_t digits);

// a / b of ints, rounded once. b != 0.
double DivideInts(int64_t a, int64_t b);

// Exact also between an int and a float; unordered with NaN. Both are numbers or kBig.
std::partial_ordering CompareNumbers(const Value& a, const Value& b);

// The nearest double of any number.
double ToDouble(const Value& number);

}  // namespace xp::config::python
