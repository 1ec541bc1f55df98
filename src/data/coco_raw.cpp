#include "src/data/coco_raw.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/data/coco.h"
#include "src/data/json_scanner.h"

namespace xp::data {
namespace {

using Kind = JsonScanner::Kind;

constexpr const char* kConvert =
    "convert the file to COCO's \"instances\" format: lists of objects, each with its `id`";

class Parser {
 public:
  explicit Parser(const std::filesystem::path& path) : path_(path), scan_(path) {}

  RawCoco Parse() {
    if (scan_.PeekKind() != Kind::kObject) {
      const bool list = scan_.PeekKind() == Kind::kArray;
      scan_.Fail(scan_.offset(),
                 list ? "not a COCO annotation file: it is a list" : "not a COCO annotation file",
                 "an object with `images`, `annotations` and `categories`",
                 list ? "detections are such lists, and CreateML's annotations, which a program "
                        "must convert to COCO's \"instances\" format"
                      : "check that `ann_file` names one");
    }
    bool images = false, annotations = false, categories = false;
    scan_.BeginObject();
    while (scan_.NextKey(&key_)) {
      if (key_ == "images") {
        Once(&images);
        Records("images", &Parser::ReadImage);
      } else if (key_ == "annotations") {
        Once(&annotations);
        Records("annotations", &Parser::ReadAnnotation);
      } else if (key_ == "categories") {
        Once(&categories);
        Records("categories", &Parser::ReadCategory);
      } else {
        constexpr size_t kShown = 6;
        if (++others_ <= kShown) other_keys_ += (others_ > 1 ? ", `" : "`") + key_ + "`";
        scan_.Skip();
      }
    }
    scan_.End();
    Require(images, "images");
    Require(annotations, "annotations");
    Require(categories, "categories");
    return std::move(coco_);
  }

 private:
  // Python's json would take the last one, others the first: nobody can mean two.
  void Once(bool* found) {
    if (*found) {
      scan_.PeekKind();  // moves to the value
      scan_.Fail(scan_.offset(), fmt::format("`{}` is there twice", key_), "each section once",
                 "remove one of the two");
    }
    *found = true;
  }

  void Require(bool found, const char* section) {
    if (found) return;
    throw UsageError(
        {.what = fmt::format("`{}` is missing", section),
         .where = path_.string(),
         .expected =
             "a COCO annotation file: an object with `images`, `annotations` and `categories`",
         .next = Advice()});
  }

  // Other programs' files are told by their keys.
  std::string Advice() const {
    const bool labelme = other_keys_.find("`shapes`") != std::string::npos;
    const bool via = other_keys_.find("`_via_") != std::string::npos;
    if (labelme || via) {
      return fmt::format("this is a file of {}: convert it to COCO's \"instances\" format",
                         labelme ? "LabelMe" : "the VGG Image Annotator");
    }
    return fmt::format("check that `ann_file` names an \"instances\" file{}",
                       others_ == 0 ? "" : "; this one has " + other_keys_);
  }

  void Records(const char* section, void (Parser::*read)(int64_t)) {
    if (scan_.PeekKind() != Kind::kArray) {
      scan_.Fail(scan_.offset(), fmt::format("`{}` is not a list", section), "a list of objects",
                 kConvert);
    }
    scan_.BeginArray();
    while (scan_.NextElement()) {
      if (scan_.PeekKind() != Kind::kObject) {
        scan_.Fail(scan_.offset(), fmt::format("an entry of `{}` is not an object", section),
                   "an object", kConvert);
      }
      int64_t offset = scan_.offset();
      scan_.BeginObject();
      (this->*read)(offset);
    }
  }

  // Reads a record's keys: `read` gets each one's place in `keys`, the rest is skipped. Returns one
  // that is there twice, or null.
  template <size_t count, typename Read>
  const char* Keys(const std::array<const char*, count>& keys, const Read& read) {
    const char* twice = nullptr;
    std::array<bool, count> seen{};
    while (scan_.NextKey(&key_)) {
      size_t at = 0;
      while (at < count && key_ != keys[at]) ++at;
      if (at == count) {
        scan_.Skip();
        continue;
      }
      if (std::exchange(seen[at], true)) twice = keys[at];
      read(at);
    }
    return twice;
  }

  void ReadText(std::string* text, bool* is_text) {
    *is_text = scan_.PeekKind() == Kind::kString;
    if (*is_text) {
      scan_.String(text);
    } else {
      scan_.Skip();
    }
  }

  void ReadCategory(int64_t offset) {
    RawCategory record;
    record.offset = offset;
    record.twice = Keys(std::array{"id", "name"}, [&](size_t key) {
      if (key == 0) record.id = ReadId();
      if (key == 1) ReadText(&record.name, &record.has_name);
    });
    coco_.categories.push_back(std::move(record));
  }

  void ReadImage(int64_t offset) {
    RawImage record;
    record.offset = offset;
    bool named = false;
    record.twice = Keys(std::array{"id", "file_name", "width", "height"}, [&](size_t key) {
      if (key == 0) record.id = ReadId();
      if (key == 1) ReadText(&record.file_name, &named);
      if (key == 2) record.width = ReadSide();
      if (key == 3) record.height = ReadSide();
    });
    coco_.images.push_back(std::move(record));
  }

