#include "exp/data/image_list.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <fstream>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "src/data/class_names.h"
#include "src/data/coco_raw.h"
#include "src/data/json_scanner.h"
#include "src/data/text_lines.h"

namespace xp::data {
namespace {

namespace fs = std::filesystem;

// Lines of a text list: a file and, last, its label.
class TextList {
 public:
  TextList(const fs::path& path, const fs::path& root, const std::vector<std::string>& classes)
      : named_(!classes.empty()), labels_(classes) {
    list_.path = path.string();
    list_.root = root.string();
    list_.classes = classes;
  }

  ImageList Take() {
    for (const TextLine& line : ReadTextLines(list_.path, "<file> <label> a line")) {
      if (line.text[0] != '#') Add(line);
    }
    if (list_.files.empty())
      throw UsageError({.what = "the list is empty",
                        .where = list_.path,
                        .expected = "<file> <label> a line",
                        .next = "check the path (`ann_file`)"});
    return std::move(list_);
  }

 private:
  void Add(const TextLine& line) {
    auto split = labels_.SplitLabel(line.text);
    if (!split) {
      throw UsageError({.what = "a line without a label",
                        .where = Where(line),
                        .expected = "<file> <label>",
                        .next = line.text.find(',') == std::string::npos
                                    ? "write the label behind the file, after a space"
                                    : "write a space, not a comma, before the label"});
    }
    const std::optional<int32_t> label = labels_.Find(split->second);
    list_.labels.push_back(label ? *label : Number(split->second, line));
    list_.files.push_back(std::move(split->first));
  }

  int32_t Number(const std::string& word, const TextLine& line) {
    constexpr int32_t kMostClasses = 1000000;
    const int32_t end = named_ ? static_cast<int32_t>(list_.classes.size()) : kMostClasses;
    int32_t label = -1;
    auto result = std::from_chars(word.data(), word.data() + word.size(), label);
    if (result.ec != std::errc() || result.ptr != word.data() + word.size() || label < 0 ||
        label >= end) {
      throw UsageError(
          {.what = fmt::format("`{}` is not a label", Abridged(word, 60)),
           .where = Where(line),
           .expected = named_
                           ? fmt::format("one of the {} class names, or a number below that", end)
                           : "a number from 0",
           .next = named_ ? "mend the label, or name its class in `classes`"
                          : "list the names of the classes in `classes`"});
    }
    while (static_cast<int32_t>(list_.classes.size()) <= label)
      list_.classes.push_back(std::to_string(list_.classes.size()));
    return label;
  }

  std::string Where(const TextLine& line) const {
    return fmt::format("{}:{}", list_.path, line.number);
  }

  const bool named_;
  const ClassNames labels_;
  ImageList list_;
};

// The label of each image is the category of its annotations.
class CocoLabels {
 public:
  CocoLabels(const fs::path& path, const fs::path& root, const std::vector<std::string>& classes)
      : raw_(ParseCoco(path)) {
    list_.path = path.string();
    list_.root = root.string();
    list_.classes = classes;
    std::unordered_map<std::string, int32_t> by_name;
    for (size_t i = 0; i < classes.size(); ++i)
      by_name.emplace(classes[i], static_cast<int32_t>(i));
    std::set<std::string> there;
    for (const RawCategory& c : raw_.categories) {
      Require(c.id, "the id of a category", c.offset);
      if (!c.has_name) continue;
      there.insert(c.name);
      const bool fresh = classes.empty() &&
                         by_name.emplace(c.name, static_cast<int32_t>(list_.classes.size())).second;
      if (fresh) list_.classes.push_back(c.name);
      auto found = by_name.find(c.name);
      if (found != by_name.end()) labels_[c.id.value] = found->second;
    }
    for (const std::string& name : classes) {
      if (there.contains(name)) continue;
      throw UsageError(
          {.what = fmt::format("no category is named `{}`", name),
           .where = list_.path,
           .expected = "`classes` to name some of: " + ListOfNames({there.begin(), there.end()}),
           .next = "make `classes` agree with the annotation file"});
    }
  }

