// Files of torch.save (tests/fixtures/gen_pth.py), hostile ones, and damage at every byte.
#include "exp/train/pth.h"

#include <cstring>
#include <limits>

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

// ---- a file in the older format, which is easily written by hand
std::string Text(const std::string& text) {
  std::string out = "X0000" + text;
  const auto size = static_cast<uint32_t>(text.size());
  std::memcpy(out.data() + 1, &size, 4);
  return out;
}
std::string Int(int64_t value) {
  std::string out("\x8a\x08", 2);
  out.resize(10);
  std::memcpy(out.data() + 2, &value, 8);
  return out;
}
std::string Call(const std::string& module, const std::string& name, const std::string& arguments) {
  return "c" + module + "\n" + name + "\n(" + arguments + "tR";
}
std::string Storage(int64_t elements, const std::string& type = "FloatStorage") {
  return "(" + Text("storage") + "ctorch\n" + type + "\n" + Text("0") + Text("cpu") +
         Int(elements) + "NtQ";
}
std::string TensorArguments(int64_t size, int64_t stride, const std::string& more = "",
                            int64_t elements = 4) {
  return Storage(elements) + Int(0) + "(" + Int(size) + "t(" + Int(stride) + "t\x89" + "N" + more;
}
std::string Tensor(int64_t size, int64_t stride, const std::string& more = "",
                   int64_t elements = 4) {
  return Call("torch._utils", "_rebuild_tensor_v2", TensorArguments(size, stride, more, elements));
}
// A dict of `entries` (names and values) with one storage of the floats 1, 2, 3, 4.
std::string LegacyFile(const std::string& entries) {
  const std::string begin = "\x80\x02", end = ".";
  std::string file = begin + "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19" + end;
  file += begin + "M\xe9\x03" + end + begin + "}" + end;
  file += begin + "}(" + entries + "u" + end + begin + "]" + Text("0") + "a" + end;
  const int64_t count = 4;
  const float values[] = {1, 2, 3, 4};
  file.append(reinterpret_cast<const char*>(&count), 8);
  file.append(reinterpret_cast<const char*>(values), sizeof(values));
  return file;
}

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
  CHECK_THROWS_WITH(ParsePickle(""), ContainsSubstring("byte"));
  for (const char* bad : {"",           ".",           "N",       "t.",
                          "(.",         "(0.",         "\x86.",   "N\x86.",
                          "h\x07.",     "q\x01.",      "Nu.",     "(NNu.",
                          "}(NNNu.",    "}Na.",        "NN\x93.", "X\xff\xff\xff\xff.",
                          "\x80\x09N.", "cos\nsystem", "R.",      "\xffN.",
                          "(N1N1.",     "e.",          "b.",      "Q."}) {
    INFO(bad);
    CHECK_THROWS_WITH(ParsePickle(std::string("\x80\x02") + bad), ContainsSubstring("byte"));
  }
  CHECK_THROWS_WITH(ParsePickle("(lp0\n."), ContainsSubstring("protocol 2, 3, 4 or 5"));
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
  // Protocol 5's bytearray.
  const pickle::Document bytes =
      ParsePickle(std::string_view("\x80\x05\x96\x03\0\0\0\0\0\0\0abc.", 15));
  CHECK(bytes[bytes.root].text == "abc");
}

