// Python's format specification mini-language: how one value becomes text in f'{x:>8.2f}',
// '{:,}'.format(x) and, in other words, '%8.2f' % x.
#pragma once

#include <string>

#include "src/config/python/value.h"

namespace xp::config::python {

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = 0;          // < > ^ =; 0 for the type's own
  char sign = 0;           // + - or space
  bool alternate = false;  // #: 0x before hexadecimal digits, a point after a float's
  char group = 0;          // , or _ between thousands
  int width = 0;
  int precision = -1;  // of an int, as % allows: the least number of digits
  char type = 0;
};

// These throw a std::string, a message, for what Python refuses, for the types c and n, and for
// widths and precisions over 1000.

// [[fill]align][sign][#][0][width][,_][.precision][type] for a value of this type.
FormatSpec ParseFormatSpec(const std::string& text, Type type);

std::string FormatValue(const Value& value, const std::string& spec);

// Of an int in base 2, 8, 10 or 16 (spec.type b, o, d, x, X) or of a float (e, f, g, %, 0 as repr).
std::string FormatInt(const Value& value, const FormatSpec& spec);
std::string FormatFloat(double value, const FormatSpec& spec);
// Cut to the precision and filled up to the width.
std::string FormatText(const std::string& text, const FormatSpec& spec);

}  // namespace xp::config::python
