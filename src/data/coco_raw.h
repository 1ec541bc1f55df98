// The records of a COCO file as they stand, before anything is checked: what the loader's data set
// and the audit are both made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace xp::data {

// An id should be an integer; people's converters write strings, floats and nothing.
struct RawId {
  enum class Kind : uint8_t {
    kMissing,
    kInteger,        // also 7.0
    kNumericString,  // "0012": `value` is 12
    kText,           // a string; `value` indexes RawCoco::texts
    kOther           // null, 1.5, "a list"; `value` indexes RawCoco::texts
  };
  Kind kind = Kind::kMissing;
  int64_t value = 0;

  bool ok() const { return kind == Kind::kInteger; }
  // An integer, be it in quotes.
  bool number() const { return kind == Kind::kInteger || kind == Kind::kNumericString; }
};

struct RawCategory {
  RawId id;
  std::string name;
  bool has_name = false;
  const char* twice = nullptr;  // a key that is there twice; the last one counts, as in Python
  int64_t offset = 0;           // of the record's brace
};

struct RawImage {
  RawId id;
  std::string file_name;  // empty: missing
  int width = 0;          // 0: missing, -1: not a positive integer
  int height = 0;
  const char* twice = nullptr;
  int64_t offset = 0;
};

struct RawAnnotation {
  static constexpr int8_t kNoBox = -1, kNotNumbers = -2;

  RawId id, image, category;
  double box[4] = {0, 0, 0, 0};
  double area = 0;
  const char* twice = nullptr;
  int64_t offset = 0;
  int8_t box_numbers = kNoBox;  // how many numbers `bbox` holds; 5: more than four
  bool has_area = false;
  bool bad_area = false;   // `area` is there and not a number from 0 up
  bool bad_crowd = false;  // `iscrowd` is there and not 0, 1 or a bool
  bool crowd = false;
};

struct RawCoco {
  std::vector<RawCategory> categories;
  std::vector<RawImage> images;
  std::vector<RawAnnotation> annotations;
  std::vector<std::string> texts;

  // As it stands in the file, for messages.
  std::string Show(const RawId& id) const;
};

// Throws UsageError with file:line:column for malformed JSON, for a record that isn't an object,
// and for a missing section.
RawCoco ParseCoco(const std::filesystem::path& json);

}  // namespace xp::data
