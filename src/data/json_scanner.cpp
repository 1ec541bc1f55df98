#include "src/data/json_scanner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>

#include "exp/base/error.h"
#include "exp/base/file_kind.h"
#include "exp/base/system_advice.h"
#include "exp/base/utf8.h"

namespace xp::data {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kMaxDepth = 256;  // far beyond any annotation file, far below the stack

}  // namespace

std::vector<std::pair<int64_t, int64_t>> LocateOffsets(const std::filesystem::path& path,
                                                       const std::vector<int64_t>& offsets) {
  std::vector<std::pair<int64_t, int64_t>> places(offsets.size(), {0, 0});
  std::vector<size_t> order(offsets.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  std::ifstream in(path, std::ios::binary);
  std::vector<char> buffer(kBufferBytes);
  int64_t line = 1, line_start = 0, base = 0;
  size_t next = 0;
  while (next < order.size() && in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const int64_t count = in.gcount();
    int64_t at = 0;
    // An offset may equal the file's length (an unexpected end), hence <= at the last piece.
    while (next < order.size()) {
      int64_t target = offsets[order[next]];
      int64_t limit = std::clamp<int64_t>(target - base, at, count);
      while (const void* newline =
                 std::memchr(buffer.data() + at, '\n', static_cast<size_t>(limit - at))) {
        at = static_cast<const char*>(newline) + 1 - buffer.data();
        ++line;
        line_start = base + at;
      }
      at = limit;
      if (target > base + count) break;
      places[order[next++]] = {line, target - line_start + 1};
    }
    base += in.gcount();
  }
  return places;
}

JsonScanner::JsonScanner(const std::filesystem::path& path) : path_(path), buffer_(kBufferBytes) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (fd_ >= 0 && (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode))) {
    ::close(fd_);
    throw UsageError({.what = S_ISDIR(status.st_mode) ? "is a folder" : "is not a regular file",
                      .where = path.string(),
                      .expected = "a COCO annotation file",
                      .next = "check the path (`ann_file`)"});
  }
  if (fd_ < 0) {
    throw UsageError({.what = std::string("can't be opened: ") + std::strerror(errno),
                      .where = path.string(),
                      .expected = "a COCO annotation file",
                      .next = "check the path (`ann_file`)"});
  }
  at_ = end_ = buffer_.data();
  try {
    CheckStart();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

void JsonScanner::CheckStart() {
  if (Peek() < 0) return;
  std::string other =
      OtherKind({reinterpret_cast<const uint8_t*>(at_), static_cast<size_t>(end_ - at_)});
  if (!other.empty()) {
    throw UsageError({.what = "this is " + other + ", not JSON",
                      .where = path_.string(),
                      .expected = "a COCO annotation file, JSON in UTF-8",
                      .next = AdviceFor(other)});
  }
  if (Peek() == 0xEF) {  // a byte order mark
    for (char c : {'\xEF', '\xBB', '\xBF'}) Expect(c, "a JSON value");
  }
}

JsonScanner::~JsonScanner() { ::close(fd_); }

bool JsonScanner::Refill() {
  base_ += end_ - buffer_.data();
  at_ = end_ = buffer_.data();
  ssize_t n;
  do {
    n = ::read(fd_, buffer_.data(), buffer_.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    throw UsageError({.what = std::string("can't be read: ") + std::strerror(errno),
                      .where = path_.string(),
                      .next = ReadAdvice(errno)});
  }
  end_ = buffer_.data() + n;
  return n > 0;
}

void JsonScanner::Fail(int64_t at, const std::string& what, const std::string& expected,
                       const std::string& next) const {
  auto [line, column] = LocateOffsets(path_, {at})[0];
  throw UsageError({.what = what,
                    .where = fmt::format("{}:{}:{}", path_.string(), line, column),
                    .expected = expected,
                    .next = next.empty() ? "mend the file there, or export it again" : next});
}

// What stands at a fault tells whose habit it is.
std::string JsonScanner::AdviceAt(int found) {
  if (found < 0)
    return base_ == 0 && at_ == buffer_.data() ? "the file is empty: export it again"
                                               : "the file is cut off: copy or export it again";
  switch (found) {
    case '\'':
      return "JSON's quotes are \": Python's str() writes none, json.dump() does";
    case 'T':
    case 'F':
    case 'o':  // None, of which the N could begin NaN
      return "JSON has true, false and null: Python's str() writes none, json.dump() does";
    case '/':
    case '#':
      return "JSON has no comments: remove them";
    default:
      return found < 0x20 ? "write it as an escape, such as \\t or \\n" : "";
  }
}

void JsonScanner::SkipSpace() {
  int c;
  while ((c = Peek()) == ' ' || c == '\n' || c == '\r' || c == '\t') ++at_;
}

void JsonScanner::Expect(char c, const char* expected) {
  int found = Peek();
  if (found == static_cast<unsigned char>(c)) {
    ++at_;
    return;
  }
  std::string what = "malformed JSON: the file ends here";
  if (found >= 0x20 && found < 0x7F) {
    what = fmt::format("malformed JSON: `{}` is not expected here", static_cast<char>(found));
  } else if (found >= 0) {
    what = fmt::format("malformed JSON: byte 0x{:02x} is not expected here", found);
  }
  Fail(offset(), what, expected, AdviceAt(found));
}

JsonScanner::Kind JsonScanner::PeekKind() {
  SkipSpace();
  switch (int c = Peek()) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kString;
    case 't':
    case 'f':
      return Kind::kBool;
    case 'n':
      return Kind::kNull;
    default:
      if (c == '-' || c == 'N' || c == 'I' || (c >= '0' && c <= '9')) return Kind::kNumber;
      Expect('"', "a JSON value");  // always throws: it names what was found
      return Kind::kNull;
  }
}

void JsonScanner::Push(char kind) {
  Expect(kind, kind == '{' ? "an object" : "an array");
  if (first_.size() == kMaxDepth) {
    Fail(offset(), fmt::format("nested more than {} deep", kMaxDepth), "a COCO annotation file",
         "check that `ann_file` names one");
  }
  first_.push_back(true);
}

void JsonScanner::Pop() {
  ++at_;
  first_.pop_back();
}

void JsonScanner::RefuseTrailing(char closing) {
  SkipSpace();
  if (Peek() == closing) {
    Fail(offset(), fmt::format("malformed JSON: a comma before `{}`", closing),
         "no comma behind the last entry", "remove the comma");
  }
}

void JsonScanner::BeginObject() {
  SkipSpace();
  Push('{');
}

bool JsonScanner::NextKey(std::string* key) {
  SkipSpace();
  if (Peek() == '}') {
    Pop();
    return false;
  }
  if (!first_.back()) {
    Expect(',', "`,` or `}`");
    RefuseTrailing('}');
  }
  first_.back() = false;
  String(key);
  SkipSpace();
  Expect(':', "`:` after a key");
  return true;
}

void JsonScanner::BeginArray() {
  SkipSpace();
  Push('[');
}

bool JsonScanner::NextElement() {
  SkipSpace();
  if (Peek() == ']') {
    Pop();
    return false;
  }
  if (!first_.back()) {
    Expect(',', "`,` or `]`");
    RefuseTrailing(']');
  }
  first_.back() = false;
  return true;
}

unsigned JsonScanner::ReadHex4() {
  unsigned value = 0;
  for (int i = 0; i < 4; ++i) {
    int c = Peek();
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) Fail(offset(), "malformed JSON: not a hex digit", "\\u and four hex digits");
    value = value * 16 + static_cast<unsigned>(digit);
    ++at_;
  }
  return value;
}

