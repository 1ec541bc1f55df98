#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/philox.h"
#include "exp/data/image_io.h"
#include "exp/data/jpeg.h"
#include "exp/data/resize.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::ReadPpm;

namespace {

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

RgbImage Noise(int width, int height, uint32_t seed) {
  RandomStream stream(seed, RandomPurpose::kTest, 0, 0);
  RgbImage image;
  image.Reset(width, height);
  for (uint8_t& p : image.pixels) p = static_cast<uint8_t>(stream.NextU32() >> 24);
  return image;
}

RgbImage Resize(const RgbImage& in, int width, int height, Mirror mirror = {}) {
  RgbImage out;
  out.Reset(width, height);
  ResizeBilinear(in.pixels.data(), in.width, in.height, static_cast<size_t>(in.width) * 3,
                 out.pixels.data(), width, height, static_cast<size_t>(width) * 3, mirror);
  return out;
}

}  // namespace

TEST_CASE("every kind of JPEG decodes to what Pillow makes of it") {
  for (const char* name : {"rgb", "rgb444", "grey", "cmyk", "progressive", "arithmetic", "exif2",
                           "exif3", "exif4", "exif5", "exif6", "exif7", "exif8"}) {
    INFO(name);
    RgbImage image = ReadJpeg(data::test::Fixture(std::string(name) + ".jpg"));
    RgbImage expected = ReadPpm(data::test::Fixture(std::string(name) + ".ppm"));
    CHECK(image.width == expected.width);
    CHECK(image.height == expected.height);
    CHECK(image.pixels == expected.pixels);
  }
  std::string cmyk = ReadFile(data::test::Fixture("cmyk.jpg"));
  CHECK(ReadJpegInfo(Bytes(cmyk), "cmyk").components == 4);
  std::string turned = ReadFile(data::test::Fixture("exif6.jpg"));
  CHECK(ReadJpegInfo(Bytes(turned), "exif6").orientation == 6);
  CHECK(ReadJpegInfo(Bytes(turned), "exif6").width == 37);
}

TEST_CASE("a truncated JPEG is an error that names the file, at every length") {
  for (const char* name :
       {"rgb.jpg", "progressive.jpg", "arithmetic.jpg", "exif6.jpg", "cmyk.jpg"}) {
    std::string bytes = ReadFile(data::test::Fixture(name));
    RgbImage image;
    for (size_t n = 0; n + 2 < bytes.size(); n += 7) {
      INFO(name << " cut at " << n << " of " << bytes.size());
      std::string cut = bytes.substr(0, n);
      try {
        DecodeJpeg(Bytes(cut), "some/where.jpg", {}, &image);
        // A few last bytes may be padding of the bit stream, which no pixel needs.
        CHECK(n + 16 > bytes.size());
      } catch (const Error& e) {
        CHECK(e.text().where == "some/where.jpg");
        // Also where the end lies within a table, of which libjpeg has much else to say.
        bool begun = n > 3;
        CHECK_THAT(e.text().what, ContainsSubstring(n == 0  ? "empty"
                                                    : begun ? "truncated"
                                                            : "JPEG"));
      }
    }
  }
}

TEST_CASE("random damage to a JPEG never crashes") {
  RandomStream stream(3, RandomPurpose::kTest, 0, 0);
  for (const char* name : {"rgb.jpg", "progressive.jpg", "exif6.jpg", "cmyk.jpg"}) {
    const std::string bytes = ReadFile(data::test::Fixture(name));
    RgbImage image;
    int errors = 0;
    for (int i = 0; i < 300; ++i) {
      std::string damaged = bytes;
      for (int k = 0; k < 3; ++k)
        damaged[stream.Below(static_cast<uint32_t>(bytes.size()))] =
            static_cast<char>(stream.NextU32());
      try {
        DecodeJpeg(Bytes(damaged), name, {}, &image);
      } catch (const Error&) {
        ++errors;
      }
    }
    CHECK(errors > 0);
  }
  RgbImage image;
  CHECK_THROWS_WITH(DecodeJpeg(Bytes("not a jpeg"), "x.jpg", {}, &image),
                    ContainsSubstring("x.jpg") && ContainsSubstring("Not a JPEG"));
  CHECK_THROWS_WITH(DecodeJpeg({}, "x.jpg", {}, &image), ContainsSubstring("empty"));
}

