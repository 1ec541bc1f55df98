// The audit's report as one HTML page with sample images.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "exp/base/error.h"
#include "exp/base/escape.h"
#include "exp/data/audit.h"
#include "exp/data/image_io.h"
#include "src/data/html.h"
#include "src/data/sample.h"

namespace xp::data {
namespace {

constexpr int kFigureWidth = 420;

std::string FindingRows(const std::vector<Finding>& findings) {
  std::string out = "<table><tr><th>count</th><th></th><th>what</th><th>what to do</th></tr>\n";
  for (const Finding& f : findings) {
    std::string examples;
    for (const Problem& p : f.examples)
      examples +=
          "<li>" + EscapeHtml((p.where.empty() ? "" : p.where + ": ") + p.message) + "</li>";
    out += fmt::format(
        "<tr><td class=\"n\">{0}</td><td class=\"{1}\">{1}</td><td>{2} "
        "<code>{3}</code><details><summary>examples</summary><ul>{4}</ul></details></td><td>{5}</"
        "td></tr>\n",
        f.count, SeverityName(f.severity), EscapeHtml(f.title), f.code, examples,
        EscapeHtml(f.advice));
  }
  return findings.empty() ? "<p>Nothing found.</p>\n" : out + "</table>\n";
}

std::string ClassRows(const PartReport& p) {
  int64_t most = 1;
  for (const ClassSummary& c : p.classes) most = std::max(most, c.boxes);
  std::string out =
      "<table><tr><th>id</th><th>class</th><th>boxes</th><th>images</th><th></th></tr>\n";
  for (const ClassSummary& c : p.classes) {
    out += fmt::format(
        "<tr><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td><span class=\"bar\" style=\"width:{:.0f}px\"></span></td></tr>\n",
        c.id, EscapeHtml(c.name), c.boxes, c.images,
        300.0 * static_cast<double>(c.boxes) / static_cast<double>(most));
  }
  return out + "</table>\n";
}

std::string QuantileRows(const PartReport& p) {
  std::string out =
      "<table><tr><th></th><th>least</th><th>10 %</th><th>median</th><th>90 "
      "%</th><th>most</th></tr>\n";
  const std::pair<const char*, const Quantiles*> rows[] = {{"boxes an image", &p.boxes_per_image},
                                                           {"box side, pixels", &p.box_side},
                                                           {"box width / height", &p.box_aspect},
                                                           {"image side, pixels", &p.image_side}};
  for (const auto& [name, q] : rows) {
    out += fmt::format("<tr><td>{}</td>", name);
    for (double v : *q) out += fmt::format("<td class=\"n\">{:.4g}</td>", v);
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

// Images with problems first, then some spread over the set.
std::vector<int> ChooseSamples(const PartReport& p, size_t samples) {
  std::vector<int> chosen;
  std::set<int> taken;
  auto take = [&](int image) {
    if (chosen.size() < samples && taken.insert(image).second) chosen.push_back(image);
  };
  for (const Finding& f : p.findings) {
    size_t from_this = 0;
    for (const Problem& problem : f.examples) {
      auto found = p.dataset->image_index.find(problem.image_id);
      if (found == p.dataset->image_index.end() || f.severity == Severity::kNote || ++from_this > 3)
        continue;
      if (chosen.size() < samples / 2) take(found->second);
    }
  }
  size_t n = p.dataset->images.size();
  for (size_t k = 0; k < samples && n > 0; ++k) take(static_cast<int>(k * n / samples));
  return chosen;
}

std::string SampleFigure(const PartReport& p, int index) {
  const CocoImage& image = p.dataset->images[static_cast<size_t>(index)];
  std::string path = ImagePath(p.img_prefix, image.file_name);
  std::vector<DrawnBox> boxes;
  for (const CocoAnnotation& a : p.dataset->Of(index)) {
    if (!p.has_boxes) break;
    std::string text = p.dataset->categories[static_cast<size_t>(a.category)].name;
    if (a.crowd) text += " (crowd)";
    if (!a.trainable) text += fmt::format(" (left out, annotation {})", a.id);
    boxes.push_back({a.x, a.y, a.x + a.w, a.y + a.h, a.category, text, a.crowd || !a.trainable});
  }
  try {
    RgbImage pixels;
    DecodeImageOfSize(ReadImageFile(path), path, {image.width, image.height}, &pixels);
    return Figure(pixels, boxes,
                  fmt::format("{} (image {}, {}x{}, {} boxes)", image.file_name, image.id,
                              pixels.width, pixels.height, boxes.size()),
                  kFigureWidth);
  } catch (const Error& e) {
    return fmt::format("<figure><p class=\"error\">{}</p><figcaption>{}</figcaption></figure>\n",
                       EscapeHtml(e.what()), EscapeHtml(image.file_name));
  }
}

std::string PartHtml(const PartReport& p, int samples) {
  std::string out =
      fmt::format("<h2>{}</h2><p><code>{}</code>, images in <code>{}</code></p>\n",
                  EscapeHtml(p.name), EscapeHtml(p.dataset->path), EscapeHtml(p.img_prefix));
  if (!p.has_boxes) {
    out += fmt::format("<p>{} images in {} classes.</p>\n", p.images, p.classes.size());
  } else
    out += fmt::format(
        "<p>{} images ({} without boxes), {} boxes, {} crowds; {} small (up to 32×32 pixels), {} "
        "medium, {} large (over 96×96).</p>\n",
        p.images, p.empty_images, p.boxes, p.crowds, p.boxes_by_area[0], p.boxes_by_area[1],
        p.boxes_by_area[2]);
  out += "<h3>Findings</h3>\n" + FindingRows(p.findings) + "<h3>Classes</h3>\n" + ClassRows(p);
  if (p.has_boxes) out += "<h3>Sizes</h3>\n" + QuantileRows(p);
  const AnchorCoverage& a = p.anchors;
  if (a.boxes > 0) {
    out += fmt::format(
        "<p>Anchors: the best one of a box overlaps by {:.2f} on average; at least .7 for {:.1f} "
        "%, .5 for {:.1f} %, under .3 for {:.1f} % of the boxes after the resize.</p>\n",
        a.mean_iou, 100 * a.at_least_70, 100 * a.at_least_50, 100 * a.below_30);
  }
  out += "<h3>Samples</h3>\n";
  for (int index : ChooseSamples(p, static_cast<size_t>(std::max(samples, 0))))
    out += SampleFigure(p, index);
  return out;
}

}  // namespace

std::string AuditHtml(const AuditReport& report, int samples) {
  std::string body =
      fmt::format("<p>{} errors, {} warnings, {} notes.</p>\n", report.Count(Severity::kError),
                  report.Count(Severity::kWarning), report.Count(Severity::kNote));
  if (!report.findings.empty())
    body += "<h2>Between the parts and the model</h2>\n" + FindingRows(report.findings);
  for (const PartReport& part : report.parts) body += PartHtml(part, samples);
  return Page("Data audit", body);
}

}  // namespace xp::data
