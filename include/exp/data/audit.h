// Audit of detection data sets: everything that makes training go wrong and can be known
// beforehand.
//
// Metadata (the annotation file alone) takes seconds for COCO's 118,000 images; contents (every
// image file read, hashed and checked for completeness) go at the disk's speed. docs/data.md lists
// the codes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exp/data/coco.h"
#include "exp/data/image_list.h"
#include "exp/data/resize.h"

namespace xp::data {

enum class Severity {
  kError,    // training stops or learns something else than meant
  kWarning,  // records are left out or doubtful
  kNote,     // worth knowing
};

// "error", "warning", "note".
const char* SeverityName(Severity severity);

// All problems of one kind in one part.
struct Finding {
  std::string code;
  Severity severity = Severity::kNote;
  std::string title;   // "boxes without area"
  std::string advice;  // what to do; may be empty
  int64_t count = 0;
  // The first ones, AuditOptions::examples at most, and every record that was left out.
  std::vector<Problem> examples;
};

struct ClassSummary {
  int64_t id = 0;
  std::string name;
  int64_t boxes = 0;   // to train on
  int64_t images = 0;  // that have one
};

// Of a sorted sample: smallest, 10 %, median, 90 %, largest. Zeros when there is none.
using Quantiles = std::array<double, 5>;

// How well the anchors of a region proposal network cover the boxes after the resize.
struct AnchorCoverage {
  int64_t boxes = 0;
  double mean_iou = 0;  // of each box's best anchor
  // Shares of boxes whose best anchor overlaps at least .7 (always positive), .5, and less than .3
  // (missed unless each box's best anchor is kept).
  double at_least_70 = 0, at_least_50 = 0, below_30 = 0;
  std::array<double, 3>
      at_least_50_by_area{};  // small, medium, large (in resized pixels); -1: no box
};

struct AnchorSettings {
  std::vector<double> scales = {8};          // side / stride
  std::vector<double> ratios = {0.5, 1, 2};  // height / width
  std::vector<int> strides = {4, 8, 16, 32, 64};
  ImageScale img_scale = {1333, 800};
  bool keep_ratio = true;
};

struct ContentSummary {
  int64_t files = 0, bytes = 0;
  double seconds = 0;
  std::vector<std::pair<std::string, int64_t>> formats;  // "JPEG": 12
};

struct PartReport {
  std::string name;  // "train"
  std::shared_ptr<const CocoDataset> dataset;
  std::string img_prefix;
  bool has_boxes = true;  // false: of a classifier
  int64_t images = 0, annotations = 0, boxes = 0, crowds = 0, empty_images = 0;
  std::vector<ClassSummary> classes;
  std::array<int64_t, 3> boxes_by_area{};             // COCO's small, medium, large
  Quantiles box_side{}, box_aspect{};                 // sqrt(w * h) in pixels; width / height
  Quantiles boxes_per_image{}, image_side{};          // sqrt(w * h)
  std::vector<std::pair<Size, int64_t>> image_sizes;  // the ten most frequent
  AnchorCoverage anchors;
  ContentSummary content;
  std::vector<Finding> findings;  // errors first
};

struct AuditReport {
  std::vector<PartReport> parts;
  std::vector<Finding> findings;  // between parts, and against the model
  double seconds = 0;

  int64_t Count(Severity severity) const;
};

struct AuditPart {
  std::string name;
  std::shared_ptr<const CocoDataset>
      dataset;  // loaded with Policy::kDrop, so that problems are listed
  std::string img_prefix;
  // Of a classifier: images with one annotation each, whose box says nothing.
  std::shared_ptr<const ImageList> list;
  Policy policy = Policy::kDrop;  // what the config says
};

// The images of a list, with ids 1, 2, ... and their labels as annotations.
CocoDataset DatasetOf(const ImageList& list);

struct AuditOptions {
  std::vector<AuditPart> parts;
  int num_classes = -1;           // of the model's head; -1: not compared
  std::string num_classes_where;  // place of that value, for messages
  AnchorSettings anchors;
  bool files = true;     // look for the image files
  bool contents = true;  // read each
  bool decode = false;   // and decode each, which finds damage inside too
  int threads = 0;       // 0: all cores
  int examples = 20;     // kept of each finding besides the records left out; -1: all
  std::function<void(int64_t done, int64_t total)>
      progress;  // from one thread at a time; may be empty
};

// Never throws for what is wrong with the data.
AuditReport Audit(const AuditOptions& options);

// Three examples of each finding, or with `all` every one that is kept.
std::string AuditText(const AuditReport& report, bool all = false);
// docs/data.md describes the keys.
std::string AuditJson(const AuditReport& report);
// One page without outside references; up to `samples` images a part with their boxes.
std::string AuditHtml(const AuditReport& report, int samples = 24);

// The best overlap of a box [x1, y1, x2, y2] with an anchor of any level. Anchors are centred on
// multiples of the stride, as torchvision places them.
double BestAnchorIou(const std::array<double, 4>& box, const AnchorSettings& anchors);

}  // namespace xp::data
