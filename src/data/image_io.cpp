#include "exp/data/image_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "exp/base/error.h"
#include "exp/base/file_kind.h"
#include "exp/base/printable.h"
#include "exp/base/system_advice.h"
#include "exp/data/jpeg.h"
#include "src/data/png_webp.h"

namespace xp::data {
namespace {

bool StartsWith(std::span<const uint8_t> bytes, std::string_view magic, size_t at = 0) {
  return bytes.size() >= at + magic.size() &&
         std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0;
}

[[noreturn]] void Unsupported(std::span<const uint8_t> bytes, const std::string& name) {
  ImageFormat format = DetectFormat(bytes);
  std::string other = OtherKind(bytes);
  std::string what = bytes.empty()    ? "the file is empty"
                     : !other.empty() ? "this is " + other
                     : format == ImageFormat::kUnknown
                         ? "not an image of a known format"
                         : fmt::format("{} images are not supported", FormatName(format));
  std::string advice = AdviceFor(other);
  if (advice.empty()) {
    const bool known = format != ImageFormat::kUnknown;
    advice = known ? "convert it to JPEG, PNG or WebP" : "replace the file";
  }
  throw UsageError(
      {.what = what, .where = name, .expected = "a JPEG, PNG or WebP image", .next = advice});
}

[[noreturn]] void CantRead(const std::string& path, const std::string& what,
                           const std::string& next) {
  throw UsageError(
      {.what = what, .where = Printable(path), .expected = "an image file", .next = next});
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string LowerEnding(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

}  // namespace

const char* FormatName(ImageFormat format) {
  static constexpr const char* kNames[] = {"unknown", "JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF"};
  return kNames[static_cast<int>(format)];
}

bool HasJpegEnding(const std::filesystem::path& path) {
  std::string ending = LowerEnding(path);
  return ending == ".jpg" || ending == ".jpeg";
}

bool HasImageEnding(const std::filesystem::path& path) {
  std::string ending = LowerEnding(path);
  return ending == ".png" || ending == ".webp" || HasJpegEnding(path);
}

bool HasOtherImageEnding(const std::filesystem::path& path) {
  static constexpr const char* kEndings[] = {".bmp",  ".gif",  ".tif", ".tiff", ".ppm",
                                             ".pgm",  ".jfif", ".jpe", ".avif", ".heic",
                                             ".heif", ".jp2",  ".jxl"};
  const std::string ending = LowerEnding(path);
  return std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings);
}

ImageFormat DetectFormat(std::span<const uint8_t> bytes) {
  using namespace std::string_view_literals;
  if (StartsWith(bytes, "\xFF\xD8\xFF"sv)) return ImageFormat::kJpeg;
  if (StartsWith(bytes, "\x89PNG\r\n\x1A\n"sv)) return ImageFormat::kPng;
  if (StartsWith(bytes, "RIFF"sv) && StartsWith(bytes, "WEBP"sv, 8)) return ImageFormat::kWebp;
  if (StartsWith(bytes, "GIF8"sv)) return ImageFormat::kGif;
  if (StartsWith(bytes, "BM"sv)) return ImageFormat::kBmp;
  if (StartsWith(bytes, "II*\0"sv) || StartsWith(bytes, "MM\0*"sv)) return ImageFormat::kTiff;
  return ImageFormat::kUnknown;
}

ImageInfo ReadImageInfo(std::span<const uint8_t> bytes, const std::string& name) {
  switch (DetectFormat(bytes)) {
    case ImageFormat::kJpeg: {
      JpegInfo jpeg = ReadJpegInfo(bytes, name);
      ImageInfo info;
      info.format = ImageFormat::kJpeg;
      info.width = jpeg.width;
      info.height = jpeg.height;
      info.channels = jpeg.components;
      info.orientation = jpeg.orientation;
      info.progressive = jpeg.progressive;
      info.cmyk = jpeg.components == 4;
      return info;
    }
    case ImageFormat::kPng:
      return ReadPng(bytes, name, nullptr);
    case ImageFormat::kWebp:
      return ReadWebp(bytes, name, nullptr);
    default:
      Unsupported(bytes, name);
  }
}

void DecodeImage(std::span<const uint8_t> bytes, const std::string& name, bool apply_orientation,
                 RgbImage* out) {
  ImageInfo info;
  switch (DetectFormat(bytes)) {
    case ImageFormat::kJpeg:
      DecodeJpeg(bytes, name, {.apply_orientation = apply_orientation}, out);
      return;
    case ImageFormat::kPng:
      info = ReadPng(bytes, name, out);
      break;
    case ImageFormat::kWebp:
      info = ReadWebp(bytes, name, out);
      break;
    default:
      Unsupported(bytes, name);
  }
  if (apply_orientation) ApplyOrientation(info.orientation, out);
}

std::string ReadImageFile(const std::string& path) {
  constexpr int64_t kLargest = int64_t{2} << 30;
  if (path.find('\0') != std::string::npos)
    CantRead(path, "the name holds a NUL character", "mend the name");
  // Without O_NONBLOCK a pipe would be waited for here already.
  Descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (d.fd < 0 || ::fstat(d.fd, &status) != 0)
    CantRead(path, std::string("can't be opened: ") + std::strerror(errno), ReadAdvice(errno));
  if (S_ISDIR(status.st_mode)) CantRead(path, "is a folder", ReadAdvice(EISDIR));
  if (!S_ISREG(status.st_mode)) CantRead(path, "is not a regular file", "check the path");
  if (status.st_size > kLargest)
    CantRead(path, "is over 2 GiB: no image is that large", "check the path");
  std::string content(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    ssize_t n = ::read(d.fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      CantRead(path, std::string("can't be read: ") + std::strerror(errno), ReadAdvice(errno));
    if (n == 0) break;  // it shrank meanwhile
    done += static_cast<size_t>(n);
  }
  content.resize(done);
  return content;
}

RgbImage ReadImage(const std::string& path, bool apply_orientation) {
  std::string bytes = ReadImageFile(path);
  RgbImage image;
  DecodeImage({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path,
              apply_orientation, &image);
  return image;
}

}  // namespace xp::data
