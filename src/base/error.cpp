#include "exp/base/error.h"

namespace xp {
namespace {

std::string Format(const ErrorText& text) {
  std::string out;
  if (!text.where.empty()) out += text.where + ": ";
  out += text.what;
  if (!text.expected.empty()) out += "\n  expected: " + text.expected;
  if (!text.next.empty()) out += "\n  next: " + text.next;
  return out;
}

}  // namespace

Error::Error(ErrorKind kind, ErrorText text)
    : std::runtime_error(Format(text)), kind_(kind), text_(std::move(text)) {}

}  // namespace xp