TEST_CASE(
    "a tensor with attributes of its own is read; the others, too, beside one of another kind") {
  TempFolder folder;
  auto open = [&](const std::string& entries) {
    WriteFileAtomic(folder / "x.pth", LegacyFile(entries));
    return OpenPth(folder / "x.pth");
  };
  const std::string plain = Text("plain") + Tensor(4, 1);
  CHECK(open(plain)->ReadFloats("plain") == std::vector<float>{1, 2, 3, 4});
  // Tensor.__reduce_ex__ of a tensor with attributes: (function, type, its arguments, attributes).
  std::string wrapped =
      Call("torch._tensor", "_rebuild_from_type_v2",
           "ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n(" + TensorArguments(2, 2) + "t}");
  CHECK(open(Text("a") + wrapped)->ReadFloats("a") == std::vector<float>{1, 3});
  CHECK(open(Text("a") + Call("torch._utils", "_rebuild_parameter", wrapped + "\x88}"))
            ->ReadFloats("a") == std::vector<float>{1, 3});

  // Asked for, it is named; what is beside it is read.
  auto unread = [&](const std::string& entries, const std::string& kind) {
    auto file = open(Text("a") + entries + plain);
    CHECK(file->ReadFloats("plain") == std::vector<float>{1, 2, 3, 4});
    CHECK(file->Find("a") == nullptr);
    REQUIRE(file->unread().size() == 1);
    CHECK(file->unread()[0].name == "a");
    CHECK_THAT(file->unread()[0].kind, ContainsSubstring(kind));
    CHECK_THROWS_WITH(file->ReadFloats("a"),
                      ContainsSubstring("tensor `a`: ") && ContainsSubstring(kind) &&
                          ContainsSubstring("expected: ") && ContainsSubstring("next: "));
    CHECK(UnreadText(file->unread()).find("1 tensor is of kinds that aren't read: `a` (") == 0);
  };
  for (const char* other : {"_rebuild_sparse_tensor", "_rebuild_qtensor", "_rebuild_tensor_v3"})
    unread(Call("torch._utils", other, TensorArguments(2, 2)), other);
  unread(
      Call("torch._utils", "_rebuild_tensor_v3", TensorArguments(2, 2, "ctorch\nfloat8_e4m3fn\n")),
      "has dtype torch.float8_e4m3fn");
  // A view whose sign is still to be turned: its stored numbers are others than torch's.
  unread(Tensor(2, 1, "}" + Text("neg") + "\x88s"), "sign or conjugation");
  CHECK(open(Text("a") + Tensor(2, 1, "}"))->ReadFloats("a") == std::vector<float>{1, 2});
  unread(
      Call("torch._utils", "_rebuild_tensor_v2",
           Storage(4, "ComplexFloatStorage") + Int(0) + "(" + Int(2) + "t(" + Int(1) + "tN" + "N"),
      "ComplexFloatStorage");
  unread(Call("torch._utils", "_rebuild_tensor_v2",
              Storage(2) + Int(0) + "(" + Int(4) + "t(" + Int(0) + "t\x89N"),
         "is expanded");
}

TEST_CASE("storages of types that aren't read have their place in the older format") {
  TempFolder folder;
  auto tensor = [](const std::string& key, const std::string& type, int64_t elements) {
    return Call("torch._utils", "_rebuild_tensor_v2",
                "(" + Text("storage") + "ctorch\n" + type + "\n" + Text(key) + Text("cpu") +
                    Int(elements) + "NtQ" + Int(0) + "(" + Int(2) + "t(" + Int(1) + "t\x89N");
  };
  for (const auto& [type, size] : {std::pair("ComplexDoubleStorage", 16),
                                   {"QInt8Storage", 1},
                                   {"ComplexFloatStorage", 8},
                                   {"UntypedStorage", 1}}) {
    CAPTURE(type);
    std::string file =
        LegacyFile(Text("a") + tensor("0", type, 4) + Text("b") + tensor("1", "FloatStorage", 2));
    // Behind the keys ['0', '1']: four elements of that type, then two floats.
    const size_t keys = file.rfind(Text("0") + "a.");
    file.resize(keys);
    file += Text("0") + "a" + Text("1") + "a.";
    const int64_t counts[] = {4, 2};
    const float values[] = {5, 6};
    file.append(reinterpret_cast<const char*>(&counts[0]), 8);
    file.append(static_cast<size_t>(4 * size), '\x7f');
    file.append(reinterpret_cast<const char*>(&counts[1]), 8);
    file.append(reinterpret_cast<const char*>(values), sizeof(values));
    WriteFileAtomic(folder / "x.pth", file);
    auto opened = OpenPth(folder / "x.pth");
    CHECK(opened->ReadFloats("b") == std::vector<float>{5, 6});
    REQUIRE(opened->unread().size() == 1);
    CHECK_THAT(opened->unread()[0].kind, ContainsSubstring(type));
  }
}