  ImageList Take() {
    std::unordered_map<int64_t, int32_t> of_image;
    std::unordered_set<int64_t> annotated;
    for (const RawAnnotation& a : raw_.annotations) {
      Require(a.category, "the category_id of an annotation", a.offset);
      Require(a.image, "the image_id of an annotation", a.offset);
      annotated.insert(a.image.value);
      auto label = labels_.find(a.category.value);
      if (label == labels_.end()) continue;
      auto [at, added] = of_image.emplace(a.image.value, label->second);
      if (added || at->second == label->second) continue;
      throw UsageError(
          {.what = fmt::format("image {} has annotations of `{}` and of `{}`", raw_.Show(a.image),
                               list_.classes[static_cast<size_t>(at->second)],
                               list_.classes[static_cast<size_t>(label->second)]),
           .where = list_.path,
           .expected = "images of one category each",
           .next = "cut the boxes out with `exp data crops`"});
    }
    for (const RawImage& image : raw_.images) {
      Require(image.id, "the id of an image", image.offset);
      if (image.file_name.empty()) {
        LeaveOut("image.no_file_name", image, "no file_name that is a string");
        continue;
      }
      // Those of classes that weren't asked for are left out on purpose.
      if (!annotated.contains(image.id.value))
        LeaveOut("image.no_class", image, "no annotation that gives its class");
      auto label = of_image.find(image.id.value);
      if (label == of_image.end()) continue;
      list_.files.push_back(image.file_name);
      list_.labels.push_back(label->second);
    }
    if (list_.files.empty()) {
      throw UsageError({.what = "no image has an annotation of one of the classes",
                        .where = list_.path,
                        .expected = "annotations with image_id and category_id",
                        .next = "check `ann_file` and `classes`"});
    }
    LocateProblems();
    return std::move(list_);
  }

 private:
  // Other ids can't be matched with each other.
  void Require(const RawId& id, const char* what, int64_t offset) const {
    if (id.number()) return;
    auto [line, column] = LocateOffsets(list_.path, {offset})[0];
    throw UsageError({.what = fmt::format("{} is {}, not an integer", what, raw_.Show(id)),
                      .where = fmt::format("{}:{}:{}", list_.path, line, column),
                      .expected = "integers as ids",
                      .next = "number images and categories with integers"});
  }

  void LeaveOut(const char* code, const RawImage& image, const char* lacks) {
    list_.problems.push_back({.code = code,
                              .message = fmt::format("image {} ({}) has {}", raw_.Show(image.id),
                                                     image.file_name, lacks),
                              .where = "",
                              .image_id = image.id.value,
                              .dropped = true});
    offsets_.push_back(image.offset);
  }

  void LocateProblems() {
    auto places = LocateOffsets(list_.path, offsets_);
    for (size_t i = 0; i < places.size(); ++i) {
      list_.problems[i].where =
          fmt::format("{}:{}:{}", list_.path, places[i].first, places[i].second);
    }
  }

  RawCoco raw_;
  ImageList list_;
  std::unordered_map<int64_t, int32_t> labels_;
  std::vector<int64_t> offsets_;  // of each problem
};

}  // namespace

ImageList ReadImageList(const fs::path& path, const fs::path& root,
                        const std::vector<std::string>& classes) {
  if (path.extension() == ".json") return CocoLabels(path, root, classes).Take();
  return TextList(path, root, classes).Take();
}

namespace {

// `images[].file_name`; the rest is skipped.
void AddCocoNames(const fs::path& path, std::vector<std::string>* names) {
  using Kind = JsonScanner::Kind;
  JsonScanner scan(path);
  std::string section, key, name;
  scan.BeginObject();
  while (scan.NextKey(&section)) {
    if (section != "images" || scan.PeekKind() != Kind::kArray) {
      scan.Skip();
      continue;
    }
    scan.BeginArray();
    while (scan.NextElement()) {
      name.clear();
      scan.BeginObject();
      while (scan.NextKey(&key)) {
        if (key == "file_name" && scan.PeekKind() == Kind::kString)
          scan.String(&name);
        else
          scan.Skip();
      }
      if (!name.empty()) names->push_back(name);
    }
  }
}

// Lists may have any ending, and COCO files must not for a detector.
bool BeginsWithBrace(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  char c = 0;
  while (in.get(c) && (std::isspace(static_cast<unsigned char>(c)) || (c & 0x80) != 0)) {
  }
  return c == '{';
}

}  // namespace

std::vector<std::string> ImageNames(const fs::path& ann_file,
                                    const std::vector<std::string>& classes) {
  std::vector<std::string> names;
  try {
    if (ann_file.extension() == ".json" || BeginsWithBrace(ann_file)) {
      AddCocoNames(ann_file, &names);
      return names;
    }
    const ClassNames known(classes);
    for (const TextLine& line : ReadTextLines(ann_file, "<file> <label> a line")) {
      if (line.text[0] == '#') continue;
      if (auto split = known.SplitLabel(line.text)) names.push_back(std::move(split->first));
    }
  } catch (const Error&) {  // what stands before the fault was named
  }
  return names;
}

}  // namespace xp::data
