#include "exp/data/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>
#include <unordered_map>

#include "src/data/audit_content.h"
#include "src/data/audit_findings.h"
#include "src/data/class_names.h"
#include "src/data/sample.h"

namespace xp::data {
namespace {

constexpr double kSmall = 32 * 32, kMedium = 96 * 96;
// Coverage by anchors is estimated from at most this many boxes, evenly spread over the file.
constexpr int64_t kAnchorSample = 50000;

Quantiles QuantilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  auto at = [&](double q) {
    return values[static_cast<size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
  };
  return {values.front(), at(0.1), at(0.5), at(0.9), values.back()};
}

// A name that is absolute or climbs out of its folder.
bool LeavesFolder(const std::string& name) {
  if (name.starts_with('/')) return true;
  if (name.find("..") == std::string::npos) return false;
  const std::filesystem::path normal = std::filesystem::path(name).lexically_normal();
  return *normal.begin() == "..";
}

// The checks and the summary of one part that need no file but the annotations.
class Metadata {
 public:
  Metadata(const AuditPart& part, const AuditOptions& options, PartReport* report,
           FindingList* findings)
      : d_(*part.dataset), options_(options), report_(report), findings_(findings) {}

  void Run() {
    for (const Problem& problem : d_.problems) findings_->Add(problem);
    Classes();
    Images();
    if (!report_->has_boxes) {
      report_->annotations = report_->boxes = static_cast<int64_t>(d_.annotations.size());
      return;
    }
    Boxes();
    Corners();
    Normalised();
    Anchors();
  }

 private:
  void Report(const char* code, std::string message, int64_t image = -1, int64_t annotation = -1) {
    findings_->Add({code, std::move(message), "", image, annotation, false});
  }

  static bool Usable(const CocoAnnotation& a) { return a.trainable && !a.crowd; }

  void Classes() {
    std::vector<int> last(d_.categories.size(), -1);
    for (const Category& c : d_.categories) report_->classes.push_back({c.id, c.name, 0, 0});
    for (const CocoAnnotation& a : d_.annotations) {
      if (!Usable(a)) continue;
      ClassSummary& summary = report_->classes[static_cast<size_t>(a.category)];
      ++summary.boxes;
      if (last[static_cast<size_t>(a.category)] != a.image) ++summary.images;
      last[static_cast<size_t>(a.category)] = a.image;
    }
    for (const ClassSummary& c : report_->classes) {
      if (c.boxes == 0)
        Report("category.unused",
               fmt::format("category {} ({}) has no box to train on", c.id, c.name));
    }
  }

