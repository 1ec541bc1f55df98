#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "catch.h"
#include "exp/base/base64.h"
#include "exp/base/child_process.h"
#include "exp/base/error.h"
#include "exp/base/escape.h"
#include "exp/base/file.h"
#include "exp/base/hash.h"
#include "exp/base/library_version.h"
#include "exp/base/philox.h"
#include "exp/base/stopwatch.h"
#include "exp/base/temporary_folder.h"
#include "exp/base/utf8.h"
#include "exp/base/walk.h"

namespace fs = std::filesystem;

TEST_CASE("an error says where, what, what was expected and what to do") {
  xp::Error e = xp::UsageError({"`lr` is a string", "a.yaml:3:7", "a number", "drop the quotes"});
  CHECK(std::string(e.what()) ==
        "a.yaml:3:7: `lr` is a string\n  expected: a number\n  next: drop the quotes");
  CHECK(e.exit_code() == 2);
}

TEST_CASE("xxh128 agrees with the reference tool") {
  // printf '' | xxh128sum; printf 'abc' | xxh128sum (xxhsum 0.8.1)
  CHECK(xp::HashBytes("").Hex() == "99aa06d3014798d86001c324468d497f");
  CHECK(xp::HashBytes("abc").Hex() == "06b05ab6733a618578af5f94892f3950");
  xp::Hasher h;
  h.Update("a");
  h.Update("bc");
  CHECK(h.Digest() == xp::HashBytes("abc"));
}

TEST_CASE("philox agrees with Random123's known answers") {
  // kat_vectors of Random123 1.14: philox4x32-10 with zeros, and with all ones.
  xp::Philox4 zero = xp::Philox(0, 0, 0, 0, 0);
  CHECK(zero.v[0] == 0x6627e8d5u);
  CHECK(zero.v[1] == 0xe169c58du);
  CHECK(zero.v[2] == 0xbc57ac4cu);
  CHECK(zero.v[3] == 0x9b00dbd8u);
  uint32_t f = 0xffffffffu;
  xp::Philox4 ones = xp::Philox(~0ull, f, f, f, f);
  CHECK(ones.v[0] == 0x408f276du);
  CHECK(ones.v[1] == 0x41c83b0eu);
  CHECK(ones.v[2] == 0xa20bc7c6u);
  CHECK(ones.v[3] == 0x6d5451fdu);
}

TEST_CASE("a stream is in range and unbiased enough") {
  xp::RandomStream s(1, xp::RandomPurpose::kTest, 0, 0);
  int counts[3] = {0, 0, 0};
  double mean = 0, square = 0;
  for (int i = 0; i < 30000; ++i) ++counts[s.Below(3)];
  for (int i = 0; i < 30000; ++i) {
    double x = s.Normal();
    mean += x / 30000;
    square += x * x / 30000;
  }
  for (int c : counts) CHECK(std::abs(c - 10000) < 400);
  CHECK(std::abs(mean) < 0.03);
  CHECK(std::abs(square - 1) < 0.05);
}

TEST_CASE("a stream that seeks gives what it would have given there") {
  xp::RandomStream whole(7, xp::RandomPurpose::kTest, 2, 3);
  std::vector<uint32_t> words(41);
  for (uint32_t& word : words) word = whole.NextU32();
  for (size_t at : {0, 1, 3, 4, 5, 8, 22, 39}) {
    xp::RandomStream s(7, xp::RandomPurpose::kTest, 2, 3);
    s.NextU32();
    s.Seek(at);
    CHECK(s.NextU32() == words[at]);
    CHECK(s.NextU32() == words[at + 1]);
  }
  // A normal number and a double take as many words as they say.
  xp::RandomStream a(7, xp::RandomPurpose::kTest, 0, 0), b = a;
  a.Normal();
  a.NextDouble();
  b.Seek(xp::RandomStream::kWordsPerNormal + xp::RandomStream::kWordsPerDouble);
  CHECK(a.NextU32() == b.NextU32());
}

TEST_CASE("an atomic write replaces the whole content and leaves nothing beside it") {
  fs::path dir = fs::temp_directory_path() / ("exp_file_test_" + std::to_string(::getpid()));
  fs::create_directories(dir);
  xp::WriteFileAtomic(dir / "a", "one");
  xp::WriteFileAtomic(dir / "a", "two");
  CHECK(xp::ReadFile(dir / "a") == "two");
  CHECK(std::distance(fs::directory_iterator(dir), fs::directory_iterator()) == 1);
  CHECK_THROWS_WITH(xp::ReadFile(dir / "none"), ContainsSubstring("No such file"));
  CHECK_THROWS_AS(xp::WriteFileAtomic(dir / "no" / "a", "x"), xp::Error);
  fs::remove_all(dir);
}

