#include "src/data/audit_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <filesystem>
#include <mutex>
#include <thread>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/data/image_io.h"
#include "src/data/sample.h"

namespace xp::data {
namespace {

// Whether the last bytes are the end that a complete file of this format has. When not, the file is
// decoded to know: some writers append to a complete image.
bool EndsWell(std::span<const uint8_t> bytes, ImageFormat format) {
  size_t n = bytes.size();
  if (format == ImageFormat::kJpeg) return n > 2 && bytes[n - 2] == 0xFF && bytes[n - 1] == 0xD9;
  if (format == ImageFormat::kPng)
    return n > 8 && bytes[n - 8] == 'I' && bytes[n - 7] == 'E' && bytes[n - 6] == 'N' &&
           bytes[n - 5] == 'D';
  if (format == ImageFormat::kWebp) {
    size_t size = bytes[4] | bytes[5] << 8 | bytes[6] << 16 | static_cast<size_t>(bytes[7]) << 24;
    return n >= size + 8;
  }
  return false;
}

std::string ExpectedEnding(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return ".jpg .jpeg .jpe .jfif";
    case ImageFormat::kPng:
      return ".png";
    default:
      return ".webp";
  }
}

class FileChecker {
 public:
  FileChecker(const CocoImage& image, const std::string& path, const AuditOptions& options,
              FileCheck* out)
      : image_(image), path_(path), options_(options), out_(out) {}

  void Run() {
    std::error_code error;
    auto bytes = std::filesystem::file_size(path_, error);
    if (error) {
      Report("image.missing", path_ + ": " + error.message());
      return;
    }
    out_->bytes = static_cast<int64_t>(bytes);
    if (!options_.contents) return;
    try {
      ReadContent();
    } catch (const Error& e) {
      Report("image.unreadable", fmt::format("{}: {}", e.text().where, e.text().what));
    } catch (const std::exception& e) {
      Report("image.unreadable", fmt::format("{}: {}", path_, e.what()));
    }
  }

 private:
  void Report(const char* code, std::string message) {
    out_->problems.push_back({code, std::move(message), path_, image_.id, -1, false});
  }

  void ReadContent() {
    std::string file = ReadFile(path_);
    std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(file.data()), file.size());
    out_->hash = HashBytes(file);
    ImageInfo info = ReadImageInfo(bytes, path_);
    out_->format = FormatName(info.format);
    Describe(info);
    CompareSize(info);
    if (!options_.decode && EndsWell(bytes, info.format)) return;
    thread_local RgbImage image;
    DecodeImage(bytes, path_, false, &image);
  }

  void Describe(const ImageInfo& info) {
    if (info.orientation != 1)
      Report("image.rotated", fmt::format("{}: EXIF orientation {}", path_, info.orientation));
    if (info.channels <= 2) Report("image.grey", path_ + ": grey");
    if (info.cmyk) Report("image.cmyk", path_ + ": CMYK");
    if (info.alpha) Report("image.alpha", path_ + ": has an alpha channel");
    if (info.bit_depth > 8)
      Report("image.depth", fmt::format("{}: {} bits a sample", path_, info.bit_depth));
    if (info.progressive) Report("image.progressive", path_ + ": progressive JPEG");
    std::string ending = std::filesystem::path(path_).extension().string();
    std::transform(ending.begin(), ending.end(), ending.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (ending.empty() || ExpectedEnding(info.format).find(ending) == std::string::npos) {
      Report("image.extension", fmt::format("{}: is a {}", path_, FormatName(info.format)));
    }
  }

  void CompareSize(const ImageInfo& info) {
    Size expected{image_.width, image_.height};
    if (expected == Size{} || info.upright() == expected ||
        Size{info.width, info.height} == expected)
      return;
    Report("image.size_differs",
           fmt::format("{}: is {}x{}, the annotation file says {}x{}", path_, info.upright().width,
                       info.upright().height, expected.width, expected.height));
  }

  const CocoImage& image_;
  const std::string& path_;
  const AuditOptions& options_;
  FileCheck* out_;
};

}  // namespace

std::vector<FileCheck> CheckFiles(const AuditPart& part, const AuditOptions& options) {
  const std::vector<CocoImage>& images = part.dataset->images;
  std::vector<FileCheck> checks(images.size());
  std::atomic<size_t> next{0};
  std::mutex progress_mutex;
  int64_t done = 0;
  auto work = [&] {
    for (size_t i = next++; i < images.size(); i = next++) {
      std::string path = ImagePath(part.img_prefix, images[i].file_name);
      FileChecker(images[i], path, options, &checks[i]).Run();
      std::lock_guard lock(progress_mutex);
      ++done;
      if (options.progress) options.progress(done, static_cast<int64_t>(images.size()));
    }
  };
  int threads = options.threads > 0
                    ? options.threads
                    : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  return checks;
}

}  // namespace xp::data
