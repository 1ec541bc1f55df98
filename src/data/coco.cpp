#include "exp/data/coco.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>

#include "exp/base/error.h"
#include "src/data/class_names.h"
#include "src/data/coco_raw.h"
#include "src/data/json_scanner.h"

namespace xp::data {
namespace {

// Turns raw records into a data set, one section after the other, and keeps what was wrong.
class Builder {
 public:
  Builder(const RawCoco& raw, const CocoOptions& options, CocoDataset* out)
      : raw_(raw), options_(options), out_(out) {}

  void Build() {
    Categories();
    Images();
    Annotations();
    GroupByImage();
    LocateProblems();
  }

 private:
  // Where everything about a problem comes together. Returns true when the record can't be used.
  void Report(const char* code, std::string message, int64_t offset, bool dropped,
              int64_t image_id = -1, int64_t annotation_id = -1) {
    if (first_offset_ < 0 && dropped) {
      first_offset_ = offset;
      first_message_ = message;
    }
    if (options_.policy == Policy::kIgnore && !options_.list_ignored) return;
    out_->problems.push_back({code, std::move(message), "", image_id, annotation_id, dropped});
    offsets_.push_back(offset);
    if (options_.policy == Policy::kStrict) {
      auto [line, column] = LocateOffsets(out_->path, {offset})[0];
      throw UsageError(
          {.what = out_->problems.back().message,
           .where = fmt::format("{}:{}:{}", out_->path, line, column),
           .next = fmt::format("mend the file, or let such records be left out with the policy "
                               "`drop` ({})",
                               code)});
    }
  }

  // Before what may be the first report: what to do when nothing of the section is left.
  void Advise(const char* next) {
    if (first_offset_ < 0) first_advice_ = next;
  }

  // An id as an integer. Says what is wrong with it; digits in quotes are taken under kIgnore.
  template <typename What>
  bool TakeId(const RawId& id, const What& what, const char* code, int64_t offset, int64_t image_id,
              int64_t annotation_id, int64_t* value) {
    *value = id.value;
    if (id.ok()) return true;
    const bool taken = id.kind == RawId::Kind::kNumericString && options_.policy == Policy::kIgnore;
    if (taken && !options_.list_ignored) return true;
    Advise(id.number() ? "write ids without quotes, or take numbers in quotes with `policy: ignore`"
                       : "number them with integers");
    std::string message =
        id.kind == RawId::Kind::kMissing
            ? fmt::format("{} is missing", what())
            : fmt::format("{} is {}, not an integer of 64 bits", what(), raw_.Show(id));
    Report(code, message, offset, !taken, image_id, annotation_id);
    return taken;
  }

  // `what` as "image 7". Python's json takes the last, other programs the first.
  void CheckTwice(const char* twice, const char* code, const char* kind, int64_t id, int64_t offset,
                  int64_t image_id = -1, int64_t annotation_id = -1) {
    if (twice == nullptr) return;
    Report(code, fmt::format("{} {} has `{}` twice, of which the last one counts", kind, id, twice),
           offset, false, image_id, annotation_id);
  }

  // Nothing of a section is left: the first record says why, at its place.
  [[noreturn]] void NoneUsable(const char* what, const char* expected) {
    std::string where = out_->path;
    if (first_offset_ >= 0) {
      auto [line, column] = LocateOffsets(out_->path, {first_offset_})[0];
      where += fmt::format(":{}:{}", line, column);
    }
    throw UsageError(
        {.what = fmt::format("{}{}{}", what, first_message_.empty() ? "" : ": ", first_message_),
         .where = where,
         .expected = expected,
         .next = first_advice_});
  }

  void Categories() {
    std::vector<Category> all;
    std::unordered_set<std::string> names;
    for (const RawCategory& raw : raw_.categories) {
      Category category{0, raw.name};
      auto what = [&] { return fmt::format("the id of category `{}`", raw.name); };
      if (!TakeId(raw.id, what, "category.bad_id", raw.offset, -1, -1, &category.id)) continue;
      CheckTwice(raw.twice, "category.duplicate_key", "category", category.id, raw.offset);
      if (!raw.has_name) {
        Advise("name each");
        Report("category.no_name",
               fmt::format("category {} has no name, or one that isn't a string", category.id),
               raw.offset, true);
        continue;
      }
      if (!known_categories_.emplace(category.id, -1).second) {
        Report("category.duplicate_id", fmt::format("category id {} is used twice", category.id),
               raw.offset, true);
        continue;
      }
      if (!names.insert(category.name).second) {
        Report(
            "category.duplicate_name",
            fmt::format("category {} is named `{}`, as another one is", category.id, category.name),
            raw.offset, false);
      }
      all.push_back(category);
    }
    if (all.empty()) {
      if (raw_.categories.empty()) Advise("check `ann_file`: its `categories` are empty");
      NoneUsable(raw_.categories.empty() ? "there are no categories" : "no category can be used",
                 "at least one with an integer `id` and a `name`");
    }
    out_->categories = options_.classes.empty() ? all : Select(all);
    for (size_t i = 0; i < out_->categories.size(); ++i) {
      known_categories_[out_->categories[i].id] = static_cast<int32_t>(i);
    }
  }