void JsonScanner::ReadEscape(std::string* out) {
  static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  int c = Peek();
  if (c >= 0 && c != 'u') {
    size_t i = kFrom.find(static_cast<char>(c));
    if (i == std::string_view::npos) {
      Fail(offset(), "malformed JSON: an unknown escape in a string",
           "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u",
           "write \\\\ for a backslash, or / in names of files");
    }
    out->push_back(kTo[i]);
    ++at_;
    return;
  }
  Expect('u', "an escape");
  constexpr unsigned kHigh = 0xD800, kLow = 0xDC00, kEnd = 0xE000;
  constexpr unsigned kNothing = 0xFFFD;  // what half a pair stands for
  unsigned code = ReadHex4();
  while (code >= kHigh && code < kLow) {
    if (Peek() != '\\') return AppendUtf8(*out, kNothing);
    ++at_;
    if (Peek() != 'u') {  // another escape, after half a pair
      AppendUtf8(*out, kNothing);
      return ReadEscape(out);
    }
    ++at_;
    const unsigned second = ReadHex4();
    if (second >= kLow && second < kEnd)
      return AppendUtf8(*out, 0x10000 + ((code - kHigh) << 10) + (second - kLow));
    AppendUtf8(*out, kNothing);
    code = second;
  }
  AppendUtf8(*out, code >= kLow && code < kEnd ? kNothing : code);
}

