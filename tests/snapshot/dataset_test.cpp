#include "exp/snapshot/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "../record/temporary.h"
#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "src/snapshot/hash_cache.h"

namespace fs = std::filesystem;
using namespace xp::snapshot;

namespace {

void Write(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

// Until what was written is remembered by the cache.
void LetItAge() { std::this_thread::sleep_for(std::chrono::milliseconds(2100)); }

const std::vector<std::string> kNames = {"sub/b.jpg", "a.jpg", "none.jpg", "a.jpg"};

}  // namespace

TEST_CASE("the fingerprint covers annotations, names, sizes and contents, and uses its cache") {
  TemporaryFolder t;
  Write(t.path / "ann.json", "annotations");
  Write(t.path / "img" / "a.jpg", "aaaa");
  Write(t.path / "img" / "sub" / "b.jpg", "bb");
  DatasetOptions o{.mode = DataMode::kFull, .threads = 4, .cache_file = t.path / "cache"};
  LetItAge();
  DatasetFingerprint f = FingerprintDataset(t.path / "ann.json", t.path / "img", kNames, o);
  CHECK(f.ann_hash == xp::HashBytes("annotations").Hex());
  CHECK(f.images == 3);
  CHECK(f.missing == 1);
  CHECK(f.bytes == 6);
  CHECK(f.hashed == 2);
  CHECK(f.image_list == xp::HashBytes("aaaa").Hex() + " 4 a.jpg\nmissing 0 none.jpg\n" +
                            xp::HashBytes("bb").Hex() + " 2 sub/b.jpg\n");
  DatasetFingerprint again = FingerprintDataset(t.path / "ann.json", t.path / "img", kNames, o);
  CHECK(again.hashed == 0);
  CHECK(again.fingerprint == f.fingerprint);
  // Same size and, by utimes, the same mtime: still noticed.
  struct stat info;
  ::stat((t.path / "img" / "a.jpg").c_str(), &info);
  Write(t.path / "img" / "a.jpg", "aaab");
  timespec times[2] = {info.st_atim, info.st_mtim};
  ::utimensat(AT_FDCWD, (t.path / "img" / "a.jpg").c_str(), times, 0);
  DatasetFingerprint changed = FingerprintDataset(t.path / "ann.json", t.path / "img", kNames, o);
  CHECK(changed.hashed == 1);
  CHECK(changed.fingerprint != f.fingerprint);
  std::vector<DatasetChange> changes = CompareImageLists(f.image_list, changed.image_list);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "a.jpg");
  CHECK(changes[0].kind == DatasetChange::Kind::kChanged);
  DatasetFingerprint cheap =
      FingerprintDataset(t.path / "ann.json", t.path / "img", kNames, {.mode = DataMode::kCheap});
  CHECK(cheap.cheap);
  CHECK(cheap.hashed == 0);
  CHECK(CompareImageLists(f.image_list, cheap.image_list).empty());
  CHECK(FingerprintDataset(t.path / "ann.json", t.path / "img", kNames, {.auto_limit_bytes = 1})
            .cheap);
  std::ofstream(t.path / "cache") << "rubbish\n\n1 2 3";
  CHECK(FingerprintDataset(t.path / "ann.json", t.path / "img", kNames, o).hashed == 2);
  CHECK_THROWS_AS(FingerprintDataset(t.path / "gone.json", t.path, {}, {}), xp::Error);
}

TEST_CASE("the hash of a file that changed a moment before is not remembered") {
  TemporaryFolder t;
  Write(t.path / "ann.json", "annotations");
  Write(t.path / "a.jpg", "aaaa");
  DatasetOptions o{.mode = DataMode::kFull, .cache_file = t.path / "cache"};
  for (int i = 0; i < 2; ++i)
    CHECK(FingerprintDataset(t.path / "ann.json", t.path, {"a.jpg"}, o).hashed == 1);
  // As a file system stamps that counts in steps of two seconds: hashed at 11.9 s, written again at
  // 11.95 s, it has the times that it had.
  constexpr int64_t kSecond = 1'000'000'000, kHashed = 11'900'000'000;
  const auto put = [&](int64_t mtime, int64_t ctime) {
    xp::snapshot::FileKey key{.size = 4, .mtime_ns = mtime, .ctime_ns = ctime, .inode = 1};
    std::string hash;
    {
      HashCache cache(t.path / "made-up");
      cache.Put("/f", key, kHashed, std::string(32, 'a'));
      cache.Save();
    }
    const bool found = HashCache(t.path / "made-up").Find("/f", key, hash);
    fs::remove(t.path / "made-up");
    return found;
  };
  CHECK_FALSE(put(10 * kSecond, 10 * kSecond));
  CHECK_FALSE(put(1 * kSecond, 10 * kSecond));  // its mtime set back
  CHECK_FALSE(put(10 * kSecond, 1 * kSecond));
  CHECK_FALSE(put(99 * kSecond, 99 * kSecond));  // by another machine's clock
  CHECK(put(9 * kSecond, 9 * kSecond));
  // What older programs remembered may be such a hash.
  std::ofstream(t.path / "made-up")
      << std::string(32, 'a') << " 4 1 1 1 " << xp::HashBytes("/f").Hex() << "\n";
  std::string hash;
  CHECK_FALSE(HashCache(t.path / "made-up").Find("/f", {4, 1, 1, 1}, hash));
}

TEST_CASE("of class folders every image counts, also behind links") {
  TemporaryFolder t;
  Write(t.path / "set" / "cat" / "a.jpg", "aaaa");
  Write(t.path / "elsewhere" / "dogs" / "b.jpg", "bb");
  fs::create_directory_symlink(t.path / "elsewhere" / "dogs", t.path / "set" / "dog");
  fs::create_directory_symlink("..", t.path / "set" / "cat" / "round");
  DatasetOptions o{.mode = DataMode::kFull};
  DatasetFingerprint f = FingerprintDataset("", t.path / "set", {}, o);
  CHECK(f.image_list == xp::HashBytes("aaaa").Hex() + " 4 cat/a.jpg\n" + xp::HashBytes("bb").Hex() +
                            " 2 dog/b.jpg\n");
  Write(t.path / "elsewhere" / "dogs" / "b.jpg", "bc");
  DatasetFingerprint now = FingerprintDataset("", t.path / "set", {}, o);
  CHECK(now.fingerprint != f.fingerprint);
  std::vector<DatasetChange> changes = CompareImageLists(f.image_list, now.image_list);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "dog/b.jpg");
}

TEST_CASE("hashing tells how far it is, and can be stopped without losing what was hashed") {
  TemporaryFolder t;
  Write(t.path / "ann.json", "annotations");
  Write(t.path / "img" / "a.jpg", "aaaa");
  Write(t.path / "img" / "sub" / "b.jpg", "bb");
  LetItAge();
  std::atomic<bool> stop{false};
  std::vector<std::pair<int64_t, int64_t>> told;
  DatasetOptions o{.mode = DataMode::kFull, .threads = 1, .cache_file = t.path / "cache"};
  o.stop = &stop;
  o.progress = [&](int64_t done, int64_t total) {
    told.emplace_back(done, total);
    stop = done == 1;
  };
  auto fingerprint = [&] {
    return FingerprintDataset(t.path / "ann.json", t.path / "img", kNames, o);
  };
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