TEST_CASE("a pickle that promises more than its file has is refused when it is opened") {
  TempFolder folder;
  WriteFileAtomic(folder / "x.pth",
                  LegacyFile(Text("a") + Tensor(int64_t{1} << 40, 1, "", int64_t{1} << 41)));
  CHECK_THROWS_WITH(OpenPth(folder / "x.pth"), ContainsSubstring("storage 0, which has 4"));
  std::string entries;
  for (int i = 0; i < 20000; ++i) entries += Text(std::to_string(i)) + "h\x01";
  // Every name is the same tensor, over a storage as large as the rest of the file.
  std::string big = LegacyFile(Text("a") + Tensor(100000, 1, "", 100000) + "q\x01" + entries);
  const int64_t count = 100000;
  std::memcpy(big.data() + big.size() - 24, &count, 8);
  big.resize(big.size() - 16 + 400000);
  WriteFileAtomic(folder / "x.pth", big);
  CHECK_THROWS_WITH(OpenPth(folder / "x.pth"), ContainsSubstring("share storages"));
}

TEST_CASE("a small pickle that recalls its parts takes neither time nor memory") {
  const auto times = [](const std::string& text, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
  };
  // Names of functions, dicts of one list, and sizes: each recalled some ten thousand times.
  CHECK_THROWS_WITH(ParsePickle("\x80\x02" + Text(std::string(100000, 'k')) + "q\x01" + "0" +
                                times("h\x01h\x01\x93"
                                      "0",
                                      100000) +
                                "N."),
                    ContainsSubstring("a global has no name"));
  const std::string pairs = "]q\x01(" + Text("a") + "N\x86q\x02" + times("h\x02", 20000) + "e0";
  CHECK_THROWS_WITH(ParsePickle("\x80\x02" + pairs +
                                "ccollections\nOrderedDict\nq\x03"
                                "0" +
                                times("h\x03h\x01\x85R0", 20000) + "N."),
                    ContainsSubstring("too many values"));
  TempFolder folder;
  auto problem = [&](const std::string& entries) {
    WriteFileAtomic(folder / "x.pth", LegacyFile(entries));
    return ProblemOf(folder / "x.pth");
  };
  const std::string sizes = Int(1) +
                            "q\x05"
                            "0](" +
                            times("h\x05", 100000) + "eq\x06";
  CHECK_THAT(problem(Text("a") + Call("torch._utils", "_rebuild_tensor_v2",
                                      Storage(4) + Int(0) + sizes + "h\x06\x89N")),
             ContainsSubstring("has 100000 dimensions"));
  // A dict that holds itself under very many names.
  std::string selves;
  for (int i = 0; i < 20000; ++i) selves += Text(std::to_string(i)) + "h\x05";
  CHECK_THAT(
      problem(Text("used") + "]" + Tensor(4, 1) + "a" + Text("a") + "}q\x05(" + selves + "u"),
      ContainsSubstring("no state dict"));
}

TEST_CASE("sizes whose product wraps round to nothing are refused") {
  TempFolder folder;
  // 2^62 floats at one place of a storage that is said to hold them: their bytes are 2^64, or none.
  for (int64_t stride : {0, 1}) {
    const int64_t many = int64_t{1} << 62;
    WriteFileAtomic(folder / "x.pth", LegacyFile(Text("a") + Tensor(many, stride, "", many)));
    CHECK_THROWS_WITH(OpenPth(folder / "x.pth"),
                      ContainsSubstring("needs 4611686018427387904 elements of storage 0, which") &&
                          ContainsSubstring("tensor `a`"));
  }
  const int64_t last = std::numeric_limits<int64_t>::max();
  WriteFileAtomic(folder / "x.pth", LegacyFile(Text("a") + Tensor(2, last, "", last)));
  CHECK_THROWS_WITH(OpenPth(folder / "x.pth"), ContainsSubstring("leaves its storage"));
}

