#include "exp/data/jpeg.h"

#include <csetjmp>
#include <cstdio>  // jpeglib.h needs FILE

#include <fmt/format.h>
#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "exp/base/error.h"
#include "exp/data/image_io.h"
#include "src/data/exif.h"
#include "src/data/png_webp.h"

namespace xp::data {
namespace {

// A progressive file with thousands of scans over a large image takes minutes; encoders write about
// ten.
constexpr int kMaxScans = 200;

// Everything libjpeg calls back. It must stay free of C++ objects on the way of a longjmp, so what
// goes wrong is written into a fixed buffer.
struct Context {
  jpeg_error_mgr error;
  jpeg_progress_mgr progress;
  jpeg_source_mgr source;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  bool hit_end;         // asked for more bytes than there are
  unsigned components;  // a bit for each that a scan of several held
};

Context* Of(j_common_ptr info) { return static_cast<Context*>(info->client_data); }

[[noreturn]] void Stop(j_common_ptr info, const char* message) {
  std::snprintf(Of(info)->message, sizeof(Of(info)->message), "%s", message);
  std::longjmp(Of(info)->jump, 1);
}

[[noreturn]] void OnError(j_common_ptr info) {
  info->err->format_message(info, Of(info)->message);
  std::longjmp(Of(info)->jump, 1);
}

// Warnings (level -1) mean that the pixels are a guess, but for stray bytes between markers and
// numbers in headers that nothing depends on.
void OnMessage(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  const bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
                        code == JWRN_JFIF_MAJOR || code == JWRN_NOT_SEQUENTIAL;
  if (level < 0 && !harmless) OnError(info);
}

void OnProgress(j_common_ptr info) {
  auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number > kMaxScans) {
    Stop(info, "more progressive scans than any encoder writes");
  }
  for (int i = 0; i < decompress->comps_in_scan; ++i)
    Of(info)->components |= 1u << decompress->cur_comp_info[i]->component_index;
}

// Whether scans are missing, of a file that has several: without its last marker nobody knows, and
// with it libjpeg takes zeros for a component that no scan holds. Nor does libjpeg say that
// arithmetic coding came to its end too early: it goes on with zeros.
void RequireWhole(jpeg_decompress_struct* info, const Context& context) {
  const bool several = jpeg_has_multiple_scans(info) != 0;
  if (!several && !info->arith_code) return;
  auto* common = reinterpret_cast<j_common_ptr>(info);
  if (context.hit_end) Stop(common, "the file is truncated");
  if (several && context.components != (1u << info->num_components) - 1)
    Stop(common, "a colour component is missing");
}

void NoOp(j_decompress_ptr) {}

boolean OnEmpty(j_decompress_ptr info) {
  static const JOCTET kEnd[2] = {0xFF, JPEG_EOI};
  Of(reinterpret_cast<j_common_ptr>(info))->hit_end = true;
  info->src->next_input_byte = kEnd;
  info->src->bytes_in_buffer = 2;
  return TRUE;
}

void OnSkip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  size_t skipped = std::min(static_cast<size_t>(count), info->src->bytes_in_buffer);
  info->src->next_input_byte += skipped;
  info->src->bytes_in_buffer -= skipped;
}

void SetUp(jpeg_decompress_struct* info, Context* context) {
  std::memset(info, 0, sizeof(*info));
  std::memset(static_cast<void*>(context), 0, sizeof(*context));
  info->err = jpeg_std_error(&context->error);
  context->error.error_exit = OnError;
  context->error.emit_message = OnMessage;
  info->client_data = context;
}

// Called after setjmp, since it may jump.
void Open(jpeg_decompress_struct* info, Context* context, std::span<const uint8_t> bytes) {
  jpeg_create_decompress(info);  // clears all but err and client_data
  context->source.init_source = NoOp;
  context->source.fill_input_buffer = OnEmpty;
  context->source.skip_input_data = OnSkip;
  context->source.resync_to_restart = jpeg_resync_to_restart;
  context->source.term_source = NoOp;
  context->source.next_input_byte = bytes.data();
  context->source.bytes_in_buffer = bytes.size();
  info->src = &context->source;
  context->progress.progress_monitor = OnProgress;
  info->progress = &context->progress;
  jpeg_save_markers(info, JPEG_APP0 + 1, 0xFFFF);
  jpeg_read_header(info, TRUE);
  if (static_cast<int64_t>(info->image_width) * info->image_height > kMaxPixels) {
    Stop(reinterpret_cast<j_common_ptr>(info), "more pixels than the limit of 178,956,970");
  }
}

int Orientation(const jpeg_decompress_struct& info) {
  constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
  int from_xmp = 0;
  for (jpeg_saved_marker_ptr m = info.marker_list; m != nullptr; m = m->next) {
    if (m->marker != JPEG_APP0 + 1) continue;
    std::span<const uint8_t> data(m->data, m->data_length);
    if (int orientation = ExifOrientation(data)) return orientation;
    bool xmp =
        data.size() >= kXmp.size() && std::memcmp(data.data(), kXmp.data(), kXmp.size()) == 0;
    if (xmp && from_xmp == 0) from_xmp = XmpOrientation(data);
  }
  return from_xmp != 0 ? from_xmp : 1;
}

