// The audit's report as text and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "exp/base/printable.h"
#include "exp/data/audit.h"

namespace xp::data {
namespace {

using Json = nlohmann::ordered_json;

// Examples of a finding that the text shows where not all were asked for.
constexpr size_t kShown = 3;

std::string Row(const char* name, const Quantiles& q) {
  return fmt::format("  {:<22}{:>9.4g}{:>9.4g}{:>9.4g}{:>9.4g}{:>9.4g}\n", name, q[0], q[1], q[2],
                     q[3], q[4]);
}

std::string FindingText(const Finding& f, bool all) {
  std::string out =
      fmt::format("  {}: {} {} [{}]\n", SeverityName(f.severity), f.count, f.title, f.code);
  const size_t shown = all ? f.examples.size() : std::min(kShown, f.examples.size());
  for (size_t i = 0; i < shown; ++i) {
    const Problem& p = f.examples[i];
    bool said = p.where.empty() || p.message.find(p.where) != std::string::npos;
    out += "      " + Printable((said ? "" : p.where + ": ") + p.message) + "\n";
  }
  if (f.count > static_cast<int64_t>(shown))
    out += fmt::format("      and {} more\n", f.count - static_cast<int64_t>(shown));
  if (!f.advice.empty()) out += "      next: " + f.advice + "\n";
  return out;
}

std::string BoxText(const PartReport& p) {
  std::string out =
      fmt::format("  {} images ({} without boxes), {} boxes in {} classes, {} crowds\n", p.images,
                  p.empty_images, p.boxes, p.classes.size(), p.crowds);
  out += fmt::format("  boxes by area: {} small (up to 32x32), {} medium, {} large (over 96x96)\n",
                     p.boxes_by_area[0], p.boxes_by_area[1], p.boxes_by_area[2]);
  out += fmt::format("  {:<22}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "", "least", "10 %", "median", "90 %",
                     "most");
  out += Row("boxes an image", p.boxes_per_image) + Row("box side, pixels", p.box_side) +
         Row("box width / height", p.box_aspect) + Row("image side, pixels", p.image_side);
  return out;
}

std::string PartText(const PartReport& p, bool all) {
  std::string out = fmt::format("{} ({})\n", p.name, p.dataset->path);
  out += p.has_boxes ? BoxText(p)
                     : fmt::format("  {} images in {} classes\n", p.images, p.classes.size());
  if (p.anchors.boxes > 0) {
    out += fmt::format(
        "  anchors: best overlap {:.2f} on average; at least .7 for {:.1f} %, .5 for {:.1f} %, "
        "under .3 for {:.1f} % of boxes\n",
        p.anchors.mean_iou, 100 * p.anchors.at_least_70, 100 * p.anchors.at_least_50,
        100 * p.anchors.below_30);
  }
  if (p.content.files > 0) {
    out += fmt::format("  files: {} of {:.1f} MiB", p.content.files,
                       static_cast<double>(p.content.bytes) / (1 << 20));
    for (const auto& [format, count] : p.content.formats)
      out += fmt::format(", {} {}", count, format);
    out += fmt::format(", in {:.1f} s\n", p.content.seconds);
  }
  out += fmt::format("  {:<6}{:<24}{:>9}{:>9}\n", "id", "class", p.has_boxes ? "boxes" : "labels",
                     "images");
  for (const ClassSummary& c : p.classes)
    out += fmt::format("  {:<6}{:<24}{:>9}{:>9}\n", c.id, Printable(c.name), c.boxes, c.images);
  for (const Finding& f : p.findings) out += FindingText(f, all);
  return out;
}

Json FindingJson(const Finding& f) {
  Json examples = Json::array();
  for (const Problem& p : f.examples) {
    Json example = {{"message", p.message}};
    if (!p.where.empty()) example["where"] = p.where;
    if (p.image_id >= 0) example["image_id"] = p.image_id;
    if (p.annotation_id >= 0) example["annotation_id"] = p.annotation_id;
    example["dropped"] = p.dropped;
    examples.push_back(example);
  }
  return {{"code", f.code},     {"severity", SeverityName(f.severity)},
          {"title", f.title},   {"count", f.count},
          {"advice", f.advice}, {"examples", examples}};
}

Json FindingsJson(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& f : findings) list.push_back(FindingJson(f));
  return list;
}

Json PartJson(const PartReport& p) {
  Json classes = Json::array(), sizes = Json::array(), formats = Json::object();
  for (const ClassSummary& c : p.classes) {
    classes.push_back({{"id", c.id}, {"name", c.name}, {"boxes", c.boxes}, {"images", c.images}});
  }
  for (const auto& [size, count] : p.image_sizes) {
    sizes.push_back({{"width", size.width}, {"height", size.height}, {"images", count}});
  }
  for (const auto& [format, count] : p.content.formats) formats[format] = count;
  const AnchorCoverage& a = p.anchors;
  return {{"name", p.name},
          {"ann_file", p.dataset->path},
          {"img_prefix", p.img_prefix},
          {"images", p.images},
          {"annotations", p.annotations},
          {"boxes", p.boxes},
          {"crowds", p.crowds},
          {"empty_images", p.empty_images},
          {"classes", classes},
          {"boxes_by_area",
           {{"small", p.boxes_by_area[0]},
            {"medium", p.boxes_by_area[1]},
            {"large", p.boxes_by_area[2]}}},
          {"quantiles",
           {{"boxes_per_image", p.boxes_per_image},
            {"box_side", p.box_side},
            {"box_aspect", p.box_aspect},
            {"image_side", p.image_side}}},
          {"image_sizes", sizes},
          {"anchors",
           {{"boxes", a.boxes},
            {"mean_iou", a.mean_iou},
            {"at_least_70", a.at_least_70},
            {"at_least_50", a.at_least_50},
            {"below_30", a.below_30},
            {"at_least_50_by_area", a.at_least_50_by_area}}},
          {"content",
           {{"files", p.content.files},
            {"bytes", p.content.bytes},
            {"seconds", p.content.seconds},
            {"formats", formats}}},
          {"findings", FindingsJson(p.findings)}};
}

}  // namespace

std::string AuditText(const AuditReport& report, bool all) {
  std::string out;
  for (const PartReport& part : report.parts) out += PartText(part, all) + "\n";
  if (!report.findings.empty()) {
    out += "between the parts and the model\n";
    for (const Finding& f : report.findings) out += FindingText(f, all);
    out += "\n";
  }
  out +=
      fmt::format("{} errors, {} warnings, {} notes in {:.1f} s\n", report.Count(Severity::kError),
                  report.Count(Severity::kWarning), report.Count(Severity::kNote), report.seconds);
  return out;
}

std::string AuditJson(const AuditReport& report) {
  Json parts = Json::array();
  for (const PartReport& part : report.parts) parts.push_back(PartJson(part));
  Json json = {{"errors", report.Count(Severity::kError)},
               {"warnings", report.Count(Severity::kWarning)},
               {"notes", report.Count(Severity::kNote)},
               {"seconds", report.seconds},
               {"parts", parts},
               {"findings", FindingsJson(report.findings)}};
  // File names may be of any encoding: what isn't UTF-8 is replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace xp::data
