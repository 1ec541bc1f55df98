#include "exp/snapshot/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "../record/temporary.h"
#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/hash.h"

namespace fs = std::filesystem;
using namespace xp::snapshot;

namespace {

void Write(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

const char* kAnnotations =
    R"({"categories":[{"id":1,"name":"file_name"}],"annotations":[{"id":1,"file_name":"not me"}],
  "images":[{"id":1,"file_name":"a.jpg","license":{"file_name":"nor me"}},{"id":2,"file_name":"sub/b.jpg"},
  {"id":3,"file_name":"none.jpg"}]})";

}  // namespace

TEST_CASE("the fingerprint covers annotations, names, sizes and contents, and uses its cache") {
  TemporaryFolder t;
  Write(t.path / "ann.json", kAnnotations);
  Write(t.path / "img" / "a.jpg", "aaaa");
  Write(t.path / "img" / "sub" / "b.jpg", "bb");
  DatasetOptions o{.mode = DataMode::kFull, .threads = 4, .cache_file = t.path / "cache"};
  DatasetFingerprint f = FingerprintDataset(t.path / "ann.json", t.path / "img", o);
  CHECK(f.images == 3);
  CHECK(f.missing == 1);
  CHECK(f.bytes == 6);
  CHECK(f.hashed == 2);
  CHECK(f.image_list == xp::HashBytes("aaaa").Hex() + " 4 a.jpg\nmissing 0 none.jpg\n" +
                            xp::HashBytes("bb").Hex() + " 2 sub/b.jpg\n");
  DatasetFingerprint again = FingerprintDataset(t.path / "ann.json", t.path / "img", o);
  CHECK(again.hashed == 0);
  CHECK(again.fingerprint == f.fingerprint);
  // Same size and, by utimes, the same mtime: still noticed.
  struct stat info;
  ::stat((t.path / "img" / "a.jpg").c_str(), &info);
  Write(t.path / "img" / "a.jpg", "aaab");
  timespec times[2] = {info.st_atim, info.st_mtim};
  ::utimensat(AT_FDCWD, (t.path / "img" / "a.jpg").c_str(), times, 0);
  DatasetFingerprint changed = FingerprintDataset(t.path / "ann.json", t.path / "img", o);
  CHECK(changed.hashed == 1);
  CHECK(changed.fingerprint != f.fingerprint);
  std::vector<DatasetChange> changes = CompareImageLists(f.image_list, changed.image_list);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "a.jpg");
  CHECK(changes[0].kind == DatasetChange::Kind::kChanged);
  DatasetFingerprint cheap =
      FingerprintDataset(t.path / "ann.json", t.path / "img", {.mode = DataMode::kCheap});
  CHECK(cheap.cheap);
  CHECK(cheap.hashed == 0);
  CHECK(CompareImageLists(f.image_list, cheap.image_list).empty());
  CHECK(FingerprintDataset(t.path / "ann.json", t.path / "img", {.auto_limit_bytes = 1}).cheap);
  std::ofstream(t.path / "cache") << "rubbish\n\n1 2 3";
  CHECK(FingerprintDataset(t.path / "ann.json", t.path / "img", o).hashed == 2);
}

TEST_CASE("odd annotation files don't hurt") {
  TemporaryFolder t;
  for (const char* text :
       {"", "[]", "{", "{\"images\":5}", "{\"images\":[{\"file_name\":5}]}", "\xff\xfe", "null"}) {
    Write(t.path / "ann.json", text);
    CHECK(FingerprintDataset(t.path / "ann.json", t.path, {}).images == 0);
  }
  CHECK_THROWS_AS(FingerprintDataset(t.path / "none.json", t.path, {}), xp::Error);
}

TEST_CASE("of class folders every image counts, also behind links") {
  TemporaryFolder t;
  Write(t.path / "set" / "cat" / "a.jpg", "aaaa");
  Write(t.path / "elsewhere" / "dogs" / "b.jpg", "bb");
  fs::create_directory_symlink(t.path / "elsewhere" / "dogs", t.path / "set" / "dog");
  fs::create_directory_symlink("..", t.path / "set" / "cat" / "round");
  DatasetOptions o{.mode = DataMode::kFull};
  DatasetFingerprint f = FingerprintDataset("", t.path / "set", o);
  CHECK(f.image_list == xp::HashBytes("aaaa").Hex() + " 4 cat/a.jpg\n" + xp::HashBytes("bb").Hex() +
                            " 2 dog/b.jpg\n");
  Write(t.path / "elsewhere" / "dogs" / "b.jpg", "bc");
  DatasetFingerprint now = FingerprintDataset("", t.path / "set", o);
  CHECK(now.fingerprint != f.fingerprint);
  std::vector<DatasetChange> changes = CompareImageLists(f.image_list, now.image_list);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "dog/b.jpg");
}

TEST_CASE("hashing tells how far it is, and can be stopped without losing what was hashed") {
  TemporaryFolder t;
  Write(t.path / "ann.json", kAnnotations);
  Write(t.path / "img" / "a.jpg", "aaaa");
  Write(t.path / "img" / "sub" / "b.jpg", "bb");
  std::atomic<bool> stop{false};
  std::vector<std::pair<int64_t, int64_t>> told;
  DatasetOptions o{.mode = DataMode::kFull, .threads = 1, .cache_file = t.path / "cache"};
  o.stop = &stop;
  o.progress = [&](int64_t done, int64_t total) {
    told.emplace_back(done, total);
    stop = done == 1;
  };
  auto fingerprint = [&] { return FingerprintDataset(t.path / "ann.json", t.path / "img", o); };
  try {
    fingerprint();
    FAIL("it wasn't stopped");
  } catch (const xp::Error& e) {
    CHECK(e.kind() == xp::ErrorKind::kInterrupted);
    CHECK_THAT(e.what(), ContainsSubstring("1 of 3"));
  }
  CHECK(told == std::vector<std::pair<int64_t, int64_t>>{{1, 3}});
  stop = false;
  o.progress = nullptr;
  CHECK(fingerprint().hashed == 1);  // the other one was kept
}