TEST_CASE("an encoded image decodes to nearly itself") {
  RgbImage image = Resize(Noise(6, 5, 1), 60, 50);
  std::string jpeg = EncodeJpeg(image, 95);
  RgbImage back;
  DecodeJpeg(Bytes(jpeg), "x", {}, &back);
  REQUIRE(back.pixels.size() == image.pixels.size());
  double error = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    error += std::abs(int(image.pixels[i]) - int(back.pixels[i]));
  CHECK(error / image.pixels.size() < 6);
}

TEST_CASE("scaled decoding gives the size rounded up") {
  std::string bytes = ReadFile(data::test::Fixture("rgb.jpg"));
  RgbImage half;
  DecodeJpeg(Bytes(bytes), "x", {.scale = 4}, &half);
  CHECK(half.width == 19);
  CHECK(half.height == 15);
}

TEST_CASE("bilinear resize equals the definition in double precision") {
  struct Case {
    int w, h, ow, oh;
  };
  for (Case c : {Case{8, 6, 13, 11}, Case{64, 48, 106, 79}, Case{50, 40, 20, 17}, Case{1, 1, 5, 7},
                 Case{7, 9, 1, 1}, Case{5, 5, 5, 5}}) {
    RgbImage in = Noise(c.w, c.h, 5), out = Resize(in, c.ow, c.oh);
    double worst = 0;
    for (int y = 0; y < c.oh; ++y) {
      for (int x = 0; x < c.ow; ++x) {
        double sx = std::max((x + 0.5) * c.w / c.ow - 0.5, 0.0),
               sy = std::max((y + 0.5) * c.h / c.oh - 0.5, 0.0);
        int x0 = std::min(int(sx), c.w - 1), y0 = std::min(int(sy), c.h - 1);
        int x1 = std::min(x0 + 1, c.w - 1), y1 = std::min(y0 + 1, c.h - 1);
        for (int k = 0; k < 3; ++k) {
          auto at = [&](int yy, int xx) { return double(in.Row(yy)[3 * xx + k]); };
          double top = at(y0, x0) + (at(y0, x1) - at(y0, x0)) * (sx - x0);
          double bottom = at(y1, x0) + (at(y1, x1) - at(y1, x0)) * (sx - x0);
          worst =
              std::max(worst, std::abs(top + (bottom - top) * (sy - y0) - out.Row(y)[3 * x + k]));
        }
      }
    }
    CHECK(worst <= 0.5001);
  }
}

TEST_CASE("mirroring while resizing equals mirroring the result") {
  RgbImage in = Noise(23, 17, 9), plain = Resize(in, 31, 40),
           mirrored = Resize(in, 31, 40, {true, true});
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 31; ++x) {
      REQUIRE(std::memcmp(plain.Row(y) + 3 * x, mirrored.Row(39 - y) + 3 * (30 - x), 3) == 0);
    }
  }
}

TEST_CASE("sizes are torchvision's and mmdetection's") {
  // torchvision 0.26: GeneralizedRCNNTransform(800, 1333) on zeros of these sizes.
  CHECK(KeepRatioSize({640, 480}, {1333, 800}) == Size{1066, 799});
  CHECK(KeepRatioSize({480, 640}, {1333, 800}) == Size{799, 1066});
  CHECK(KeepRatioSize({500, 375}, {800, 1333}) == Size{1066, 800});
  CHECK(KeepRatioSize({1000, 300}, {1333, 800}) == Size{1332, 399});
  // mmcv.rescale_size((640, 480), (1333, 800)).
  CHECK(KeepRatioSize({640, 480}, {1333, 800}, SizeRounding::kNearest) == Size{1067, 800});
  CHECK(KeepRatioSize({5000, 1}, {100, 50}) == Size{99, 1});
}

TEST_CASE("PNG and WebP decode to what Pillow makes of them") {
  for (const char* name : {"rgb.png", "palette.png", "alpha.png", "grey1.png", "grey16.png",
                           "exif6.png", "lossy.webp", "lossless.webp", "exif6.webp"}) {
    INFO(name);
    std::string reference = name;
    reference[reference.find('.')] = '_';
    RgbImage image = ReadImage(data::test::Fixture(name));
    RgbImage expected = ReadPpm(data::test::Fixture(reference + ".ppm"));
    CHECK(image.width == expected.width);
    CHECK(image.height == expected.height);
    CHECK(image.pixels == expected.pixels);
  }
  std::string grey = ReadFile(data::test::Fixture("grey16.png"));
  ImageInfo info = ReadImageInfo(Bytes(grey), "grey16");
  CHECK(info.bit_depth == 16);
  CHECK(info.channels == 1);
  std::string turned = ReadFile(data::test::Fixture("exif6.webp"));
  CHECK(ReadImageInfo(Bytes(turned), "exif6").upright() == Size{29, 37});
}

