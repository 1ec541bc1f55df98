#include "exp/data/preview.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "exp/base/escape.h"
#include "src/data/html.h"

namespace xp::data {
namespace {

constexpr int kWidth = 420;  // of the page's images, at most

template <typename AnyBatch>
RgbImage ImageOf(const AnyBatch& batch, int i) {
  RgbImage image;
  image.Reset(batch.width, batch.height);
  std::memcpy(image.pixels.data(), &batch.images[static_cast<size_t>(i) * image.pixels.size()],
              image.pixels.size());
  return image;
}

DrawnBox Drawn(const float* box, int label, const std::string& text, bool dashed) {
  return {box[0], box[1], box[2], box[3], label, text, dashed};
}

std::string SampleHtml(const Loader& loader, const Batch& batch, int i) {
  std::vector<DrawnBox> boxes;
  for (int k = 0; k < batch.box_counts[static_cast<size_t>(i)]; ++k) {
    size_t at = static_cast<size_t>(i) * batch.max_boxes + k;
    int label = batch.labels[at];
    boxes.push_back(Drawn(&batch.boxes[4 * at], label,
                          loader.dataset().categories[static_cast<size_t>(label)].name, false));
  }
  for (int k = 0; k < batch.ignore_counts[static_cast<size_t>(i)]; ++k) {
    boxes.push_back(Drawn(&batch.ignore_boxes[4 * (static_cast<size_t>(i) * batch.max_ignore + k)],
                          0, "crowd", true));
  }
  size_t s = static_cast<size_t>(i);
  const CocoImage& source = loader.dataset().images[static_cast<size_t>(batch.image_indices[s])];
  std::string caption = fmt::format("{} (image {}, {}x{}): {}x{} in {}x{}", source.file_name,
                                    source.id, batch.original_sizes[2 * s + 1],
                                    batch.original_sizes[2 * s], batch.image_sizes[2 * s + 1],
                                    batch.image_sizes[2 * s], batch.width, batch.height);
  if (batch.flips[s] & 1) caption += ", mirrored";
  if (batch.flips[s] & 2) caption += ", upside down";
  if (batch.left_out[s] != 0) caption += ", left out";
  return Figure(ImageOf(batch, i), boxes, caption, kWidth);
}

std::string SampleHtml(const ClassLoader& loader, const ClassBatch& batch, int i) {
  const auto s = static_cast<size_t>(i);
  const ImageList& list = loader.list();
  return Figure(ImageOf(batch, i), {},
                fmt::format("{}: {}{}", list.classes[static_cast<size_t>(batch.labels[s])],
                            list.files[static_cast<size_t>(batch.indices[s])],
                            batch.left_out[s] != 0 ? ", left out" : ""),
                kWidth);
}

template <typename AnyLoader, typename AnyBatch>
void AddSamples(AnyLoader* loader, AnyBatch batch, int images, uint32_t epoch, PreviewPage* page) {
  loader->StartEpoch(epoch);
  int number = 0;
  while (page->shown < images && loader->Next(&batch)) {
    page->html += fmt::format("<h2>Batch {}</h2>\n", number++);
    for (int i = 0; i < batch.n && page->shown < images; ++i, ++page->shown)
      page->html += SampleHtml(*loader, batch, i);
  }
  for (std::string& warning : loader->TakeWarnings()) page->warnings.push_back(std::move(warning));
}

// What loading the annotation file left out of it.
void AddDropped(const CocoDataset& dataset, PreviewPage* page) {
  constexpr int64_t kListed = 20;
  int64_t dropped = 0;
  for (const Problem& problem : dataset.problems) {
    if (!problem.dropped || ++dropped > kListed) continue;
    page->warnings.push_back(problem.where + ": " + problem.message + ": left out");
  }
  if (dropped > kListed) {
    page->warnings.push_back(
        fmt::format("{}: {} more records are left out; `exp data check` lists them", dataset.path,
                    dropped - kListed));
  }
}

PreviewPage Whole(PreviewPage page, const std::string& introduction) {
  for (const std::string& warning : page.warnings)
    page.html += "<p class=\"warning\">" + EscapeHtml(warning) + "</p>\n";
  page.html = Page("What the network sees", introduction + page.html);
  return page;
}

}  // namespace

PreviewPage Preview(Loader* loader, int images, uint32_t epoch) {
  PreviewPage page;
  AddDropped(loader->dataset(), &page);
  AddSamples(loader, Batch(), images, epoch, &page);
  const LoaderOptions& o = loader->options();
  std::string introduction =
      fmt::format("<p>Epoch {}, seed {}: {} of {} images, in batches of {}. Padded shapes:", epoch,
                  o.seed, page.shown, loader->images(), o.samples_per_gpu);
  for (const Bucket& b : loader->Buckets())
    introduction += fmt::format(" {}×{}×{}", b.n, b.width, b.height);
  introduction += "; at most " + std::to_string(loader->max_boxes()) + " boxes an image.</p>\n";
  return Whole(std::move(page), introduction);
}

PreviewPage Preview(ClassLoader* loader, int images, uint32_t epoch) {
  PreviewPage page;
  AddSamples(loader, ClassBatch(), images, epoch, &page);
  const ClassLoaderOptions& o = loader->options();
  const std::string introduction =
      fmt::format("<p>Epoch {}, seed {}: {} of {} images, in batches of {}.</p>\n", epoch, o.seed,
                  page.shown, loader->list().files.size(), o.samples_per_gpu);
  return Whole(std::move(page), introduction);
}

}  // namespace xp::data