void FillInfo(const jpeg_decompress_struct& info, JpegInfo* out) {
  out->width = static_cast<int>(info.image_width);
  out->height = static_cast<int>(info.image_height);
  out->components = info.num_components;
  out->progressive = info.progressive_mode != 0;
  out->orientation = Orientation(info);
}

// CMYK as Adobe writes it (inverted, 255 is no ink) to RGB, as Pillow does.
void CmykRow(const uint8_t* in, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x) {
    int k = in[4 * x + 3];
    for (int c = 0; c < 3; ++c) {
      int t = in[4 * x + c] * k + 128;
      out[3 * x + c] = static_cast<uint8_t>(((t >> 8) + t) >> 8);
    }
  }
}

// What to decode. With a region, the scale is chosen and `placed` says what came out.
struct Wanted {
  int scale = 8;
  const JpegRegion* region = nullptr;
  int min_width = 1, min_height = 1;
  DecodedRegion* placed = nullptr;
};

// The smallest scale that libjpeg has fast code for at which the region keeps the size asked for.
int ChooseScale(const Wanted& wanted) {
  if (wanted.region == nullptr) return wanted.scale;
  for (int scale : {1, 2, 4}) {
    if (wanted.region->width * scale / 8 >= wanted.min_width &&
        wanted.region->height * scale / 8 >= wanted.min_height) {
      return scale;
    }
  }
  return 8;
}

// Narrows the output to the region and skips the rows above it; returns the rows to read. Chroma is
// interpolated between neighbours, hence a margin.
int NarrowToRegion(jpeg_decompress_struct* info, const Wanted& wanted) {
  constexpr int kMargin = 2;
  const JpegRegion& r = *wanted.region;
  int scale = static_cast<int>(info->scale_num);
  int width = static_cast<int>(info->output_width), height = static_cast<int>(info->output_height);
  int x1 = std::clamp(r.x * scale / 8 - kMargin, 0, width - 1);
  int y1 = std::clamp(r.y * scale / 8 - kMargin, 0, height - 1);
  int x2 = std::clamp(((r.x + r.width) * scale + 7) / 8 + kMargin, x1 + 1, width);
  int y2 = std::clamp(((r.y + r.height) * scale + 7) / 8 + kMargin, y1 + 1, height);
  JDIMENSION offset = static_cast<JDIMENSION>(x1), count = static_cast<JDIMENSION>(x2 - x1);
  if (x1 > 0 || x2 < width) jpeg_crop_scanline(info, &offset, &count);
  if (y1 > 0) jpeg_skip_scanlines(info, static_cast<JDIMENSION>(y1));
  *wanted.placed = {scale, static_cast<int>(offset), y1};
  return y2 - y1;
}

// The part of decoding that libjpeg may jump out of. Returns false with context->message set.
// Objects with destructors live in the callers, so none is jumped over.
bool DecodePixels(jpeg_decompress_struct* info, Context* context, std::span<const uint8_t> bytes,
                  const Wanted& wanted, JpegInfo* header, RgbImage* out,
                  std::vector<uint8_t>* row) {
  if (setjmp(context->jump) != 0) return false;
  Open(info, context, bytes);
  FillInfo(*info, header);
  bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
  info->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info->dct_method = JDCT_ISLOW;
  info->do_fancy_upsampling = TRUE;
  info->scale_num = static_cast<unsigned>(ChooseScale(wanted));
  info->scale_denom = 8;
  jpeg_start_decompress(info);
  int rows = wanted.region == nullptr ? static_cast<int>(info->output_height)
                                      : NarrowToRegion(info, wanted);
  out->Reset(static_cast<int>(info->output_width), rows);
  if (cmyk) row->resize(static_cast<size_t>(out->width) * 4);
  for (int y = 0; y < rows; ++y) {
    JSAMPROW line = cmyk ? row->data() : out->Row(y);
    jpeg_read_scanlines(info, &line, 1);
    if (cmyk) CmykRow(row->data(), out->width, out->Row(y));
  }
  RequireWhole(info, *context);
  return true;
}

bool ReadHeader(jpeg_decompress_struct* info, Context* context, std::span<const uint8_t> bytes,
                JpegInfo* header) {
  if (setjmp(context->jump) != 0) return false;
  Open(info, context, bytes);
  FillInfo(*info, header);
  return true;
}