  void ReadAnnotation(int64_t offset) {
    RawAnnotation record;
    record.offset = offset;
    record.twice = Keys(std::array{"id", "image_id", "category_id", "bbox", "area", "iscrowd"},
                        [&](size_t key) {
                          if (key == 0) record.id = ReadId();
                          if (key == 1) record.image = ReadId();
                          if (key == 2) record.category = ReadId();
                          if (key == 3) ReadBox(&record);
                          if (key == 4) ReadArea(&record);
                          if (key == 5) ReadCrowd(&record);
                        });
    coco_.annotations.push_back(record);
  }

  // null stands for none, as pandas writes it.
  void ReadArea(RawAnnotation* record) {
    if (scan_.PeekKind() != Kind::kNumber) {
      record->bad_area = scan_.PeekKind() != Kind::kNull;
      scan_.Skip();
      return;
    }
    record->area = scan_.Number();
    record->has_area = std::isfinite(record->area) && record->area >= 0;
    record->bad_area = !record->has_area;
  }

  void ReadCrowd(RawAnnotation* record) {
    if (scan_.PeekKind() == Kind::kNumber) {
      double value = scan_.Number();
      record->crowd = value != 0 && std::isfinite(value);
      record->bad_crowd = value != 0 && value != 1;
    } else if (scan_.PeekKind() == Kind::kBool) {
      record->crowd = scan_.Bool();
    } else {
      record->bad_crowd = scan_.PeekKind() != Kind::kNull;
      scan_.Skip();
    }
  }

  void ReadBox(RawAnnotation* record) {
    if (scan_.PeekKind() != Kind::kArray) {
      if (scan_.PeekKind() != Kind::kNull) record->box_numbers = RawAnnotation::kNotNumbers;
      scan_.Skip();
      return;
    }
    int8_t count = 0;
    bool numbers = true;
    scan_.BeginArray();
    while (scan_.NextElement()) {
      if (scan_.PeekKind() != Kind::kNumber) {
        numbers = false;
        scan_.Skip();
        continue;
      }
      double value = scan_.Number();
      if (count < 4) record->box[count] = value;
      if (count < 5) ++count;
    }
    record->box_numbers = numbers ? count : RawAnnotation::kNotNumbers;
  }

  int ReadSide() {
    if (scan_.PeekKind() != Kind::kNumber) {
      scan_.Skip();
      return -1;
    }
    double value = scan_.Number();
    return value >= 1 && value <= 1e6 && value == std::floor(value) ? static_cast<int>(value) : -1;
  }

  RawId ReadId() {
    if (scan_.PeekKind() == Kind::kString) {
      scan_.String(&text_);
      int64_t value = 0;
      auto result = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (result.ec == std::errc() && result.ptr == text_.data() + text_.size()) {
        return {RawId::Kind::kNumericString, value};
      }
      return Keep(RawId::Kind::kText, text_);
    }
    if (scan_.PeekKind() != Kind::kNumber) {
      static constexpr const char* kNames[] = {"an object", "a list",        "",
                                               "",          "true or false", "null"};
      const char* name = kNames[static_cast<int>(scan_.PeekKind())];
      scan_.Skip();
      return Keep(RawId::Kind::kOther, name);
    }
    std::string_view digits = scan_.NumberText();
    int64_t value = 0;
    auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec == std::errc() && result.ptr == digits.data() + digits.size()) {
      return {RawId::Kind::kInteger, value};
    }
    double real = 0;
    result = std::from_chars(digits.data(), digits.data() + digits.size(), real);  // also 1e400
    bool integral = std::abs(real) < 9e15 && real == std::floor(real) &&
                    digits.find('N') == std::string_view::npos &&
                    digits.find('I') == std::string_view::npos && result.ec == std::errc();
    if (integral) return {RawId::Kind::kInteger, static_cast<int64_t>(real)};
    return Keep(RawId::Kind::kOther, std::string(digits));
  }

  RawId Keep(RawId::Kind kind, const std::string& text) {
    constexpr size_t kLongest = 60;
    coco_.texts.push_back(Abridged(text, kLongest));
    return {kind, static_cast<int64_t>(coco_.texts.size()) - 1};
  }

  std::filesystem::path path_;
  JsonScanner scan_;
  RawCoco coco_;
  std::string key_, text_;
  std::string other_keys_;  // of the top level, the first few
  size_t others_ = 0;
};

}  // namespace

std::string RawCoco::Show(const RawId& id) const {
  switch (id.kind) {
    case RawId::Kind::kMissing:
      return "(none)";
    case RawId::Kind::kInteger:
      return std::to_string(id.value);
    case RawId::Kind::kNumericString:
      return fmt::format("\"{}\"", id.value);
    case RawId::Kind::kText:
      return fmt::format("\"{}\"", texts[static_cast<size_t>(id.value)]);
    case RawId::Kind::kOther:
      break;
  }
  return texts[static_cast<size_t>(id.value)];
}

bool HoldsConfig(const std::filesystem::path& json) {
  try {
    JsonScanner scan(json);
    if (scan.PeekKind() != Kind::kObject) return false;
    scan.BeginObject();
    for (std::string key; scan.NextKey(&key); scan.Skip()) {
      if (key == "images" || key == "annotations" || key == "categories") return false;
      if (key == "_base_" || key == "model" || key == "data") return true;
    }
  } catch (const Error&) {
    return false;
  }
  return false;
}

RawCoco ParseCoco(const std::filesystem::path& json) { return Parser(json).Parse(); }

}  // namespace xp::data