TEST_CASE("a device and a pipe are written as they are, not replaced") {
  xp::WriteFileAtomic("/dev/null", "x");
  CHECK(std::filesystem::is_character_file("/dev/null"));
  xp::TemporaryFolder folder("base-test");
  std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  int fd = ::open(pipe.c_str(), O_RDWR);
  xp::WriteFileAtomic(pipe, "through");
  char text[16] = {};
  CHECK(::read(fd, text, sizeof(text)) == 7);
  CHECK(std::string(text) == "through");
  ::close(fd);
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("versions of CUDA's libraries, by how each numbers them") {
  CHECK(xp::CudaVersionText(13010) == "13.1");
  CHECK(xp::CudaVersionText(12080) == "12.8");
  CHECK(xp::CudnnVersionText(91900) == "9.19.0");
  CHECK(xp::CudnnVersionText(90100) == "9.1.0");
  CHECK(xp::CudnnVersionText(8902) == "8.9.2");
  CHECK(xp::NcclVersionText(22809) == "2.28.9");
  CHECK(xp::NcclVersionText(2804) == "2.8.4");
  CHECK_FALSE(xp::AskLibrary("/no/such/library.so", "f", xp::LibraryCall::kSize));
  CHECK_FALSE(xp::AskLibrary("libc.so.6", "no_such_function", xp::LibraryCall::kInt));
  // Of the real C library: getppid fits `size_t name(void)` well enough to be asked, and tells that
  // a child of this process was. What ends that child ends nothing else.
  CHECK(xp::AskLibrary("libc.so.6", "getppid", xp::LibraryCall::kSize) == ::getpid());
  CHECK_FALSE(xp::AskLibrary("libc.so.6", "abort", xp::LibraryCall::kSize));
}

TEST_CASE("text for HTML and CSV") {
  CHECK(xp::EscapeHtml("<a href=\"x\">&") == "&lt;a href=&quot;x&quot;&gt;&amp;");
  CHECK(xp::EscapeHtml("\xff") == "\xef\xbf\xbd");
  CHECK(xp::EscapeHtml(std::string_view("a\0\x1b[31m\n\u00e9", 10)) == "a\\x00\\x1b[31m\n\u00e9");
  CHECK(xp::CsvCell("plain text") == "plain text");
  CHECK(xp::CsvCell("a,b") == "\"a,b\"");
  CHECK(xp::CsvCell("say \"x\"\n") == "\"say \"\"x\"\"\n\"");
}

TEST_CASE("text for URLs and shells") {
  CHECK(xp::PercentEncoded("aZ9-_.~ /%#\n\u00e9") == "aZ9-_.~%20%2F%25%23%0A%C3%A9");
  CHECK(xp::PercentEncoded("/a b/c", "/") == "/a%20b/c");
  CHECK(xp::ShellWord("/a_b-c.d:e=f,g@h%i+1\u00e9") == "/a_b-c.d:e=f,g@h%i+1\u00e9");
  CHECK(xp::ShellWord("") == "''");
  for (const char* text : {"a b", "it's", "$HOME", "~", "a\nb", "#x", "!x", "a\\b", "`x`", "*"}) {
    xp::ChildProcess shell({"sh", "-c", std::string("printf %s ") + xp::ShellWord(text)});
    CHECK(shell.Rest(1) == text);
  }
}

TEST_CASE("a child's lines: empty ones are lines, the end is none") {
  xp::ChildProcess child({"sh", "-c", "echo a; echo; printf b"});
  CHECK(child.Line(10) == "a");
  CHECK(child.Line(10) == "");
  CHECK_FALSE(child.Line(10));
  CHECK(child.Rest(1) == "b");
  CHECK(child.at_end());
  xp::ChildProcess killed({"sh", "-c", "kill -9 $$"});
  CHECK(killed.Wait() == -1);
}

TEST_CASE("a child that goes on without output is waited for no longer than was said") {
  const auto start = std::chrono::steady_clock::now();
  xp::ChildProcess child({"sh", "-c", "exec >&-; exec sleep 100"});
  CHECK_FALSE(child.Line(10));
  CHECK(child.at_end());
  CHECK(child.Wait(0.1) == xp::ChildProcess::kEnded);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  xp::ChildProcess silent({"sleep", "100"});
  CHECK(silent.Rest(0.1).empty());
  CHECK(silent.Wait(5) == -1);  // it was ended when the time had passed
  xp::ChildProcess floods({"sh", "-c", "yes | tr -d '\\n'"});
  CHECK(floods.Rest(20).size() > (size_t{16} << 20));
  CHECK(floods.Wait(0.1) == xp::ChildProcess::kEnded);
  xp::ChildProcess ends({"sh", "-c", "exec >&-; sleep 0.1; exit 3"});
  CHECK_FALSE(ends.Line(10));
  CHECK(ends.Wait() == 3);
}

TEST_CASE("UTF-8 is told from what only looks like it, as RFC 3629 says") {
  for (const char* good : {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    CHECK(xp::IsValidUtf8(good));
    CHECK(xp::ValidUtf8(good) == good);
  }
  for (const char* bad : {"\x80", "\xc1\xbf", "\xc2", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    CHECK_FALSE(xp::IsValidUtf8(bad));
    CHECK(xp::IsValidUtf8(xp::ValidUtf8(bad)));
  }
  CHECK(xp::ValidUtf8("a\xff\xc3\xa9\xe2\x82z") ==
        "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbdz");
}

TEST_CASE("a text is cut between characters") {
  const std::string text = "a\u00e9\u20ac\U0001f600b";  // of 1, 2, 3, 4 and 1 bytes
  const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (size_t most = 0; most < std::size(ends); ++most) {
    CHECK(xp::Utf8Head(text, most) == text.substr(0, ends[most]));
    CHECK(xp::Abridged(text, most) == text.substr(0, ends[most]) + (most < 11 ? "..." : ""));
  }
  const std::string other(9, '\x80');  // no UTF-8: cut where it is asked for
  CHECK(xp::Utf8Head(other, 7) == other.substr(0, 7));
  CHECK(xp::Utf8Head(other, 2) == other.substr(0, 2));
}

TEST_CASE("a walk follows links, but not those that go round") {
  const xp::TemporaryFolder temporary("walk");
  const fs::path folder = temporary.path(), root = folder / "root";
  for (const char* file : {"root/a", "root/b/c", "root/b/d/e", "root/skipped/f", "other/g"}) {
    fs::create_directories((folder / file).parent_path());
    xp::WriteFileAtomic(folder / file, file);
  }
  fs::create_directory_symlink("../other", root / "linked");
  fs::create_directory_symlink("../b", root / "b/itself");
  fs::create_directory_symlink("../..", root / "b/up");
  fs::create_directory_symlink("../root/b",
                               folder / "other/back");  // and b is no loop of it
  fs::create_symlink("nowhere", root / "gone");
  std::set<std::string> seen;
  xp::Walk walk;
  walk.enter = [](const fs::path& path) { return path.filename() != "skipped"; };
  walk.file = [&](const fs::directory_entry& entry) {
    CHECK(seen.insert(entry.path().lexically_relative(root).string()).second);
  };
  CHECK_FALSE(xp::WalkFiles(root, walk));
  CHECK(seen == std::set<std::string>{"a", "b/c", "b/d/e", "gone", "linked/g", "linked/back/c",
                                      "linked/back/d/e"});
  fs::path where;
  CHECK(xp::WalkFiles(root / "none", walk, &where) == std::errc::no_such_file_or_directory);
  CHECK(where == root / "none");
  int before_the_end = 3;
  seen.clear();
  walk.more = [&] { return --before_the_end >= 0; };
  CHECK_FALSE(xp::WalkFiles(root, walk));
  CHECK(before_the_end == -1);
  CHECK(seen.size() <= 3);
}

TEST_CASE("a walk ends at a folder that can't be listed, or passes it over") {
  const xp::TemporaryFolder temporary("walk");
  const fs::path root = temporary.path();
  for (const char* file : {"a/1", "closed/2", "c/3"}) {
    fs::create_directories((root / file).parent_path());
    xp::WriteFileAtomic(root / file, file);
  }
  // Also root can't list what is no folder any more when its turn comes.
  const auto close = [&] { fs::rename(root / "closed", root / "gone"); };
  std::set<std::string> seen;
  xp::Walk walk;
  walk.enter = [&](const fs::path& path) {
    if (path.filename() == "closed") close();
    return path.filename() != "gone";
  };
  walk.file = [&](const fs::directory_entry& entry) {
    seen.insert(entry.path().lexically_relative(root).string());
  };
  fs::path where;
  CHECK(xp::WalkFiles(root, walk, &where) == std::errc::no_such_file_or_directory);
  CHECK(where == root / "closed");
  fs::rename(root / "gone", root / "closed");
  walk.pass_over = true;
  seen.clear();
  CHECK_FALSE(xp::WalkFiles(root, walk));
  CHECK(seen == std::set<std::string>{"a/1", "c/3"});
  CHECK(xp::WalkFiles(root / "none", walk) == std::errc::no_such_file_or_directory);
}

TEST_CASE("base64 is RFC 4648's, both ways") {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};  // section 10
  for (const auto& [bytes, text] : vectors) {
    CHECK(xp::EncodeBase64(bytes) == text);
    CHECK(xp::DecodeBase64(text) == bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(xp::DecodeBase64(xp::EncodeBase64(all)) == all);
  CHECK(xp::EncodeBase64("\xFB\xFF\xBF") == "+/+/");
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg==Zg==", "Z===", "====", "Zm 9", "Zm9v\n", "Zm-_",
                          "Zm\xFF"
                          "9"})
    CHECK_FALSE(xp::DecodeBase64(bad));
}