  std::vector<Category> Select(const std::vector<Category>& all) const {
    std::unordered_map<std::string, const Category*> by_name;  // the first of a name
    std::vector<std::string> names, missing;
    for (const Category& category : all) {
      by_name.emplace(category.name, &category);
      names.push_back(category.name);
    }
    std::vector<Category> chosen;
    std::unordered_set<int64_t> taken;
    for (const std::string& name : options_.classes) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) {
        missing.push_back(name);
      } else if (!taken.insert(found->second->id).second) {
        throw UsageError({.what = fmt::format("class `{}` is listed twice", name),
                          .where = out_->path,
                          .expected = "each of `classes` once",
                          .next = "remove one of the two"});
      } else {
        chosen.push_back(*found->second);
      }
    }
    if (!missing.empty()) {
      throw UsageError({.what = "no category is named " + ListOfNames(missing, "`"),
                        .where = out_->path,
                        .expected = "`classes` to name some of: " + ListOfNames(names),
                        .next = "make `classes` agree with the annotation file"});
    }
    return chosen;
  }

  void Images() {
    out_->images.reserve(raw_.images.size());
    out_->image_index.reserve(raw_.images.size());
    for (const RawImage& raw : raw_.images) {
      CocoImage image{0, raw.file_name, std::max(raw.width, 0), std::max(raw.height, 0)};
      auto what = [&] { return fmt::format("the id of image `{}`", raw.file_name); };
      if (!TakeId(raw.id, what, "image.bad_id", raw.offset, -1, -1, &image.id)) continue;
      CheckTwice(raw.twice, "image.duplicate_key", "image", image.id, raw.offset, image.id);
      if (raw.file_name.empty()) {
        nameless_.insert(image.id);
        Advise("name each file below `img_prefix` (LVIS has only the end of `coco_url`)");
        Report("image.no_file_name",
               fmt::format("image {} has no file_name that is a string", image.id), raw.offset,
               true, image.id);
        continue;
      }
      if (out_->image_index.contains(image.id)) {
        Report("image.duplicate_id",
               fmt::format("image id {} is used twice, again for `{}`", image.id, raw.file_name),
               raw.offset, true, image.id);
        continue;
      }
      if (raw.width <= 0 || raw.height <= 0) {
        Report("image.no_size",
               fmt::format("image {} ({}) has no usable width and height", image.id, raw.file_name),
               raw.offset, false, image.id);
        image.width = image.height = 0;
      }
      out_->image_index.emplace(image.id, static_cast<int32_t>(out_->images.size()));
      out_->images.push_back(std::move(image));
    }
    if (out_->images.empty() && !raw_.images.empty())
      NoneUsable("no image of the file can be used", "images with an integer id and a file_name");
  }

  void Annotations() {
    std::unordered_set<int64_t> ids;
    ids.reserve(raw_.annotations.size());
    out_->annotations.reserve(raw_.annotations.size());
    for (const RawAnnotation& raw : raw_.annotations) {
      CocoAnnotation annotation;
      if (!TakeId(
              raw.id, [] { return "the id of an annotation"; }, "annotation.bad_id", raw.offset, -1,
              -1, &annotation.id)) {
        continue;
      }
      if (!ids.insert(annotation.id).second) {
        Report("annotation.duplicate_id",
               fmt::format("annotation id {} is used twice", annotation.id), raw.offset,
               options_.policy != Policy::kIgnore, -1, annotation.id);
        if (options_.policy != Policy::kIgnore) continue;
      }
      if (Resolve(raw, &annotation)) out_->annotations.push_back(annotation);
    }
  }