namespace {

std::string BigEndian(uint32_t value, int bytes) {
  std::string text;
  while (bytes-- > 0) text.push_back(static_cast<char>(value >> (8 * bytes)));
  return text;
}

// A TIFF block with an orientation of that type and count between a width and a resolution unit,
// big-endian.
std::string Exif(int type, uint32_t count, const std::string& value) {
  using namespace std::string_literals;
  auto entry = [](uint32_t tag, int of, uint32_t n, const std::string& bytes) {
    return BigEndian(tag, 2) + BigEndian(static_cast<uint32_t>(of), 2) + BigEndian(n, 4) + bytes;
  };
  return "MM\0*"s + BigEndian(8, 4) + BigEndian(3, 2) + entry(0x0100, 4, 1, BigEndian(640, 4)) +
         entry(0x0112, type, count, value) + entry(0x0128, 3, 1, BigEndian(2 << 16, 4)) +
         BigEndian(0, 4);
}

std::string WithSegment(std::string jpeg, const std::string& payload) {
  return jpeg.insert(
      2, "\xFF\xE1" + BigEndian(static_cast<uint32_t>(payload.size()) + 2, 2) + payload);
}

// Before the pixels, or behind them. Its checksum, which isn't looked at, is left 0.
std::string WithChunk(std::string png, const std::string& name, const std::string& data,
                      bool behind) {
  return png.insert(
      behind ? png.size() - 12 : 33,
      BigEndian(static_cast<uint32_t>(data.size()), 4) + name + data + BigEndian(0, 4));
}

}  // namespace

TEST_CASE("which way up is read from EXIF's integer types and from XMP, wherever they stand") {
  using namespace std::string_literals;
  const std::string kShort6 = BigEndian(6, 2) + BigEndian(0, 2);
  const std::string kXmp6 = "<rdf:Description tiff:Orientation=\"6\"/>";
  const std::string kXmp8 = "<tiff:Orientation>8</tiff:Orientation>";
  const std::string kName = "http://ns.adobe.com/xap/1.0/\0"s,
                    kText = "XML:com.adobe.xmp\0\0\0\0\0"s;
  const std::string jpeg = ReadFile(data::test::Fixture("rgb444.jpg"));
  const std::string png = ReadFile(data::test::Fixture("rgb.png"));
  auto check = [&](const std::string& file, int orientation) {
    INFO(orientation << " of " << file.substr(0, 120));
    CHECK(ReadImageInfo(Bytes(file), "x").orientation == orientation);
    RgbImage turned, expected;
    DecodeImage(Bytes(file), "x", true, &turned);
    DecodeImage(Bytes(file), "x", false, &expected);
    CHECK(expected.pixels == ReadPpm(data::test::Fixture("rgb444.ppm")).pixels);
    ApplyOrientation(orientation, &expected);
    CHECK(turned.width == expected.width);
    CHECK(turned.pixels == expected.pixels);
  };
  const std::string prefix = "Exif\0\0"s;
  check(WithSegment(jpeg, prefix + Exif(3, 1, kShort6)), 6);
  check(WithSegment(jpeg, prefix + Exif(4, 1, BigEndian(6, 4))), 6);  // a LONG
  check(WithSegment(jpeg, prefix + Exif(4, 1, BigEndian(6 << 16, 4))), 1);
  check(WithSegment(jpeg, prefix + Exif(1, 1, "\6\0\0\0"s)), 1);
  check(WithSegment(jpeg, prefix + Exif(3, 3, kShort6)), 1);  // the place of three numbers
  check(WithSegment(jpeg, kName + kXmp6), 6);
  check(WithSegment(jpeg, kName + "<tiff:Orientation>9<tiff:Orientation>6"), 1);
  check(WithSegment(jpeg, kName + "tiff:Orientation"), 1);
  check(WithSegment(jpeg, "something else " + kXmp6), 1);
  check(WithSegment(WithSegment(jpeg, prefix + Exif(3, 1, kShort6)), kName + kXmp8), 6);  // EXIF
  for (bool behind : {false, true}) {
    check(WithChunk(png, "eXIf", Exif(3, 1, kShort6), behind), 6);
    check(WithChunk(png, "iTXt", kText + kXmp8, behind), 8);
    check(WithChunk(WithChunk(png, "eXIf", Exif(3, 1, kShort6), behind), "iTXt", kText + kXmp8,
                    false),
          6);
  }
  check(png.substr(0, png.size() - 12), 1);                   // without its last, empty chunk
  check(WithSegment(jpeg, prefix + Exif(8, 1, kShort6)), 6);  // signed ones
  check(WithSegment(jpeg, prefix + Exif(9, 1, BigEndian(6, 4))), 6);
  for (const char* name : {"raw_profile6.png", "compressed_xmp6.png"}) {
    const std::string text = ReadFile(data::test::Fixture(name));
    check(text, 6);
    check(WithChunk(text, "eXIf", Exif(3, 1, BigEndian(8, 2) + BigEndian(0, 2)), false), 8);
  }
  std::string webp = ReadFile(data::test::Fixture("exif6.webp"));
  size_t at = webp.find("EXIF");
  REQUIRE(at != std::string::npos);
  webp.replace(at, 4, "XMP ");
  webp.replace(at + 8, kXmp8.size(), kXmp8);
  CHECK(ReadImageInfo(Bytes(webp), "x").orientation == 8);
}