  void Images() {
    std::unordered_map<std::string, int64_t> names;
    std::map<std::pair<int, int>, int64_t> sizes;
    std::vector<double> per_image, sides;
    if (d_.images.empty()) Report("image.none", "the annotation file lists no image");
    for (size_t i = 0; i < d_.images.size(); ++i) {
      const CocoImage& image = d_.images[i];
      if (LeavesFolder(image.file_name))
        Report("image.outside_prefix", fmt::format("image {} is {}", image.id, image.file_name),
               image.id);
      auto boxes = d_.Of(static_cast<int>(i));
      int64_t usable = std::count_if(boxes.begin(), boxes.end(), Usable);
      per_image.push_back(static_cast<double>(usable));
      if (usable == 0) {
        ++report_->empty_images;
        Report("image.empty",
               fmt::format("image {} ({}) has no box to train on", image.id, image.file_name),
               image.id);
      }
      auto [named, fresh] = names.emplace(image.file_name, image.id);
      if (!fresh) {
        Report(
            "image.duplicate_file",
            fmt::format("images {} and {} are both {}", named->second, image.id, image.file_name),
            image.id);
      }
      if (image.width == 0) continue;
      ++sizes[{image.width, image.height}];
      sides.push_back(std::sqrt(static_cast<double>(image.width) * image.height));
    }
    report_->images = static_cast<int64_t>(d_.images.size());
    report_->boxes_per_image = QuantilesOf(std::move(per_image));
    report_->image_side = QuantilesOf(std::move(sides));
    for (const auto& [size, count] : sizes)
      report_->image_sizes.push_back({{size.first, size.second}, count});
    std::stable_sort(report_->image_sizes.begin(), report_->image_sizes.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (report_->image_sizes.size() > 10) report_->image_sizes.resize(10);
  }

  double ScaleOf(const CocoImage& image) const {
    if (image.width == 0 || !options_.anchors.keep_ratio) return 1;
    return static_cast<double>(
               KeepRatioSize({image.width, image.height}, options_.anchors.img_scale).width) /
           image.width;
  }

  void Boxes() {
    std::vector<double> sides, aspects;
    report_->annotations = static_cast<int64_t>(d_.annotations.size());
    for (size_t i = 0; i < d_.images.size(); ++i) {
      const CocoImage& image = d_.images[i];
      double scale = ScaleOf(image);
      std::map<std::tuple<int, double, double, double, double>, int64_t> seen;
      for (const CocoAnnotation& a : d_.Of(static_cast<int>(i))) {
        if (a.crowd) {
          ++report_->crowds;
          Report("annotation.crowd",
                 fmt::format("annotation {} (image {}, {}) is a crowd", a.id, image.id,
                             image.file_name),
                 image.id, a.id);
        }
        if (!Usable(a)) continue;
        ++report_->boxes;
        sides.push_back(std::sqrt(a.w * a.h));
        aspects.push_back(a.w / a.h);
        ++report_->boxes_by_area[a.w * a.h <= kSmall ? 0 : a.w * a.h <= kMedium ? 1 : 2];
        if (std::min(a.w, a.h) * scale < 2) {
          Report("box.tiny",
                 fmt::format(
                     "annotation {} (image {}, {}): {}x{} pixels, {:.1f}x{:.1f} after the resize",
                     a.id, image.id, image.file_name, a.w, a.h, a.w * scale, a.h * scale),
                 image.id, a.id);
        }
        auto [first, fresh] = seen.emplace(std::make_tuple(a.category, a.x, a.y, a.w, a.h), a.id);
        if (!fresh) {
          Report("box.duplicate",
                 fmt::format("annotations {} and {} (image {}, {}) are the same box", first->second,
                             a.id, image.id, image.file_name),
                 image.id, a.id);
        }
      }
    }
    // A file without annotations may be one to predict on.
    const bool listed = !d_.annotations.empty() ||
                        std::any_of(d_.problems.begin(), d_.problems.end(), [](const Problem& p) {
                          return p.code.starts_with("box.") || p.code.starts_with("annotation.");
                        });
    if (report_->boxes == 0 && listed)
      Report("box.none", fmt::format("{} images, and no box to train on", d_.images.size()));
    report_->box_side = QuantilesOf(std::move(sides));
    report_->box_aspect = QuantilesOf(std::move(aspects));
  }

  // [x1, y1, x2, y2] written as [x, y, w, h]: many boxes reach too far, and all would fit as
  // corners.
  void Corners() {
    int64_t beyond = 0, known = 0;
    for (const CocoAnnotation& a : d_.annotations) {
      const CocoImage& image = d_.images[static_cast<size_t>(a.image)];
      if (image.width == 0) continue;
      ++known;
      if (a.w > image.width + 1 || a.h > image.height + 1 || a.w < a.x || a.h < a.y) return;
      beyond += a.x + a.w > image.width + 1 || a.y + a.h > image.height + 1;
    }
    if (known > 0 && beyond * 4 > known) {
      Report("box.corners",
             fmt::format(
                 "{} of {} boxes reach beyond their image, and every box fits as [x1, y1, x2, y2]",
                 beyond, known));
    }
  }

  // Shares of the image, as YOLO's text files have them, instead of pixels.
  void Normalised() {
    constexpr double kOne = 1.001;
    int64_t known = 0;
    for (const CocoAnnotation& a : d_.annotations) {
      if (a.x + a.w > kOne || a.y + a.h > kOne) return;
      const CocoImage& image = d_.images[static_cast<size_t>(a.image)];
      known += image.width > 2 && image.height > 2;
    }
    if (known > 0) {
      Report("box.normalised",
             fmt::format("all {} boxes lie within the first pixel of their image", known));
    }
  }

  void Anchors() {
    AnchorCoverage& coverage = report_->anchors;
    std::array<int64_t, 3> total{}, good{};
    int64_t step = std::max<int64_t>(1, report_->boxes / kAnchorSample), index = 0;
    for (const CocoAnnotation& a : d_.annotations) {
      if (!Usable(a) || index++ % step != 0) continue;
      const CocoImage& image = d_.images[static_cast<size_t>(a.image)];
      double sx = ScaleOf(image), sy = sx;
      if (!options_.anchors.keep_ratio && image.width > 0) {
        sx = static_cast<double>(options_.anchors.img_scale.width) / image.width;
        sy = static_cast<double>(options_.anchors.img_scale.height) / image.height;
      }
      double iou =
          BestAnchorIou({a.x * sx, a.y * sy, (a.x + a.w) * sx, (a.y + a.h) * sy}, options_.anchors);
      double area = a.w * sx * a.h * sy;
      size_t size = area <= kSmall ? 0 : area <= kMedium ? 1 : 2;
      ++coverage.boxes;
      ++total[size];
      good[size] += iou >= 0.5;
      coverage.mean_iou += iou;
      coverage.at_least_70 += iou >= 0.7;
      coverage.at_least_50 += iou >= 0.5;
      coverage.below_30 += iou < 0.3;
    }
    for (size_t s = 0; s < 3; ++s) {
      coverage.at_least_50_by_area[s] =
          total[s] == 0 ? -1 : static_cast<double>(good[s]) / static_cast<double>(total[s]);
    }
    if (coverage.boxes == 0) return;
    for (double* value :
         {&coverage.mean_iou, &coverage.at_least_70, &coverage.at_least_50, &coverage.below_30}) {
      *value /= static_cast<double>(coverage.boxes);
    }
  }

  const CocoDataset& d_;
  const AuditOptions& options_;
  PartReport* report_;
  FindingList* findings_;
};

void AddContent(const AuditPart& part, const std::vector<FileCheck>& checks, PartReport* report,
                FindingList* findings) {
  std::map<std::string, int64_t> formats;
  std::map<Hash128, size_t> seen;
  for (size_t i = 0; i < checks.size(); ++i) {
    for (const Problem& problem : checks[i].problems) findings->Add(problem);
    if (checks[i].bytes >= 0) {
      ++report->content.files;
      report->content.bytes += checks[i].bytes;
    }
    if (checks[i].format.empty()) continue;
    ++formats[checks[i].format];
    auto [first, fresh] = seen.emplace(checks[i].hash, i);
    const CocoImage &image = part.dataset->images[i], &other = part.dataset->images[first->second];
    if (!fresh && image.file_name != other.file_name) {
      findings->Add(
          {"image.duplicate_content",
           fmt::format("{} and {} have the same content", other.file_name, image.file_name), "",
           image.id, -1, false});
    }
  }
  report->content.formats.assign(formats.begin(), formats.end());
}

// Of a file that wasn't read: prefixes may be spelt in several ways, such as `images/`.
std::string NormalPath(const std::string& prefix, const std::string& name) {
  return std::filesystem::path(ImagePath(prefix, name)).lexically_normal().string();
}

// Images that two parts share: by content, or by path where contents weren't read.
void AddLeaks(const AuditOptions& options, const std::vector<std::vector<FileCheck>>& checks,
              FindingList* findings) {
  std::map<Hash128, std::pair<size_t, size_t>> seen;  // part and image
  for (size_t p = 0; p < options.parts.size(); ++p) {
    const AuditPart& part = options.parts[p];
    for (size_t i = 0; i < part.dataset->images.size(); ++i) {
      const std::string& name = part.dataset->images[i].file_name;
      bool read = i < checks[p].size() && !checks[p][i].format.empty();
      Hash128 key = read ? checks[p][i].hash : HashBytes(NormalPath(part.img_prefix, name));
      auto [first, fresh] = seen.emplace(key, std::make_pair(p, i));
      if (fresh || first->second.first == p) continue;
      const AuditPart& other = options.parts[first->second.first];
      findings->Add({"leak.content",
                     fmt::format("{} of {} is {} of {}", name, part.name,
                                 other.dataset->images[first->second.second].file_name, other.name),
                     "", part.dataset->images[i].id, -1, false});
    }
  }
}

std::string NamesOf(const CocoDataset& dataset) {
  std::vector<std::string> names;
  for (const Category& category : dataset.categories) names.push_back(category.name);
  return ListOfNames(names);
}

void CompareClasses(const AuditOptions& options, FindingList* findings) {
  const AuditPart& first = options.parts[0];
  for (const AuditPart& part : options.parts) {
    bool same = std::equal(first.dataset->categories.begin(), first.dataset->categories.end(),
                           part.dataset->categories.begin(), part.dataset->categories.end(),
                           [](const Category& a, const Category& b) { return a.name == b.name; });
    if (!same) {
      findings->Add(
          {"classes.differ",
           fmt::format("{} has {} classes ({}), {} has {} ({})", first.name,
                       first.dataset->categories.size(), NamesOf(*first.dataset), part.name,
                       part.dataset->categories.size(), NamesOf(*part.dataset)),
           part.dataset->path, -1, -1, false});
    }
    int count = static_cast<int>(part.dataset->categories.size());
    if (options.num_classes >= 0 && count != options.num_classes) {
      findings->Add({"classes.head",
                     fmt::format("the head has {} classes, {} has {}: {}", options.num_classes,
                                 part.name, count, NamesOf(*part.dataset)),
                     options.num_classes_where, -1, -1, false});
    }
  }
}

}  // namespace

CocoDataset DatasetOf(const ImageList& list) {
  CocoDataset dataset;
  dataset.path = list.path;
  dataset.problems = list.problems;
  for (const std::string& name : list.classes)
    dataset.categories.push_back({static_cast<int64_t>(dataset.categories.size()) + 1, name});
  dataset.first.push_back(0);
  for (size_t i = 0; i < list.files.size(); ++i) {
    const auto id = static_cast<int64_t>(i) + 1;
    dataset.image_index[id] = static_cast<int32_t>(i);
    dataset.images.push_back({id, list.files[i], 0, 0});
    CocoAnnotation label;
    label.id = id;
    label.image = static_cast<int32_t>(i);
    label.category = list.labels[i];
    dataset.annotations.push_back(label);
    dataset.first.push_back(static_cast<int32_t>(i) + 1);
  }
  return dataset;
}

const char* SeverityName(Severity severity) {
  return severity == Severity::kError     ? "error"
         : severity == Severity::kWarning ? "warning"
                                          : "note";
}

int64_t AuditReport::Count(Severity severity) const {
  int64_t count = 0;
  auto add = [&](const std::vector<Finding>& list) {
    for (const Finding& f : list) count += f.severity == severity ? f.count : 0;
  };
  add(findings);
  for (const PartReport& part : parts) add(part.findings);
  return count;
}

AuditReport Audit(const AuditOptions& options) {
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  AuditReport report;
  std::vector<std::vector<FileCheck>> checks;
  for (const AuditPart& part : options.parts) {
    PartReport& out = report.parts.emplace_back();
    out.name = part.name;
    out.dataset = part.dataset;
    out.img_prefix = part.img_prefix;
    out.has_boxes = part.list == nullptr;
    FindingList findings(options.examples);
    Metadata(part, options, &out, &findings).Run();
    double before = seconds();
    checks.push_back(options.files ? CheckFiles(part, options) : std::vector<FileCheck>());
    out.content.seconds = seconds() - before;
    AddContent(part, checks.back(), &out, &findings);
    out.findings = findings.Take();
  }
  FindingList findings(options.examples);
  if (!options.parts.empty()) CompareClasses(options, &findings);
  AddLeaks(options, checks, &findings);
  report.findings = findings.Take();
  report.seconds = seconds();
  return report;
}

}  // namespace xp::data
