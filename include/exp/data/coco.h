// COCO detection annotations ("instances" JSON).
// Source: https://cocodataset.org/#format-data. Segmentations, keypoints and licences are skipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace xp::data {

// What happens to a record that is wrong (docs/data.md lists every code).
enum class Policy {
  kStrict,  // any problem is an error
  kDrop,    // a record that can't be used is left out, and each is listed in `problems`
  kIgnore,  // like kDrop, and nothing is listed
};

// "strict", "drop" or "ignore"; UsageError for anything else, naming `where`.
Policy ParsePolicy(const std::string& text, const std::string& where);

// Something wrong in the annotations.
struct Problem {
  std::string code;            // stable name, "box.no_area"
  std::string message;         // "annotation 12 (image 7, a.jpg): the box [3, 4, 0, 0] has no area"
  std::string where;           // "file.json:1:42301", the record's opening brace; may be empty
  int64_t image_id = -1;       // -1: none known
  int64_t annotation_id = -1;  // -1: none known
  bool dropped = false;        // the record was left out
};

struct Category {
  int64_t id = 0;
  std::string name;
};

struct CocoImage {
  int64_t id = 0;
  std::string file_name;  // as in the file, relative to img_prefix
  int width = 0;          // pixels; 0 when the file doesn't say
  int height = 0;
};

struct CocoAnnotation {
  int64_t id = 0;
  int32_t image = 0;                  // index into CocoDataset::images
  int32_t category = 0;               // index into CocoDataset::categories, the 0-based class
  double x = 0, y = 0, w = 0, h = 0;  // pixels of the original image, [x, y, w, h]
  double area = 0;  // of the segmentation where given, else w * h; evaluation sorts by it
  bool crowd = false;
  // False for a box without area inside the image: training leaves it out; evaluation keeps it, as
  // pycocotools does.
  bool trainable = true;
};

struct CocoOptions {
  // Names of the categories to use, in label order; empty: all, in file order.
  std::vector<std::string> classes;
  Policy policy = Policy::kDrop;
  int limit = 0;              // only the first images of the file; 0: all
  bool list_ignored = false;  // problems are listed under kIgnore, too: for an audit
};

// What is used under the policy is used, but all that is wrong is listed and nothing is thrown for
// it.
CocoOptions ForAudit(CocoOptions options);

struct CocoDataset {
  std::string path;                         // of the JSON file, for messages
  std::vector<Category> categories;         // in label order
  std::vector<CocoImage> images;            // in file order
  std::vector<CocoAnnotation> annotations;  // by image, within one in file order
  std::vector<int32_t> first;     // [images + 1], image i has annotations first[i] .. first[i+1]-1
  std::vector<Problem> problems;  // empty under kIgnore, unless `list_ignored`
  std::unordered_map<int64_t, int32_t> image_index;  // image id to index

  std::span<const CocoAnnotation> Of(int image) const {
    return {annotations.data() + first[image], annotations.data() + first[image + 1]};
  }
};

// Reads an annotation file in one pass with memory bounded by the number of records. Throws
// UsageError with file:line:column for malformed JSON, for a missing section, for a class in
// `options.classes` that the file doesn't have, and under kStrict for the first problem.
CocoDataset LoadCoco(const std::filesystem::path& json, const CocoOptions& options = {});

// Whether a JSON file is rather a config than annotations: a key of the one (`_base_`, `model`,
// `data`) comes before any of the other. False for what can't be read, which LoadCoco says.
bool HoldsConfig(const std::filesystem::path& json);

// The same images `times` over, as mmdetection's RepeatDataset: a longer epoch of a small set. Each
// copy is drawn and augmented by itself. Ids are those of the originals, so this is for training
// only. Throws UsageError when there would be more than 2^30 images.
CocoDataset Repeated(CocoDataset dataset, int times);

}  // namespace xp::data
