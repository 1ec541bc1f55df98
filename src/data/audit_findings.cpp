#include "src/data/audit_findings.h"

#include <algorithm>
#include <string_view>

namespace xp::data {
namespace {

struct Kind {
  std::string_view code;
  Severity severity;
  const char* title;
  const char* advice;
};

constexpr Severity E = Severity::kError, W = Severity::kWarning, N = Severity::kNote;

constexpr Kind kKinds[] = {
    {"annotation.bad_area", W, "annotations whose area is not a number from 0 up",
     "leave `area` out, and the box's is taken"},
    {"annotation.bad_category_id", W, "annotations whose category_id is missing or not an integer",
     "write the category's `id`, an integer, not its name; `policy: ignore` takes digits in "
     "quotes"},
    {"annotation.bad_crowd", W, "annotations whose iscrowd is not 0 or 1",
     "write iscrowd as a number"},
    {"annotation.bad_id", W, "annotations whose id is missing or not an integer",
     "number the annotations with integers from 1"},
    {"annotation.bad_image_id", W, "annotations whose image_id is missing or not an integer",
     "write image ids as integers, as in `images`; `policy: ignore` takes digits in quotes"},
    {"annotation.crowd", N, "crowd regions: never positives, and evaluated by COCO's crowd rule",
     ""},
    {"annotation.duplicate_key", W, "annotations with a key twice, of which the last one counts",
     "remove one of each"},
    {"annotation.duplicate_id", W, "annotation ids used twice; the first one stays",
     "number the annotations anew, or keep them all with `policy: ignore`"},
    {"annotation.unknown_category", W, "annotations of a category that `categories` doesn't have",
     "add the category or remove the annotations"},
    {"annotation.unknown_image", W, "annotations of an image that `images` doesn't have",
     "remove them, or add the image"},
    {"box.corners", W, "boxes that look like [x1, y1, x2, y2]",
     "COCO boxes are [x, y, width, height]: convert them"},
    {"box.duplicate", W, "the same box twice in an image and class", "remove one of each"},
    {"box.malformed", W, "annotations without a bbox of four numbers",
     "write `bbox` as [x, y, width, height] in pixels: segmentations aren't read"},
    {"box.no_area", W, "boxes without area; left out of training", "remove or redraw them"},
    {"box.none", E, "parts whose annotations give no box: a detector learns nothing from them",
     "check `ann_file`, and what is said of its annotations"},
    {"box.normalised", W, "boxes that look like shares of the image, from 0 to 1",
     "COCO boxes are in pixels: multiply them by the image's width and height"},
    {"box.not_finite", W, "boxes with NaN or infinite values; left out", "remove or redraw them"},
    {"box.outside", W, "boxes outside of their image; left out of training",
     "check whether the image was resized or rotated after it was annotated"},
    {"box.partly_outside", W, "boxes that reach beyond their image; clipped",
     "check whether the image was resized after it was annotated"},
    {"box.swapped", W, "boxes with a negative width or height; left out of training",
     "COCO boxes are [x, y, width, height]"},
    {"box.tiny", N, "boxes with a side under 2 pixels after the resize",
     "a larger `img_scale` may help"},
    {"category.bad_id", W, "categories whose id is missing or not an integer",
     "write category ids as integers"},
    {"category.duplicate_key", W, "categories with a key twice, of which the last one counts",
     "remove one of each"},
    {"category.duplicate_id", W, "category ids used twice; the first one stays",
     "give each category its own id"},
    {"category.duplicate_name", W, "category names used twice", "rename one, or merge them"},
    {"category.no_name", W, "categories without a name; left out", "name them"},
    {"category.unused", W, "categories without a box to train on",
     "the model has an output for each that learns nothing: `classes` names those to use"},
    {"classes.differ", E, "parts whose classes differ",
     "list the same `classes` in the same order for each part"},
    {"classes.head", E, "the number of classes of the model's head isn't the data's",
     "set `num_classes` to the number of categories (without background)"},
    {"image.alpha", N, "images with an alpha channel, which is left out", ""},
    {"image.bad_id", W, "images whose id is missing or not an integer; left out",
     "write image ids as integers"},
    {"image.cmyk", N, "CMYK images, converted to RGB",
     "colours may be off: convert them with a colour profile"},
    {"image.depth", N, "images of more than 8 bits, of which the upper 8 are used", ""},
    {"image.duplicate_content", W, "images with the same content under two names",
     "remove one of each"},
    {"image.duplicate_file", W, "image records that name the same file", "merge them"},
    {"image.duplicate_key", W, "image records with a key twice, of which the last one counts",
     "remove one of each"},
    {"image.duplicate_id", W, "image ids used twice; the first one stays",
     "give each image its own id"},
    {"image.empty", N, "images without a box to train on",
     "`filter_empty_gt` decides whether they are used as negatives"},
    {"image.extension", N, "files whose name ends otherwise than their format", ""},
    {"image.grey", N, "grey images, expanded to RGB", ""},
    {"image.missing", E, "image files that aren't there", "check `img_prefix`"},
    {"image.no_class", W, "images without a class; left out",
     "move them into the folder of their class, or annotate them"},
    {"image.no_file_name", W, "images without a file_name; left out",
     "name each file below `img_prefix`"},
    {"image.no_size", W, "images without a width and height in the annotation file",
     "training reads each header instead: add them to start faster"},
    {"image.none", E, "parts without any image", "check `ann_file`"},
    {"image.other_format", W, "image files that don't end in .jpg, .jpeg, .png or .webp; left out",
     "convert them, or rename what is of one of these formats"},
    {"image.outside_prefix", N, "image files outside of `img_prefix`",
     "the data set can't be moved as a whole"},
    {"image.progressive", N, "progressive JPEGs, about three times as slow to decode",
     "jpegtran -optimize makes them baseline without loss"},
    {"image.rotated", N,
     "images that EXIF turns; whether annotations mean the turned or the stored form is told by "
     "the size",
     "bake the rotation in to be sure (exiftran -a, jpegtran)"},
    {"image.size_differs", E, "images of another size than the annotation file says",
     "annotations would be wrong: restore the images that were annotated, or correct width and "
     "height"},
    {"image.unreadable", E, "image files that can't be read or decoded",
     "replace them, or train with `on_error: skip`"},
    {"leak.content", W, "images that are in two parts",
     "results on such images say nothing: remove them from one part"},
};

}  // namespace

void FindingList::Add(Problem problem) {
  auto [entry, added] = findings_.try_emplace(problem.code);
  Finding& finding = entry->second;
  if (added) {
    finding.code = problem.code;
    auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                             [&](const Kind& k) { return k.code == problem.code; });
    if (kind != std::end(kKinds)) {
      finding.severity = kind->severity;
      finding.title = kind->title;
      finding.advice = kind->advice;
    }
  }
  ++finding.count;
  // Each record that is left out is listed, however many they are.
  if (examples_ < 0 || problem.dropped || static_cast<int>(finding.examples.size()) < examples_)
    finding.examples.push_back(std::move(problem));
}

std::vector<Finding> FindingList::Take() {
  std::vector<Finding> list;
  for (auto& [code, finding] : findings_) list.push_back(std::move(finding));
  findings_.clear();
  std::stable_sort(list.begin(), list.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return list;
}

}  // namespace xp::data