TEST_CASE("numbers for names, arrays of numpy and archives that are cut off are said to be that") {
  TempFolder folder;
  auto problem = [&](const std::string& content) {
    WriteFileAtomic(folder / "x.pth", content);
    return ProblemOf(folder / "x.pth");
  };
  CHECK_THAT(problem(LegacyFile(Int(1) + Tensor(4, 1))), ContainsSubstring("no state dict"));
  CHECK_THAT(
      problem("\x80\x02}" + Text("a") + Call("numpy.core.multiarray", "_reconstruct", "") + "s."),
      ContainsSubstring("is a pickle of numpy arrays") && ContainsSubstring("torch.from_numpy"));
  const std::string whole = ReadFile(Fixture("pth_zip.pth"));
  for (size_t size : {whole.size() - 1, whole.size() / 2, size_t{100}}) {
    CHECK_THAT(problem(whole.substr(0, size)), ContainsSubstring("is cut off or damaged"));
  }
}

TEST_CASE("a state dict is found inside of other dicts, averages aside, and said where it isn't") {
  TempFolder folder;
  auto open = [&](const std::string& entries) {
    WriteFileAtomic(folder / "x.pth", LegacyFile(entries));
    return OpenPth(folder / "x.pth");
  };
  auto dict = [](const std::string& name, const std::string& entries) {
    return Text(name) + "}(" + entries + "u";
  };
  auto layer = [&](const std::string& name, int64_t size) {
    return dict(name, Text("conv.weight") + Tensor(size, 1));
  };
  auto size = [&](const std::string& entries) {
    return open(entries)->Find("conv.weight")->shape[0];
  };
  const std::string used = Text("list") + "]" + Tensor(4, 1) + "a";  // no dict: no state dict
  CHECK(size(layer("net", 3)) == 3);
  CHECK(size(dict("checkpoint", layer("model", 3))) == 3);
  CHECK(size(layer("ema_state_dict", 2) + layer("params", 3)) == 3);
  CHECK(size(layer("teacher", 2) + layer("state_dict", 3)) == 3);
  CHECK(size(layer("model_ema", 2) + Text("epoch") + Int(3)) == 2);
  // An optimizer's state has tensors, but none of a layer.
  CHECK(size(layer("net", 3) + dict("optimizer", dict("state", Text("exp_avg") + Tensor(4, 1)))) ==
        3);
  CHECK_THROWS_WITH(open(layer("a", 2) + layer("b", 3)),
                    ContainsSubstring("[\"a\"] (1 entries)") &&
                        ContainsSubstring("torch.save(torch.load(path)[\"a\"], new_path)"));
  CHECK_THROWS_WITH(
      open(Text("epoch") + Int(3) + used + Text("model") + Call("my.code", "Net", "")),
      ContainsSubstring("`epoch`, `list`, `model` (an object of `my.code.Net`)") &&
          ContainsSubstring("torch.load(path)[\"model\"].state_dict()"));
  // One dict under two names is one.
  CHECK(size(Text("a") + "}q\x05(" + Text("conv.weight") + Tensor(3, 1) + "u" + Text("b") +
             "h\x05") == 3);
  // A dict that holds itself.
  CHECK_THROWS_WITH(open(used + Text("a") + "}q\x05(" + Text("b") + "h\x05u"),
                    ContainsSubstring("no state dict"));
  const std::string quantised = Call("torch._utils", "_rebuild_qtensor", TensorArguments(2, 2));
  CHECK_THROWS_WITH(open(Text("a.b") + quantised)->ReadFloats("a.b"),
                    ContainsSubstring("dequantize"));
}

TEST_CASE("what is no file of weights at all is named, whatever it is called") {
  TempFolder folder;
  for (const char* name : {"x.pth", "x.safetensors", "x.bin", "x"}) {
    CAPTURE(name);
    auto opens = [&](const std::string& content) {
      WriteFileAtomic(folder / name, content);
      OpenTensorFile(folder / name);
    };
    CHECK_THROWS_WITH(
        opens("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
        ContainsSubstring("this is a Git LFS pointer") && ContainsSubstring("git lfs pull"));
    CHECK_THROWS_WITH(
        opens("<!DOCTYPE html><html>404</html>"),
        ContainsSubstring("this is an HTML page") && ContainsSubstring("fetch the file again"));
    CHECK_THROWS_WITH(opens("<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>"),
                      ContainsSubstring("this is XML text"));
    CHECK_THROWS_WITH(opens("\x1f\x8b\x08"), ContainsSubstring("unpack it first"));
    CHECK_THROWS_WITH(opens(""), ContainsSubstring("the file is empty"));
  }
}