void JsonScanner::String(std::string* out) {
  out->clear();
  SkipSpace();
  const int64_t begin = offset();
  Expect('"', "a string");
  while (true) {
    int c = Peek();
    const char* start = at_;
    while (at_ < end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= 0x20)
      ++at_;
    out->append(start, at_);
    if (at_ == end_ && c >= 0) continue;
    if (Peek() == '\\') {
      ++at_;
      ReadEscape(out);
    } else {
      Expect('"', "the string's closing `\"`");
      if (!IsValidUtf8(*out)) {
        Fail(begin, "malformed JSON: a string that isn't UTF-8", "UTF-8",
             "convert the file: `iconv -f LATIN1 -t UTF-8`, if it is in Latin-1");
      }
      return;
    }
  }
}

template <bool keep>
void JsonScanner::ScanDigits() {
  int c = Peek();
  if (c < '0' || c > '9') Expect('0', "a digit");
  do {
    const char* start = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    if (keep) number_.append(start, at_);
    c = Peek();
  } while (c >= '0' && c <= '9');
}

void JsonScanner::Literal(std::string_view word) {
  for (char c : word) Expect(c, "a JSON value");
}

template <bool keep>
void JsonScanner::ScanNumber() {
  SkipSpace();
  if (keep) number_.clear();
  auto take_if = [&](char a, char b) {
    int c = Peek();
    if (c != a && c != b) return false;
    if (keep) number_.push_back(static_cast<char>(c));
    ++at_;
    return true;
  };
  take_if('-', '-');
  for (std::string_view word : {std::string_view("NaN"), std::string_view("Infinity")}) {
    if (Peek() == word[0]) {
      Literal(word);
      if (keep) number_ += word;
      return;
    }
  }
  if (!take_if('0', '0')) ScanDigits<keep>();
  if (take_if('.', '.')) ScanDigits<keep>();
  if (take_if('e', 'E')) {
    take_if('+', '-');
    ScanDigits<keep>();
  }
}

std::string_view JsonScanner::NumberText() {
  ScanNumber<true>();
  return number_;
}

double JsonScanner::Number() {
  ScanNumber<true>();
  double value = 0;
  if (number_ == "NaN") return std::numeric_limits<double>::quiet_NaN();
  auto result = std::from_chars(number_.data(), number_.data() + number_.size(), value);
  if (result.ec == std::errc::result_out_of_range) return std::strtod(number_.c_str(), nullptr);
  if (number_.ends_with("Infinity")) {
    value = std::copysign(std::numeric_limits<double>::infinity(), number_[0] == '-' ? -1.0 : 1.0);
  }
  return value;
}

bool JsonScanner::Bool() {
  SkipSpace();
  bool value = Peek() == 't';
  Literal(value ? "true" : "false");
  return value;
}

void JsonScanner::SkipString() {
  Expect('"', "a string");
  std::string ignored;
  while (true) {
    if (Peek() < 0) Expect('"', "the string's closing `\"`");
    while (at_ < end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= 0x20)
      ++at_;
    if (at_ == end_) continue;
    if (*at_ != '\\') {
      Expect('"', "the string's closing `\"`");
      return;
    }
    ++at_;
    ReadEscape(&ignored);
    ignored.clear();
  }
}

void JsonScanner::Skip() {
  std::string key;
  switch (PeekKind()) {
    case Kind::kObject:
      BeginObject();
      while (NextKey(&key)) Skip();
      break;
    case Kind::kArray:
      BeginArray();
      while (NextElement()) Skip();
      break;
    case Kind::kString:
      SkipString();
      break;
    case Kind::kNumber:
      ScanNumber<false>();
      break;
    case Kind::kBool:
      Bool();
      break;
    case Kind::kNull:
      Literal("null");
      break;
  }
}

void JsonScanner::End() {
  SkipSpace();
  if (Peek() >= 0)
    Fail(offset(), "malformed JSON: more text after the end", "the end of the file",
         "one object a file: JSON lines, or two files in one, aren't read");
}

}  // namespace xp::data
