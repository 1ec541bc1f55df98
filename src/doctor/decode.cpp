// JPEG decoding, and what the loader can feed.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/parallel.h"
#include "exp/base/resources.h"
#include "exp/base/stopwatch.h"
#include "exp/bench/photos.h"
#include "exp/data/jpeg.h"
#include "exp/doctor/measure.h"

namespace fs = std::filesystem;

namespace xp::doctor {
namespace {

constexpr double kBytesOfPixel = 6;  // decoded, and what a progressive JPEG needs besides

std::span<const uint8_t> Span(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// Images a second of `threads` threads.
double Decode(const std::vector<std::string>& images, int threads, double seconds, StopFlag stop) {
  std::atomic<int64_t> count{0};
  Stopwatch watch;
  OnThreads(threads, [&](int t) {
    data::RgbImage out;
    for (size_t i = static_cast<size_t>(t); watch.Seconds() < seconds && !Stopped(stop); ++i) {
      data::DecodeJpeg(Span(images[i % images.size()]), "image", {}, &out);
      ++count;
    }
  });
  return static_cast<double>(count) / watch.Seconds();
}

}  // namespace

DecodeSpeed MeasureDecode(const std::vector<std::string>& paths, double seconds, StopFlag stop) {
  DecodeSpeed out;
  std::vector<std::string> images;
  data::RgbImage decoded;
  double pixels = 0, bytes = 0, largest = 0;
  // A fifth for the files, half for the decoded images of all threads.
  const auto room = static_cast<double>(UsableMemory().free_bytes);
  auto take = [&](std::string image) {
    try {
      data::DecodeJpeg(Span(image), "image", {}, &decoded);
    } catch (const Error&) {
      return;  // a damaged one is `exp data check`'s matter
    }
    double its = static_cast<double>(decoded.width) * decoded.height;
    largest = std::max(largest, its);
    pixels += its;
    bytes += static_cast<double>(image.size());
    images.push_back(std::move(image));
  };
  size_t tried = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    if (bytes + static_cast<double>(fs::file_size(path, error)) > room / 5 || Stopped(stop)) break;
    ++tried;
    try {
      take(ReadFile(path));
    } catch (const Error&) {
      continue;
    }
  }
  if (images.size() < tried) {
    out.problem =
        fmt::format("of {} JPEGs of the folder {} could be decoded", tried, images.size());
  }
  constexpr size_t kFewest = 8;
  if (images.size() < kFewest) {
    images.clear();
    pixels = bytes = largest = 0;
    out.drawn = true;
    for (std::string& photo : bench::DrawPhotos(8)) take(std::move(photo));
  }
  out.threads = static_cast<int>(
      std::clamp(room / 2 / (kBytesOfPixel * largest), 1.0, static_cast<double>(UsableCpus())));
  out.megapixels = pixels / static_cast<double>(images.size()) / 1e6;
  out.kilobytes = bytes / static_cast<double>(images.size()) / 1024;
  out.images_a_second_core = Decode(images, 1, seconds, stop);
  out.images_a_second_all =
      out.threads == 1 ? out.images_a_second_core : Decode(images, out.threads, seconds, stop);
  return out;
}

double ResNetNeed(double copy_bytes_a_second, double matrix_flop_a_second, bool cuda) {
  constexpr double kFlop = 24.3e9;
  const double bytes = cuda ? 257e6 : 629e6;
  if (copy_bytes_a_second <= 0 || matrix_flop_a_second <= 0) return 0;
  double moving = bytes / (0.9 * copy_bytes_a_second),
         computing = kFlop / (0.7 * matrix_flop_a_second);
  // A GPU does one while it waits for the other; a CPU's cores do one after the other.
  return 1 / (cuda ? std::max(moving, computing) : moving + computing);
}

Findings JudgeLoader(const ReadSpeed& reads, const DecodeSpeed& decode,
                     double needed_images_a_second) {
  Finding d{.id = "decode", .group = "speed"};
  d.found = fmt::format(
      "{:.0f} JPEG/s a core, {:.0f}/s on {} threads ({} of {:.2f} megapixels, "
      "{:.0f} KiB)",
      decode.images_a_second_core, decode.images_a_second_all, decode.threads,
      decode.drawn ? "drawn images" : "images of the folder", decode.megapixels, decode.kilobytes);
  d.needed = "30 megapixels/s a core";
  d.numbers = {{"images_s_core", decode.images_a_second_core},
               {"images_s", decode.images_a_second_all}};
  // Both may be so, and both are told.
  auto warn = [&d](const std::string& why, const std::string& fix) {
    d.level = Level::kWarning;
    d.why += (d.why.empty() ? "" : "; ") + why;
    d.fix += (d.fix.empty() ? "" : "; ") + fix;
  };
  if (!decode.problem.empty()) {
    d.found += "; " + decode.problem;
    warn("what can't be decoded can't be trained on",
         "`exp data check` names each and says what is wrong with it");
  }
  if (decode.images_a_second_core * decode.megapixels < 30) {
    warn("decoding is slow for a CPU of the last ten years",
         "see the rows on the CPU (governor, limits), and whether something else runs");
  }
  Finding loader{.id = "loader", .group = "speed"};
  double feed = decode.images_a_second_all;
  bool disk = reads.small_files_a_second > 0 && reads.small_files_a_second < feed;
  if (disk) feed = reads.small_files_a_second;
  loader.found = fmt::format("can feed about {:.0f} img/s, bounded by {}", feed,
                             disk ? "the disk" : "decoding");
  loader.numbers = {{"images_s", feed}, {"needed_images_s", needed_images_a_second}};
  if (needed_images_a_second <= 0) return {d, loader};
  int digits = needed_images_a_second < 10 ? 1 : 0;
  loader.found +=
      fmt::format("; ResNet-50 could take {:.{}f} here", needed_images_a_second, digits);
  loader.needed =
      fmt::format("{:.{}f} img/s: what ResNet-50 could take here by the measured speeds",
                  needed_images_a_second, digits);
  if (feed < needed_images_a_second) {
    loader.level = Level::kWarning;
    loader.why = fmt::format(
        "on small networks the device waits {:.0f} % of the time; detectors "
        "take far fewer images a second",
        100 * (1 - feed / needed_images_a_second));
    loader.fix = disk ? "copy the images to a faster disk"
                      : "more cores, smaller JPEGs (shrink them once to what is trained on), and "
                        "data.workers_per_gpu as many as cores";
  }
  return {d, loader};
}

}  // namespace xp::doctor
