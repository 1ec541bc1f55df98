#include "exp/data/preview.h"
#include "exp/base/escape.h"

#include <fmt/format.h>

#include <cstring>

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
std::string SamplesHtml(AnyLoader* loader, AnyBatch batch, int images, uint32_t epoch) {
  std::string body;
  loader->StartEpoch(epoch);
  int shown = 0, number = 0;
  while (shown < images && loader->Next(&batch)) {
    body += fmt::format("<h2>Batch {}</h2>\n", number++);
    for (int i = 0; i < batch.n && shown < images; ++i, ++shown)
      body += SampleHtml(*loader, batch, i);
  }
  for (const std::string& warning : loader->TakeWarnings())
    body += "<p class=\"warning\">" + EscapeHtml(warning) + "</p>\n";
  return body;
}

}  // namespace

std::string PreviewHtml(Loader* loader, int images, uint32_t epoch) {
  const LoaderOptions& o = loader->options();
  std::string body =
      fmt::format("<p>Epoch {}, seed {}: {} of {} images, in batches of {}. Padded shapes:", epoch,
                  o.seed, images, loader->images(), o.samples_per_gpu);
  for (const Bucket& b : loader->Buckets())
    body += fmt::format(" {}×{}×{}", b.n, b.width, b.height);
  body += "; at most " + std::to_string(loader->max_boxes()) + " boxes an image.</p>\n";
  return Page("What the network sees", body + SamplesHtml(loader, Batch(), images, epoch));
}

std::string PreviewHtml(ClassLoader* loader, int images, uint32_t epoch) {
  const ClassLoaderOptions& o = loader->options();
  std::string body =
      fmt::format("<p>Epoch {}, seed {}: {} of {} images, in batches of {}.</p>\n", epoch, o.seed,
                  images, loader->list().files.size(), o.samples_per_gpu);
  return Page("What the network sees", body + SamplesHtml(loader, ClassBatch(), images, epoch));
}

}  // namespace xp::data
