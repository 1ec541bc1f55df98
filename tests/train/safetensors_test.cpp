// The format's own rules (README and tensor.rs of huggingface/safetensors), files written by the
// Python library (tests/fixtures), and every kind of malformed file.
#include "exp/train/safetensors.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;

namespace {

std::string FileOf(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  std::string content(8, '\0');
  std::memcpy(content.data(), &length, 8);
  return content + header + data;
}

std::string ProblemOf(const std::string& content) {
  TempFolder folder;
  WriteFileAtomic(folder / "x.safetensors", content);
  try {
    OpenSafetensors(folder / "x.safetensors");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kUsage);
    CHECK_THAT(e.text().where, ContainsSubstring("x.safetensors"));
    return e.text().where + ": " + e.text().what;
  }
  return "";
}

TensorView View(const std::string& name, ElementType type, std::vector<int64_t> shape,
                const void* data) {
  return {{name, type, std::move(shape)}, data};
}

}  // namespace

TEST_CASE("what is written is read back, aligned, in a fixed order") {
  TempFolder folder;
  float weights[6] = {1, -2, 3.5f, 0, 1e-30f, -0.0f};
  int64_t step = 7;
  uint8_t bytes[3] = {1, 2, 255};
  std::vector<TensorView> tensors{View("z.u8", ElementType::kU8, {3}, bytes),
                                  View("b.weight", ElementType::kF32, {2, 3}, weights),
                                  View("step", ElementType::kI64, {}, &step),
                                  View("empty", ElementType::kF32, {0, 4}, nullptr)};
  Hash128 hash =
      WriteSafetensors(folder / "a.safetensors", tensors, {{"exp.run", "r\"1\""}, {"a", "é"}});
  CHECK(hash == HashFile(folder / "a.safetensors"));
  std::swap(tensors[0], tensors[2]);
  CHECK(hash ==
        WriteSafetensors(folder / "b.safetensors", tensors, {{"a", "é"}, {"exp.run", "r\"1\""}}));

  std::unique_ptr<TensorFile> file = OpenSafetensors(folder / "a.safetensors");
  CHECK(file->metadata() == std::map<std::string, std::string>{{"a", "é"}, {"exp.run", "r\"1\""}});
  REQUIRE(file->tensors().size() == 4);
  CHECK(file->tensors()[0].name == "b.weight");
  CHECK(file->Find("b.weight")->shape == std::vector<int64_t>{2, 3});
  CHECK(file->Find("step")->shape.empty());
  CHECK(file->Find("nothing") == nullptr);
  std::vector<float> read = file->ReadFloats("b.weight");
  CHECK(std::memcmp(read.data(), weights, sizeof(weights)) == 0);
  CHECK(file->ReadFloats("step") == std::vector<float>{7});
  CHECK(file->ReadFloats("z.u8") == std::vector<float>{1, 2, 255});
  CHECK(file->ReadFloats("empty").empty());
  CHECK_THROWS_WITH(file->ReadFloats("nothing"), ContainsSubstring("no tensor `nothing`"));

  std::string content = ReadFile(folder / "a.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, content.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(content.size() == 8 + length + 8 + 24 + 3);
}

TEST_CASE("names that can't be written are refused") {
  TempFolder folder;
  float x = 0;
  std::vector<TensorView> twice{View("a", ElementType::kF32, {}, &x),
                                View("a", ElementType::kF32, {}, &x)};
  CHECK_THROWS_AS(WriteSafetensors(folder / "a", twice, {}), Error);
  std::vector<TensorView> reserved{View("__metadata__", ElementType::kF32, {}, &x)};
  CHECK_THROWS_AS(WriteSafetensors(folder / "a", reserved, {}), Error);
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_CASE("the Python library's files are read") {
  std::unique_ptr<TensorFile> file =
      OpenSafetensors(EXP_SOURCE_DIR "/tests/fixtures/frcnn_small.safetensors");
  CHECK_THAT(file->metadata().at("generated_by"), ContainsSubstring("torchvision"));
  CHECK(file->Find("model.backbone.body.conv1.weight")->shape == std::vector<int64_t>{8, 3, 7, 7});
  CHECK(file->Find("input.image1")->type == ElementType::kU8);
  CHECK(file->ReadFloats("input.boxes1") == std::vector<float>{5, 8, 40, 34, 50, 30, 100, 88});
  CHECK(file->ReadFloats("input.labels0") == std::vector<float>{1, 2, 3, 1});
}

TEST_CASE("malformed safetensors files are named with their place") {
  const std::string one = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string eight(8, 'x');
  REQUIRE(ProblemOf(FileOf("{" + one + "}   ", eight)).empty());
  REQUIRE(ProblemOf(FileOf("{}", "")).empty());
  REQUIRE(ProblemOf(FileOf(R"({"__metadata__":{"k":"v"}})", "")).empty());
  // What safetensors 0.8.0 (Rust) reads, odd as it is.
  for (const std::string& odd :
       {R"({"__metadata__":null,)" + one + "}", R"({"__metadata__":{},)" + one + "}",
        "{" + one + "}\n\t ",
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}," + one + "}",
        std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":null}})"),
        std::string(
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":[[[[[[[[[1]]]]]]]]]}})"),
        std::string(R"({"a\u0000b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
        std::string(R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})")}) {
    INFO(odd);
    CHECK(ProblemOf(FileOf(odd, eight)).empty());
  }

  auto has = [](const std::string& header, const std::string& data, const std::string& text) {
    INFO(header);
    CHECK_THAT(ProblemOf(FileOf(header, data)), ContainsSubstring(text));
  };
  CHECK_THAT(ProblemOf(""), ContainsSubstring("too short"));
  CHECK_THAT(ProblemOf("abc"), ContainsSubstring("too short"));
  CHECK_THAT(ProblemOf(std::string(8, '\xff') + "{}"), ContainsSubstring("header's length"));
  CHECK_THAT(ProblemOf(FileOf("{}", "").substr(0, 9)), ContainsSubstring("header's length"));
  has(" {}", "", "byte 8");
  has("{\"a\":", "", "byte 13");
  has("{\"\xff\":1}", "", "not valid JSON");
  has("[1]", "", "byte 8");
  has("{" + one + "," + one + "}", eight, "`a` is given twice");
  has(R"({"__metadata__":{"k":1}})", "", "not a string");
  has(R"({"__metadata__":3})", "", "not an object");
  has(R"({"a":3})", "", "tensor `a`");
  has(R"({"a":{"dtype":"F32","shape":[2]}})", eight, "not as the format says");
  has(R"({"a":["F32",[2],[0,8]]})", eight, "not as the format says");
  has(R"({"a":null})", "", "not as the format says");
  has(R"({"__metadata__":[]})", "", "not an object");
  has(R"({"__metadata__":{"k":null}})", "", "not a string");
  has(R"({"__metadata__":{},"__metadata__":{}})", "", "`__metadata__` is given twice");
  has("{" + one + "}" + std::string(1, '\0'), eight, "byte 62: a zero byte");
  has("{" + one + "}{}", eight, "byte 62");
  has("\xef\xbb\xbf{" + one + "}", eight, "byte 8");
  has(R"({"__metadata__":{"k":"\ud800"}})", "", "not valid JSON");
  has(R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})", eight,
      "no whole number");
  has(R"({"a":{"dtype":"F8_E4M3","shape":[9],"data_offsets":[0,8]}})", eight, "don't fit F8_E4M3");
  has(R"({"a":{"dtype":"C64","shape":[2],"data_offsets":[0,8]}})", eight, "don't fit C64");
  has(R"({"a":{"dtype":"NEW","shape":[2],"data_offsets":[1,8]}})", eight, "leaves a hole");
  has(R"({"a":{"dtype":1,"shape":[8],"data_offsets":[0,8]}})", eight, "`dtype`");
  has(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", eight, "no whole number");
  has(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", eight, "no whole number");
  has(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", eight, "no list");
  has(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})", eight, "no list");
  has(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", eight, "don't fit");
  has(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", eight, "don't fit");
  has(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", eight,
      "larger than any file");
  has(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", eight + eight, "hole");
  has("{" + one + R"(,"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})", eight + eight,
      "overlaps");
  has("{" + one + "}", "xxxx", "has 4 bytes of tensors");
  has("{" + one + "}", eight + "y", "has 9 bytes of tensors");
  std::string deep = "{\"a\":" + std::string(100000, '[');
  CHECK_THAT(ProblemOf(FileOf(deep, "")), ContainsSubstring("deeper"));
  has(R"({"__metadata__":{"k":"1","k":"2"}})", "", "`k` is given twice");
  has(R"({"a":{"dtype":"F32","shape":[2],"shape":[1],"data_offsets":[0,8]}})", eight,
      "`shape` is given twice");
}

TEST_CASE("tensors of types that aren't read are passed over, and named when they are asked for") {
  TempFolder folder;
  const std::string header = R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
                             R"("c":{"dtype":"F8_E4M3","shape":[2,1],"data_offsets":[16,18]},)"
                             R"("d":{"dtype":"F4","shape":[3],"data_offsets":[18,20]},)"
                             R"("e":{"dtype":"LATER","shape":[7],"data_offsets":[20,23]}})";
  const uint64_t length = header.size();
  const float values[] = {1, 2};
  std::string file(reinterpret_cast<const char*>(&length), 8);
  file += header + std::string(8, 'x');
  file.append(reinterpret_cast<const char*>(values), 8);
  file += "1234567";
  WriteFileAtomic(folder / "x.safetensors", file);
  auto opened = OpenSafetensors(folder / "x.safetensors");
  CHECK(opened->tensors().size() == 1);
  CHECK(opened->ReadFloats("b") == std::vector<float>{1, 2});
  CHECK(UnreadText(opened->unread()) ==
        "4 tensors are of kinds that aren't read: `a` (has dtype C64), `c` (has dtype F8_E4M3), "
        "`d` (has dtype F4), `e` (has dtype LATER)");
  CHECK_THROWS_WITH(opened->ReadFloats("c"), ContainsSubstring("tensor `c`: has dtype F8_E4M3") &&
                                                 ContainsSubstring("convert it to F16 or F32"));
  CHECK_THROWS_WITH(opened->ReadFloats("f"), ContainsSubstring("has no tensor `f`"));
}

TEST_CASE("a missing file and a folder are told apart from damage") {
  TempFolder folder;
  CHECK_THROWS_WITH(OpenSafetensors(folder / "none"), ContainsSubstring("can't be opened"));
  CHECK_THROWS_WITH(OpenSafetensors(folder.path()), ContainsSubstring("is a folder"));
  // Nobody writes into this pipe: it must not be waited for.
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(OpenSafetensors(folder / "pipe"), ContainsSubstring("is not a regular file"));
  CHECK_THROWS_WITH(OpenTensorFile(folder / "pipe"), ContainsSubstring("is not a regular file"));
}

TEST_CASE("a file that shrinks while it is open gives an error") {
  TempFolder folder;
  std::vector<float> values(1000, 1.0f);
  std::vector<TensorView> tensors{View("a", ElementType::kF32, {1000}, values.data())};
  WriteSafetensors(folder / "a", tensors, {});
  std::unique_ptr<TensorFile> file = OpenSafetensors(folder / "a");
  std::filesystem::resize_file(folder / "a", 500);
  CHECK_THROWS_WITH(file->ReadFloats("a"), ContainsSubstring("cut off"));
}

TEST_CASE("half precision converts as IEEE 754 says") {
  struct Row {
    float value;
    uint16_t half, bfloat;
  };
  const float inf = std::numeric_limits<float>::infinity();
  // Values from the tables of IEEE 754-2008 binary16 and from numpy.float16 / torch.bfloat16.
  const Row rows[] = {{0.0f, 0x0000, 0x0000},
                      {-0.0f, 0x8000, 0x8000},
                      {1.0f, 0x3C00, 0x3F80},
                      {-2.0f, 0xC000, 0xC000},
                      {65504.0f, 0x7BFF, 0x4780},
                      {65519.0f, 0x7BFF, 0x4780},
                      {65520.0f, 0x7C00, 0x4780},
                      {1e10f, 0x7C00, 0x5015},
                      {inf, 0x7C00, 0x7F80},
                      {-inf, 0xFC00, 0xFF80},
                      {0.333251953125f, 0x3555, 0x3EAB},
                      {1.0009765625f, 0x3C01, 0x3F80},
                      {1.00048828125f, 0x3C00, 0x3F80},
                      {1.00146484375f, 0x3C02, 0x3F80},
                      {6.103515625e-05f, 0x0400, 0x3880},
                      {5.960464477539063e-08f, 0x0001, 0x3380},
                      {2.9802322387695312e-08f, 0x0000, 0x3300},
                      {8.940696716308594e-08f, 0x0002, 0x33C0},
                      {6.0975551605224609e-05f, 0x03FF, 0x3880},
                      {3.3895313892515355e38f, 0x7C00, 0x7F7F},
                      {3.4028234663852886e38f, 0x7C00, 0x7F80}};
  for (const Row& row : rows) {
    uint16_t half = 0, bfloat = 0;
    FromFloats(ElementType::kF16, &row.value, 1, reinterpret_cast<std::byte*>(&half));
    FromFloats(ElementType::kBF16, &row.value, 1, reinterpret_cast<std::byte*>(&bfloat));
    INFO(row.value);
    CHECK(half == row.half);
    CHECK(bfloat == row.bfloat);
  }
  for (uint32_t bits = 0; bits < 0x10000;
       ++bits) {  // every half and bfloat survives the way to float and back
    auto value = static_cast<uint16_t>(bits);
    for (ElementType type : {ElementType::kF16, ElementType::kBF16}) {
      float wide = 0;
      uint16_t back = 0;
      ToFloats(type, reinterpret_cast<const std::byte*>(&value), 1, &wide);
      FromFloats(type, &wide, 1, reinterpret_cast<std::byte*>(&back));
      if (std::isnan(wide)) continue;
      if (back != value) FAIL("bits " << bits);
    }
  }
  float nan = std::nanf(""), out = 0;
  uint16_t half = 0;
  FromFloats(ElementType::kF16, &nan, 1, reinterpret_cast<std::byte*>(&half));
  ToFloats(ElementType::kF16, reinterpret_cast<std::byte*>(&half), 1, &out);
  CHECK(std::isnan(out));
}

// Both directions took time that grew with the square of the number of tensors.
TEST_CASE("a file of very many tensors is written and read in no time") {
  TempFolder folder;
  std::vector<TensorView> tensors;
  for (int i = 0; i < 50000; ++i)
    tensors.push_back(View("t" + std::to_string(i), ElementType::kF32, {0}, nullptr));
  const std::clock_t start = std::clock();  // others may use the machine
  WriteSafetensors(folder / "a", tensors, {});
  CHECK(OpenSafetensors(folder / "a")->tensors().size() == tensors.size());
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 20);
}