TEST_CASE("a JPEG of several scans has all of them") {
  using namespace std::string_literals;
  const std::string scans = ReadFile(data::test::Fixture("scans.jpg"));  // one a component
  const auto pixels = ReadPpm(data::test::Fixture("rgb444.ppm")).pixels;
  RgbImage image;
  DecodeImage(Bytes(scans), "x", true, &image);
  CHECK(image.pixels == pixels);
  // Cut off where a scan begins, libjpeg takes zeros for what isn't there.
  size_t found = 0;
  for (size_t at = scans.find("\xFF\xDA"); at != std::string::npos;
       at = scans.find("\xFF\xDA", at + 1)) {
    if (++found == 1) continue;
    const std::string cut = scans.substr(0, at), ended = cut + "\xFF\xD9";
    CHECK_THROWS_WITH(DecodeImage(Bytes(cut), "x", true, &image), ContainsSubstring("truncated"));
    CHECK_THROWS_WITH(DecodeImage(Bytes(ended), "x", true, &image),
                      ContainsSubstring("a colour component is missing"));
  }
  CHECK(found == 3);
  // Cameras write zeros where a scan names the range of its coefficients: nothing depends on them.
  std::string zeros = ReadFile(data::test::Fixture("rgb444.jpg"));
  const size_t sos = zeros.find("\xFF\xDA");
  zeros.replace(sos + 11, 3, "\0\0\0"s);
  DecodeImage(Bytes(zeros), "x", true, &image);
  CHECK(image.pixels == pixels);
}

TEST_CASE("a WebP of more pixels than the limit is refused before it is decoded") {
  std::string webp = ReadFile(data::test::Fixture("lossless.webp"));
  const size_t size = webp.find("VP8L") + 9;  // behind the chunk's size and a signature
  for (size_t i = 0; i < 4; ++i) webp[size + i] = static_cast<char>(0xFF >> (i == 3 ? 3 : 0));
  RgbImage image;
  CHECK_THROWS_WITH(DecodeImage(Bytes(webp), "x.webp", true, &image),
                    ContainsSubstring("x.webp") && ContainsSubstring("limit"));
  CHECK(image.pixels.empty());
}