  // Fills in an annotation; false when it isn't of this data set.
  bool Resolve(const RawAnnotation& raw, CocoAnnotation* annotation) {
    int64_t image_id, category_id;
    auto image_what = [&] { return fmt::format("annotation {}: the image_id", annotation->id); };
    if (!TakeId(raw.image, image_what, "annotation.bad_image_id", raw.offset, -1, annotation->id,
                &image_id)) {
      return false;
    }
    auto image = out_->image_index.find(image_id);
    if (image == out_->image_index.end()) {
      Report("annotation.unknown_image",
             nameless_.contains(image_id)
                 ? fmt::format("annotation {}: its image, {}, was left out: it has no file_name",
                               annotation->id, image_id)
                 : fmt::format("annotation {}: no image has the id {}", annotation->id, image_id),
             raw.offset, true, image_id, annotation->id);
      return false;
    }
    annotation->image = image->second;
    auto category_what = [&] {
      return fmt::format("annotation {}: the category_id", annotation->id);
    };
    if (!TakeId(raw.category, category_what, "annotation.bad_category_id", raw.offset, image_id,
                annotation->id, &category_id)) {
      return false;
    }
    auto category = known_categories_.find(category_id);
    if (category == known_categories_.end()) {
      Report("annotation.unknown_category",
             fmt::format("annotation {}: no category has the id {}", annotation->id, category_id),
             raw.offset, true, image_id, annotation->id);
      return false;
    }
    if (category->second < 0) return false;  // a class that wasn't asked for
    annotation->category = category->second;
    annotation->crowd = raw.crowd;
    CheckOthers(raw, *annotation);
    return TakeBox(raw, annotation);
  }

  // What is wrong with an annotation and leaves it usable.
  void CheckOthers(const RawAnnotation& raw, const CocoAnnotation& a) {
    int64_t image_id = out_->images[static_cast<size_t>(a.image)].id;
    if (raw.bad_area) {
      Report("annotation.bad_area",
             fmt::format("annotation {} (image {}): its area is not a number from 0 up: the box's "
                         "is taken",
                         a.id, image_id),
             raw.offset, false, image_id, a.id);
    }
    CheckTwice(raw.twice, "annotation.duplicate_key", "annotation", a.id, raw.offset, image_id,
               a.id);
    if (raw.bad_crowd) {
      Report("annotation.bad_crowd",
             fmt::format("annotation {} (image {}): iscrowd is not 0 or 1: taken as {}", a.id,
                         image_id, a.crowd ? 1 : 0),
             raw.offset, false, image_id, a.id);
    }
  }

  bool TakeBox(const RawAnnotation& raw, CocoAnnotation* a) {
    const CocoImage& image = out_->images[a->image];
    const double* b = raw.box;
    auto report = [&](const char* code, const char* text, bool dropped) {
      Report(code,
             fmt::format("annotation {} (image {}, {}): the box [{}, {}, {}, {}] {}", a->id,
                         image.id, image.file_name, b[0], b[1], b[2], b[3], text),
             raw.offset, dropped, image.id, a->id);
    };
    if (raw.box_numbers != 4) {
      Report("box.malformed",
             fmt::format("annotation {} (image {}, {}): {}", a->id, image.id, image.file_name,
                         raw.box_numbers == RawAnnotation::kNoBox
                             ? "there is no bbox"
                             : "the bbox is not a list of four numbers"),
             raw.offset, true, image.id, a->id);
      return false;
    }
    if (!std::all_of(b, b + 4, [](double v) { return std::isfinite(v) && std::abs(v) < 1e9; })) {
      report("box.not_finite", "has a value that is not a usable number", true);
      return false;
    }
    a->x = b[0];
    a->y = b[1];
    a->w = b[2];
    a->h = b[3];
    a->area = raw.has_area ? raw.area : b[2] * b[3];
    CheckBox(image, a, report);
    return true;
  }

  // In single precision, as training has it: a width of 1e-300 is none.
  static bool NoArea(double from, double length) {
    return static_cast<float>(from + length) <= static_cast<float>(from);
  }

