// Files of torch.save (tests/fixtures/gen_pth.py), hostile ones, and damage at every byte.
#include "exp/train/pth.h"

#include <cstring>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/train/safetensors.h"
#include "src/train/pickle.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;

namespace {

std::string Fixture(const std::string& name) { return EXP_SOURCE_DIR "/tests/fixtures/" + name; }

std::string ProblemOf(const std::string& path) {
  try {
    OpenTensorFile(path);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kUsage);
    return e.what();
  }
  return "";
}

pickle::Document ParsePickle(std::string_view bytes) { return pickle::Parse(bytes, "test"); }

// Opens and reads everything; what is wrong must be an Error, nothing else.
void ReadAll(const std::filesystem::path& path) {
  try {
    std::unique_ptr<TensorFile> file = OpenPth(path);
    for (const TensorInfo& info : file->tensors()) {
      if (file->Read(info).size() != info.bytes()) FAIL("tensor " << info.name);
    }
  } catch (const Error&) {
  }
}

}  // namespace

TEST_CASE("both formats of torch.save give torch's own values") {
  std::unique_ptr<TensorFile> expected = OpenSafetensors(Fixture("pth_expected.safetensors"));
  for (const char* name : {"pth_zip.pth", "pth_legacy.pth"}) {
    INFO(name);
    std::unique_ptr<TensorFile> file = OpenTensorFile(Fixture(name));
    CHECK(file->format() == (std::string(name) == "pth_zip.pth" ? "pth" : "pth (legacy)"));
    REQUIRE(file->tensors().size() == expected->tensors().size());
    for (size_t i = 0; i < file->tensors().size(); ++i) {
      const TensorInfo &got = file->tensors()[i], &want = expected->tensors()[i];
      INFO(want.name);
      CHECK(got.name == want.name);
      CHECK(got.type == want.type);
      CHECK(got.shape == want.shape);
      CHECK(file->Read(got) == expected->Read(want));
    }
  }
}

TEST_CASE("a state dict beside other things is found") {
  std::unique_ptr<TensorFile> file = OpenTensorFile(Fixture("pth_nested.pth"));
  CHECK(file->tensors().size() == 7);
  CHECK(file->Find("0.weight")->shape == std::vector<int64_t>{4, 3, 3, 3});
  CHECK(file->Find("1.num_batches_tracked")->type == ElementType::kI64);
  CHECK(file->ReadFloats("1.num_batches_tracked") == std::vector<float>{1});
  CHECK(file->metadata() ==
        std::map<std::string, std::string>{{"arch", "tiny"}, {"epoch", "3"}, {"lr", "0.5"}});
}

TEST_CASE("nothing in a pickle is executed") {
  const std::string trace = "exp_pickle_was_executed";
  std::filesystem::remove(trace);
  CHECK_THAT(ProblemOf(Fixture("pth_hostile.pth")), ContainsSubstring("holds no state dict"));
  CHECK_FALSE(std::filesystem::exists(trace));
}

TEST_CASE("files without a state dict say what they hold") {
  CHECK_THAT(ProblemOf(Fixture("pth_module.pth")),
             ContainsSubstring("torch.nn.modules.container.Sequential"));
  CHECK_THAT(ProblemOf(Fixture("pth_script.pth")), ContainsSubstring("TorchScript"));
  TempFolder folder;
  WriteFileAtomic(folder / "a.pth", "hello");
  CHECK_THAT(ProblemOf(folder / "a.pth"), ContainsSubstring("not a file of torch.save"));
  std::string tar(512, '\0');
  std::memcpy(tar.data() + 257, "ustar", 5);
  WriteFileAtomic(folder / "a.pth", tar);
  CHECK_THAT(ProblemOf(folder / "a.pth"), ContainsSubstring("tar archive"));
  WriteFileAtomic(folder / "a.pth", "\x80\x02K\x01.");
  CHECK_THAT(ProblemOf(folder / "a.pth"), ContainsSubstring("not one of torch.save"));
}

TEST_CASE("damage at any byte is an error or harmless, never a crash") {
  TempFolder folder;
  for (const char* name : {"pth_zip.pth", "pth_legacy.pth", "pth_nested.pth"}) {
    const std::string good = ReadFile(Fixture(name));
    for (size_t size = 0; size < good.size(); size += 7) {
      WriteFileAtomic(folder / "x.pth", std::string_view(good).substr(0, size));
      ReadAll(folder / "x.pth");
    }
    for (size_t at = 0; at < good.size(); at += 3) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)) ^ 0x80);
      WriteFileAtomic(folder / "x.pth", bad);
      ReadAll(folder / "x.pth");
    }
  }
  std::string changed = ReadFile(Fixture("pth_zip.pth"));
  // The archive's CRC notices a changed weight.
  size_t at = changed.find("data/0");
  changed[at + 70] ^= 1;
  WriteFileAtomic(folder / "x.pth", changed);
  std::unique_ptr<TensorFile> file = OpenPth(folder / "x.pth");
  CHECK_THROWS_AS(file->ReadFloats("conv.weight"), Error);
}

TEST_CASE("pickles that contradict themselves are refused with the byte") {
  CHECK(ParsePickle("\x80\x02N.").values.size() == 1);
  for (const char* bad : {"",
                          "\x80\x02",
                          "\x80\x02.",
                          "N",
                          "t.",
                          "(.",
                          "(0.",
                          "\x86.",
                          "N\x86.",
                          "h\x07.",
                          "q\x01.",
                          "Nu.",
                          "(NNu.",
                          "}(NNNu.",
                          "}Na.",
                          "NN\x93.",
                          "X\xff\xff\xff\xff.",
                          "\x80\x09N.",
                          "cos\nsystem",
                          "R.",
                          "\xffN.",
                          "(N1N1.",
                          "e.",
                          "b.",
                          "Q."}) {
    INFO(bad);
    CHECK_THROWS_WITH(ParsePickle(bad), ContainsSubstring("byte"));
  }
  // Deep nesting and a list that holds itself.
  std::string deep = "\x80\x02" + std::string(200000, ']');
  for (int i = 0; i < 199999; ++i) deep += "a";
  CHECK(ParsePickle(deep + ".").values.size() == 200000);
  CHECK(ParsePickle("\x80\x02]q\x01h\x01"
                    "a.")
            .values.size() == 1);
  CHECK_THROWS_WITH(ParsePickle("\x80\x02(" + std::string(6000000, 'N') + "t."),
                    ContainsSubstring("too many values"));
  pickle::Document numbers =
      ParsePickle(std::string_view("\x80\x02(\x8a\x01\xff\x8a\x02\x00\x80\x8a\x00"
                                   "J\xfe\xff\xff\xffM\x01\x02t.",
                                   22));
  auto value = [&](size_t i) { return numbers[numbers[numbers.root].items[i]].integer; };
  CHECK(value(0) == -1);
  CHECK(value(1) == -32768);
  CHECK(value(2) == 0);
  CHECK(value(3) == -2);
  CHECK(value(4) == 513);
}
