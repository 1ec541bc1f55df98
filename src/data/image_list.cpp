#include "exp/data/image_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <unordered_map>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "src/data/coco_raw.h"
#include "src/data/json_scanner.h"

namespace xp::data {
namespace {

namespace fs = std::filesystem;

int32_t FindLabel(const std::string& word, ImageList* list, bool named, const std::string& where) {
  auto found = std::find(list->classes.begin(), list->classes.end(), word);
  if (named && found != list->classes.end())
    return static_cast<int32_t>(found - list->classes.begin());
  int32_t label = -1;
  auto result = std::from_chars(word.data(), word.data() + word.size(), label);
  bool number = result.ec == std::errc() && result.ptr == word.data() + word.size() && label >= 0 &&
                label < 1000000;
  if (!number || (named && label >= static_cast<int32_t>(list->classes.size()))) {
    throw UsageError(
        {.what = fmt::format("`{}` is not a label", word),
         .where = where,
         .expected = named ? fmt::format("one of the {} class names, or a number below that",
                                         list->classes.size())
                           : "a number from 0"});
  }
  while (static_cast<int32_t>(list->classes.size()) <= label)
    list->classes.push_back(std::to_string(list->classes.size()));
  return label;
}

// The label of each image is the category of its annotations.
class CocoLabels {
 public:
  CocoLabels(const fs::path& path, const fs::path& root, const std::vector<std::string>& classes)
      : raw_(ParseCoco(path)) {
    list_.path = path.string();
    list_.root = root.string();
    list_.classes = classes;
    for (const RawCategory& c : raw_.categories) {
      Require(c.id, "the id of a category", c.offset);
      if (classes.empty()) list_.classes.push_back(c.name);
      auto found = std::find(list_.classes.begin(), list_.classes.end(), c.name);
      if (found == list_.classes.end()) continue;
      labels_[c.id.value] = static_cast<int32_t>(found - list_.classes.begin());
    }
  }

  ImageList Take() {
    std::unordered_map<int64_t, int32_t> of_image;
    for (const RawAnnotation& a : raw_.annotations) {
      Require(a.category, "the category_id of an annotation", a.offset);
      Require(a.image, "the image_id of an annotation", a.offset);
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
      auto label = of_image.find(image.id.value);
      if (label == of_image.end() || image.file_name.empty()) continue;
      list_.files.push_back(image.file_name);
      list_.labels.push_back(label->second);
    }
    if (list_.files.empty()) {
      throw UsageError({.what = "no image has an annotation of one of the classes",
                        .where = list_.path,
                        .expected = "annotations with image_id and category_id"});
    }
    return std::move(list_);
  }

 private:
  // Other ids can't be matched with each other.
  void Require(const RawId& id, const char* what, int64_t offset) const {
    if (id.number()) return;
    auto [line, column] = LocateOffsets(list_.path, {offset})[0];
    throw UsageError({.what = fmt::format("{} is {}, not an integer", what, raw_.Show(id)),
                      .where = fmt::format("{}:{}:{}", list_.path, line, column),
                      .expected = "integers as ids"});
  }

  RawCoco raw_;
  ImageList list_;
  std::unordered_map<int64_t, int32_t> labels_;
};

}  // namespace

ImageList ReadImageList(const fs::path& path, const fs::path& root,
                        const std::vector<std::string>& classes) {
  if (path.extension() == ".json") return CocoLabels(path, root, classes).Take();
  ImageList list;
  list.path = path.string();
  list.root = root.string();
  list.classes = classes;
  std::istringstream lines(ReadFile(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    std::string where = fmt::format("{}:{}", list.path, number);
    size_t space = line.find_last_of(" \t");
    size_t end = space == std::string::npos ? space : line.find_last_not_of(" \t", space);
    if (end == std::string::npos) {
      throw UsageError(
          {.what = "a line without a label", .where = where, .expected = "<file> <label>"});
    }
    list.labels.push_back(FindLabel(line.substr(space + 1), &list, !classes.empty(), where));
    list.files.push_back(line.substr(0, end + 1));
  }
  if (list.files.empty())
    throw UsageError(
        {.what = "the list is empty", .where = list.path, .expected = "<file> <label> a line"});
  return list;
}

}  // namespace xp::data