TEST_CASE("other formats, truncation and damage are errors that name the file") {
  RgbImage image;
  std::string gif = ReadFile(data::test::Fixture("plain.gif"));
  CHECK_THROWS_WITH(DecodeImage(Bytes(gif), "x.jpg", true, &image),
                    ContainsSubstring("x.jpg") && ContainsSubstring("GIF"));
  std::string animated = ReadFile(data::test::Fixture("animated.webp"));
  CHECK_THROWS_WITH(DecodeImage(Bytes(animated), "x.webp", true, &image),
                    ContainsSubstring("animated"));
  CHECK_THROWS_WITH(DecodeImage({}, "x.png", true, &image), ContainsSubstring("empty"));
  RandomStream stream(4, RandomPurpose::kTest, 0, 0);
  for (const char* name : {"rgb.png", "palette.png", "grey16.png", "exif6.png", "lossy.webp",
                           "lossless.webp", "exif6.webp"}) {
    std::string bytes = ReadFile(data::test::Fixture(name));
    // A PNG ends with an empty chunk, a WebP with its padding or metadata: those pixels don't need.
    size_t needed =
        bytes.find("EXIF") != std::string::npos ? bytes.find("EXIF") - 8 : bytes.size() - 40;
    for (size_t n = 0; n < needed; n += 3) {
      std::string cut = bytes.substr(0, n);
      INFO(name << " cut at " << n);
      CHECK_THROWS_WITH(DecodeImage(Bytes(cut), "some/where", true, &image),
                        ContainsSubstring("some/where"));
    }
    for (int i = 0; i < 200; ++i) {
      std::string damaged = bytes;
      for (int k = 0; k < 3; ++k)
        damaged[stream.Below(static_cast<uint32_t>(bytes.size()))] =
            static_cast<char>(stream.NextU32());
      try {
        DecodeImage(Bytes(damaged), name, true, &image);
      } catch (const Error&) {
      }
    }
  }
}

TEST_CASE("an antialiased resize is Pillow's, byte for byte") {
  RgbImage in = ReadPpm(data::test::Fixture("rgb444.ppm"));
  auto check = [&](const char* name, int width, int height, ResizeBox box) {
    INFO(name);
    RgbImage out, mirrored;
    out.Reset(width, height);
    mirrored.Reset(width, height);
    size_t stride = static_cast<size_t>(width) * 3;
    ResizeAntialias(in.pixels.data(), in.width, in.height, static_cast<size_t>(in.width) * 3, box,
                    out.pixels.data(), width, height, stride);
    CHECK(out.pixels == ReadPpm(data::test::Fixture(name)).pixels);
    ResizeAntialias(in.pixels.data(), in.width, in.height, static_cast<size_t>(in.width) * 3, box,
                    mirrored.pixels.data(), width, height, stride, {true, true});
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        REQUIRE(std::memcmp(out.Row(y) + 3 * x, mirrored.Row(height - 1 - y) + 3 * (width - 1 - x),
                            3) == 0);
      }
    }
  };
  check("resize_20x15.ppm", 20, 15, {0, 0, 37, 29});
  check("resize_60x50.ppm", 60, 50, {0, 0, 37, 29});
  check("resize_box.ppm", 16, 16, {5, 3.25, 30.5, 27});
}

TEST_CASE("a region decodes to what the whole has there") {
  RgbImage noise = Resize(Noise(40, 30, 2), 400, 300);
  std::string jpeg = EncodeJpeg(noise, 90);
  RandomStream stream(8, RandomPurpose::kTest, 0, 0);
  for (int trial = 0; trial < 40; ++trial) {
    JpegRegion r;
    r.width = 1 + static_cast<int>(stream.Below(400));
    r.height = 1 + static_cast<int>(stream.Below(300));
    r.x = static_cast<int>(stream.Below(static_cast<uint32_t>(401 - r.width)));
    r.y = static_cast<int>(stream.Below(static_cast<uint32_t>(301 - r.height)));
    int wanted = 1 + static_cast<int>(stream.Below(64));
    RgbImage part, whole;
    DecodedRegion at = DecodeJpegRegion(Bytes(jpeg), "x", r, wanted, wanted, &part);
    INFO(r.x << " " << r.y << " " << r.width << " " << r.height << " scale " << at.scale);
    DecodeJpeg(Bytes(jpeg), "x", {.scale = at.scale}, &whole);
    // It covers the region, at a size that was asked for.
    CHECK(at.x <= r.x * at.scale / 8);
    CHECK(at.y <= r.y * at.scale / 8);
    CHECK(at.x + part.width >= (r.x + r.width) * at.scale / 8);
    CHECK(at.y + part.height >= (r.y + r.height) * at.scale / 8);
    CHECK((at.scale == 8 || r.width * at.scale / 8 >= wanted));
    CHECK((at.scale == 1 || std::min(r.width, r.height) * at.scale / 16 < wanted));
    int differing = 0;
    for (int y = std::max(at.y + 2, 0); y < at.y + part.height - 2; ++y) {
      for (int x = at.x + 2; x < at.x + part.width - 2; ++x) {
        differing += std::memcmp(part.Row(y - at.y) + 3 * (x - at.x), whole.Row(y) + 3 * x, 3) != 0;
      }
    }
    CHECK(differing == 0);
  }
}
