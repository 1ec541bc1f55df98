#include <csetjmp>

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "exp/base/error.h"
#include "src/data/exif.h"
#include "src/data/png_webp.h"

namespace xp::data {
namespace {

struct Context {
  const uint8_t* at;
  size_t left;
  char message[200];
};

void OnRead(png_structp png, png_bytep out, png_size_t count) {
  Context* context = static_cast<Context*>(png_get_io_ptr(png));
  if (count > context->left) png_error(png, "the file is truncated");
  std::memcpy(out, context->at, count);
  context->at += count;
  context->left -= count;
}

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  Context* context = static_cast<Context*>(png_get_error_ptr(png));
  std::snprintf(context->message, sizeof(context->message), "%s", message);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void FillInfo(png_structp png, png_infop info, ImageInfo* out) {
  out->format = ImageFormat::kPng;
  out->width = static_cast<int>(png_get_image_width(png, info));
  out->height = static_cast<int>(png_get_image_height(png, info));
  out->bit_depth = png_get_bit_depth(png, info);
  int colour = png_get_color_type(png, info);
  out->alpha = (colour & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  out->channels = ((colour & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + (out->alpha ? 1 : 0);
}

constexpr std::string_view kXmpName = "XML:com.adobe.xmp";

// Of the texts before the pixels, which may be compressed; 0: none says it.
int TextOrientation(png_structp png, png_infop info) {
  png_textp texts = nullptr;
  int count = 0, from_xmp = 0;
  png_get_text(png, info, &texts, &count);
  for (int i = 0; i < count; ++i) {
    const std::string_view name = texts[i].key;
    const std::string_view text = texts[i].text == nullptr ? "" : texts[i].text;
    if (name == "Raw profile type exif" || name == "Raw profile type APP1") {
      if (int orientation = RawProfileOrientation(text)) return orientation;
    }
    if (name == kXmpName && from_xmp == 0)
      from_xmp = XmpOrientation({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  return from_xmp;
}

// Of the eXIf chunk, or of the XMP among the texts; either may stand behind the pixels; `from_text`
// comes between the two. Chunks: a big-endian size, a four-letter name, the data, a checksum.
// Source: PNG (third edition), 5.3.
int Orientation(std::span<const uint8_t> bytes, int from_text) {
  constexpr size_t kSignature = 8, kAround = 12;
  const std::string kXmp = std::string(kXmpName) + std::string(2, '\0');  // and: not compressed
  int from_xmp = from_text;
  size_t at = kSignature;
  while (at + kAround <= bytes.size()) {
    size_t size = static_cast<size_t>(bytes[at]) << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 |
                  bytes[at + 3];
    if (size > bytes.size() - at - kAround) break;
    std::span<const uint8_t> data = bytes.subspan(at + 8, size);
    if (std::memcmp(&bytes[at + 4], "eXIf", 4) == 0) {
      if (int orientation = ExifOrientation(data)) return orientation;
    }
    bool xmp = std::memcmp(&bytes[at + 4], "iTXt", 4) == 0 && size > kXmp.size() &&
               std::memcmp(data.data(), kXmp.data(), kXmp.size()) == 0;
    if (xmp && from_xmp == 0) from_xmp = XmpOrientation(data);
    at += kAround + size;
  }
  return from_xmp != 0 ? from_xmp : 1;
}

// What libpng may jump out of; objects with destructors live in the caller.
bool Read(png_structp png, png_infop info, ImageInfo* header, RgbImage* out,
          std::vector<png_bytep>* rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_user_limits(png, 1000000, 1000000);
  png_read_info(png, info);
  FillInfo(png, info, header);
  if (static_cast<int64_t>(header->width) * header->height > kMaxPixels) {
    png_error(png, "more pixels than the limit of 178,956,970");
  }
  if (out == nullptr) return true;
  png_set_strip_16(png);
  png_set_expand(png);  // palettes, and grey of fewer bits
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  out->Reset(header->width, header->height);
  if (png_get_rowbytes(png, info) != static_cast<size_t>(header->width) * 3)
    png_error(png, "an unknown layout");
  rows->resize(static_cast<size_t>(header->height));
  for (int y = 0; y < header->height; ++y) (*rows)[static_cast<size_t>(y)] = out->Row(y);
  png_read_image(png, rows->data());  // what comes behind the pixels, they don't need
  return true;
}

}  // namespace

ImageInfo ReadPng(std::span<const uint8_t> bytes, const std::string& name, RgbImage* out) {
  Context context{bytes.data(), bytes.size(), ""};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &context, OnError, OnWarning);
  if (png == nullptr) throw JobError({.what = "libpng can't be started", .where = name});
  png_infop info = png_create_info_struct(png);
  png_set_read_fn(png, &context, OnRead);
  ImageInfo header;
  std::vector<png_bytep> rows;
  bool good = info != nullptr && Read(png, info, &header, out, &rows);
  if (good) header.orientation = Orientation(bytes, TextOrientation(png, info));
  png_destroy_read_struct(&png, &info, nullptr);
  if (!good) {
    throw UsageError({.what = fmt::format("can't be decoded as a PNG: {}", context.message),
                      .where = name,
                      .expected = "a complete PNG image",
                      .next = "replace the file"});
  }
  return header;
}

}  // namespace xp::data
