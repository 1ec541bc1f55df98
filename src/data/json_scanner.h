// A pull scanner for large JSON files: one pass, a fixed buffer, and a byte offset for every value.
//
// Annotation files of hundreds of megabytes are mostly polygons that nobody asks for here; they are
// checked and skipped without being built. Accepts what Python's json module writes: RFC 8259 plus
// NaN, Infinity and -Infinity.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xp::data {

// Line and column (both from 1, columns in bytes) of byte offsets of a file, in the order given.
// 0:0 for each where the file can't be read again.
std::vector<std::pair<int64_t, int64_t>> LocateOffsets(const std::filesystem::path& path,
                                                       const std::vector<int64_t>& offsets);

class JsonScanner {
 public:
  enum class Kind { kObject, kArray, kString, kNumber, kBool, kNull };

  // Throws UsageError when the file can't be opened, isn't a regular file (a pipe would be waited
  // for for ever) or is none of JSON by its first bytes (UTF-16, gzip, a Git LFS pointer, HTML).
  explicit JsonScanner(const std::filesystem::path& path);
  ~JsonScanner();
  JsonScanner(const JsonScanner&) = delete;
  JsonScanner& operator=(const JsonScanner&) = delete;

  // The kind and the offset of the next value, which isn't consumed.
  Kind PeekKind();
  int64_t offset() const { return base_ + (at_ - buffer_.data()); }

  // `BeginObject(); while (NextKey(&key)) { one value }`, `BeginArray(); while (NextElement()) {
  // ... }`.
  void BeginObject();
  bool NextKey(std::string* key);
  void BeginArray();
  bool NextElement();

  void String(std::string* out);
  // The digits as written; "NaN", "Infinity" and "-Infinity" too. Valid until the next call.
  std::string_view NumberText();
  double Number();
  bool Bool();
  void Skip();  // any value
  void End();   // nothing but white space may follow

  // Throws UsageError at an offset of this file; without a `next`, to mend it there.
  [[noreturn]] void Fail(int64_t at, const std::string& what, const std::string& expected,
                         const std::string& next = {}) const;

 private:
  bool Refill();
  void CheckStart();
  int Peek() { return at_ < end_ || Refill() ? static_cast<unsigned char>(*at_) : -1; }
  void SkipSpace();
  void Expect(char c, const char* expected);
  std::string AdviceAt(int found);
  void Literal(std::string_view word);
  void ReadEscape(std::string* out);
  unsigned ReadHex4();
  // With `keep` the text goes to number_.
  template <bool keep>
  void ScanDigits();
  template <bool keep>
  void ScanNumber();
  void SkipString();
  void RefuseTrailing(char closing);  // after a comma
  void Push(char kind);
  void Pop();

  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<char> buffer_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  int64_t base_ = 0;         // offset of buffer_[0]
  std::vector<bool> first_;  // of each open object or array: nothing read yet
  std::string number_;
};

}  // namespace xp::data