  template <typename Report>
  static void CheckBox(const CocoImage& image, CocoAnnotation* a, const Report& report) {
    if (a->w < 0 || a->h < 0) {
      a->trainable = false;
      report("box.swapped",
             "has a negative width or height (x1, y1, x2, y2 instead of x, y, w, h?)", true);
    } else if (NoArea(a->x, a->w) || NoArea(a->y, a->h)) {
      a->trainable = false;
      report("box.no_area", "has no area", true);
    } else if (image.width > 0) {
      bool outside =
          a->x >= image.width || a->y >= image.height || a->x + a->w <= 0 || a->y + a->h <= 0;
      // Annotation tools round: a pixel over the edge is no mistake.
      bool partly =
          a->x < -1 || a->y < -1 || a->x + a->w > image.width + 1 || a->y + a->h > image.height + 1;
      std::string size =
          outside || partly ? fmt::format("of {}x{}", image.width, image.height) : "";
      if (outside) {
        a->trainable = false;
        report("box.outside", ("lies outside the image " + size).c_str(), true);
      } else if (partly) {
        report("box.partly_outside",
               ("reaches beyond the image " + size + " and is clipped").c_str(), false);
      }
    }
  }

  void GroupByImage() {
    auto& annotations = out_->annotations;
    std::stable_sort(
        annotations.begin(), annotations.end(),
        [](const CocoAnnotation& a, const CocoAnnotation& b) { return a.image < b.image; });
    out_->first.assign(out_->images.size() + 1, 0);
    for (const CocoAnnotation& annotation : annotations) ++out_->first[annotation.image + 1];
    for (size_t i = 0; i < out_->images.size(); ++i) out_->first[i + 1] += out_->first[i];
  }

  void LocateProblems() {
    auto places = LocateOffsets(out_->path, offsets_);
    for (size_t i = 0; i < places.size(); ++i) {
      out_->problems[i].where =
          fmt::format("{}:{}:{}", out_->path, places[i].first, places[i].second);
    }
  }

  const RawCoco& raw_;
  const CocoOptions& options_;
  CocoDataset* out_;
  std::unordered_map<int64_t, int32_t> known_categories_;  // id to label, -1: not asked for
  std::unordered_set<int64_t> nameless_;                   // images that were left out
  std::vector<int64_t> offsets_;                           // of each problem
  int64_t first_offset_ = -1;                              // of the first record left out
  std::string first_message_, first_advice_;
};

// Keeps the first `limit` images.
void Truncate(size_t limit, CocoDataset* dataset) {
  if (limit == 0 || limit >= dataset->images.size()) return;
  for (size_t i = limit; i < dataset->images.size(); ++i) {
    dataset->image_index.erase(dataset->images[i].id);
  }
  dataset->images.resize(limit);
  dataset->first.resize(limit + 1);
  dataset->annotations.resize(static_cast<size_t>(dataset->first[limit]));
}

}  // namespace

Policy ParsePolicy(const std::string& text, const std::string& where) {
  if (text == "strict") return Policy::kStrict;
  if (text == "drop") return Policy::kDrop;
  if (text == "ignore") return Policy::kIgnore;
  throw UsageError({.what = fmt::format("`{}` is not a policy", text),
                    .where = where,
                    .expected = "strict, drop or ignore"});
}

CocoOptions ForAudit(CocoOptions options) {
  if (options.policy == Policy::kStrict) options.policy = Policy::kDrop;
  options.list_ignored = true;
  return options;
}

CocoDataset LoadCoco(const std::filesystem::path& json, const CocoOptions& options) {
  CocoDataset dataset;
  dataset.path = json.string();
  RawCoco raw = ParseCoco(json);
  Builder(raw, options, &dataset).Build();
  Truncate(static_cast<size_t>(std::max(options.limit, 0)), &dataset);
  return dataset;
}

CocoDataset Repeated(CocoDataset dataset, int times) {
  const size_t images = dataset.images.size();
  const size_t annotations = dataset.annotations.size();
  constexpr size_t kMost = size_t{1} << 30;
  const auto factor = static_cast<size_t>(std::max(times, 1));
  if (images * factor > kMost || annotations * factor > kMost) {
    throw UsageError({.what = fmt::format("{} images with {} boxes {} times over are too many",
                                          images, annotations, times),
                      .where = dataset.path,
                      .expected = "at most 2^30 images and boxes an epoch"});
  }
  for (int copy = 1; copy < times; ++copy) {
    for (size_t i = 0; i < images; ++i) {
      dataset.images.push_back(dataset.images[i]);
      const int32_t begin = dataset.first[i], end = dataset.first[i + 1];
      dataset.first.push_back(dataset.first.back() + end - begin);
    }
    for (size_t i = 0; i < annotations; ++i) {
      CocoAnnotation annotation = dataset.annotations[i];
      annotation.image += static_cast<int32_t>(images * static_cast<size_t>(copy));
      dataset.annotations.push_back(annotation);
    }
  }
  return dataset;
}

}  // namespace xp::data
