#include "src/data/audit_content.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "exp/base/error.h"
#include "exp/base/parallel.h"
#include "exp/data/image_io.h"
#include "src/data/name_hint.h"
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
  FileChecker(const CocoImage& image, const std::string& prefix, const AuditOptions& options,
              std::atomic<int>* looks, FileCheck* out)
      : image_(image),
        prefix_(prefix),
        path_(ImagePath(prefix, image.file_name)),
        options_(options),
        looks_(looks),
        out_(out) {}

  void Run() {
    std::error_code error, ignored;
    namespace fs = std::filesystem;
    fs::file_status status = fs::status(path_, error);
    if (!fs::is_regular_file(status)) {
      std::string why = fs::is_directory(status) ? "is a folder"
                        : fs::exists(status)     ? "is not a regular file"
                        : fs::is_symlink(fs::symlink_status(path_, ignored))
                            ? "is a symbolic link that leads nowhere: " + error.message()
                            : error.message() + NameHint(prefix_, image_.file_name, looks_);
      Report("image.missing", path_ + ": " + why);
      return;
    }
    auto bytes = fs::file_size(path_, error);
    out_->bytes = error ? 0 : static_cast<int64_t>(bytes);
    if (!options_.contents) {
      if (::access(path_.c_str(), R_OK) != 0)
        Report("image.unreadable", path_ + ": can't be opened: " + std::strerror(errno));
      return;
    }
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
    std::string file = ReadImageFile(path_);
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
  const std::string& prefix_;
  const std::string path_;
  const AuditOptions& options_;
  std::atomic<int>* looks_;  // see NameHint
  FileCheck* out_;
};

}  // namespace

std::vector<FileCheck> CheckFiles(const AuditPart& part, const AuditOptions& options) {
  const std::vector<CocoImage>& images = part.dataset->images;
  std::vector<FileCheck> checks(images.size());
  std::atomic<int> looks{20};
  ForEachInParallel(
      images.size(), options.threads,
      [&](size_t i) { FileChecker(images[i], part.img_prefix, options, &looks, &checks[i]).Run(); },
      options.progress);
  return checks;
}

}  // namespace xp::data