[[noreturn]] void Throw(const Context& context, std::span<const uint8_t> bytes,
                        const std::string& name) {
  if (bytes.empty()) {
    throw UsageError({.what = "the file is empty",
                      .where = name,
                      .expected = "a JPEG image",
                      .next = "replace the file"});
  }
  const bool cut = context.hit_end;  // whatever libjpeg makes of what stands in for the rest
  if (!cut && std::string_view(context.message).starts_with("Unsupported")) {
    throw UsageError({.what = fmt::format("can't be decoded as a JPEG: {}", context.message),
                      .where = name,
                      .expected = "a baseline or progressive JPEG of 8 bits",
                      .next = "convert it to such a JPEG, or to PNG"});
  }
  throw UsageError({.what = fmt::format("can't be decoded as a JPEG: {}",
                                        cut ? "the file is truncated" : context.message),
                    .where = name,
                    .expected = "a complete JPEG image",
                    .next = "replace the file"});
}

// jpeg_destroy after every outcome; info is zeroed before, so it may be called at any time.
struct Destroy {
  jpeg_decompress_struct* info;
  ~Destroy() { jpeg_destroy_decompress(info); }
};

bool CompressPixels(jpeg_compress_struct* info, Context* context, const RgbImage& image,
                    int quality, unsigned char** bytes, unsigned long* size) {
  if (setjmp(context->jump) != 0) return false;
  jpeg_create_compress(info);
  jpeg_mem_dest(info, bytes, size);
  info->image_width = static_cast<JDIMENSION>(image.width);
  info->image_height = static_cast<JDIMENSION>(image.height);
  info->input_components = 3;
  info->in_color_space = JCS_RGB;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, quality, TRUE);
  info->dct_method = JDCT_ISLOW;
  jpeg_start_compress(info, TRUE);
  while (info->next_scanline < info->image_height) {
    JSAMPROW line = const_cast<JSAMPROW>(image.Row(static_cast<int>(info->next_scanline)));
    jpeg_write_scanlines(info, &line, 1);
  }
  jpeg_finish_compress(info);
  return true;
}

}  // namespace

JpegInfo ReadJpegInfo(std::span<const uint8_t> bytes, const std::string& name) {
  jpeg_decompress_struct info;
  Context context;
  SetUp(&info, &context);
  Destroy destroy{&info};
  JpegInfo header;
  if (!ReadHeader(&info, &context, bytes, &header)) Throw(context, bytes, name);
  return header;
}

void DecodeJpeg(std::span<const uint8_t> bytes, const std::string& name,
                const JpegDecodeOptions& options, RgbImage* out) {
  jpeg_decompress_struct info;
  Context context;
  SetUp(&info, &context);
  Destroy destroy{&info};
  JpegInfo header;
  std::vector<uint8_t> row;
  Wanted wanted;
  wanted.scale = std::clamp(options.scale, 1, 8);
  if (!DecodePixels(&info, &context, bytes, wanted, &header, out, &row))
    Throw(context, bytes, name);
  if (options.apply_orientation) ApplyOrientation(header.orientation, out);
}

DecodedRegion DecodeJpegRegion(std::span<const uint8_t> bytes, const std::string& name,
                               const JpegRegion& region, int min_width, int min_height,
                               RgbImage* out) {
  jpeg_decompress_struct info;
  Context context;
  SetUp(&info, &context);
  Destroy destroy{&info};
  JpegInfo header;
  std::vector<uint8_t> row;
  DecodedRegion placed;
  Wanted wanted{8, &region, min_width, min_height, &placed};
  if (!DecodePixels(&info, &context, bytes, wanted, &header, out, &row))
    Throw(context, bytes, name);
  return placed;
}

RgbImage ReadJpeg(const std::string& path, const JpegDecodeOptions& options) {
  std::string bytes = ReadImageFile(path);
  RgbImage image;
  DecodeJpeg({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path, options, &image);
  return image;
}

std::string EncodeJpeg(const RgbImage& image, int quality) {
  jpeg_compress_struct info;
  Context context;
  std::memset(&info, 0, sizeof(info));
  std::memset(static_cast<void*>(&context), 0, sizeof(context));
  info.err = jpeg_std_error(&context.error);
  context.error.error_exit = OnError;
  info.client_data = &context;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  bool done = CompressPixels(&info, &context, image, quality, &bytes, &size);
  std::string out;
  if (done) out.assign(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  if (!done)
    throw JobError(
        {.what = fmt::format("an image can't be encoded as a JPEG: {}", context.message)});
  return out;
}

void ApplyOrientation(int orientation, RgbImage* image) {
  if (orientation < 2 || orientation > 8) return;
  int w = image->width, h = image->height;
  RgbImage turned;
  bool swap = orientation >= 5;
  turned.Reset(swap ? h : w, swap ? w : h);
  for (int y = 0; y < turned.height; ++y) {
    uint8_t* out = turned.Row(y);
    for (int x = 0; x < turned.width; ++x, out += 3) {
      // Where the pixel (x, y) of the upright image lies in the stored one.
      int sx = swap ? y : x, sy = swap ? x : y;
      if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        sx = w - 1 - sx;
      if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        sy = h - 1 - sy;
      std::memcpy(out, image->Row(sy) + 3 * static_cast<size_t>(sx), 3);
    }
  }
  *image = std::move(turned);
}

}  // namespace xp::data
