// What the data were: the annotation file's hash, and each image's name, size and content hash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "exp/base/stop.h"

namespace xp::snapshot {

enum class DataMode {
  kFull,   // every byte is hashed (once: later runs use the cache while size, mtime and inode stay)
  kCheap,  // names and sizes only; says so in the record
  kAuto,   // full up to DatasetOptions::auto_limit_bytes, cheap above
};

struct DatasetOptions {
  DataMode mode = DataMode::kAuto;
  int64_t auto_limit_bytes = int64_t{64} << 30;
  int threads = 0;                   // 0: all cores
  std::filesystem::path cache_file;  // empty: no cache
  // How many of the images are hashed, from one thread at a time; may be empty.
  std::function<void(int64_t done, int64_t total)> progress;
  StopFlag stop = nullptr;  // ends it between two images
};

struct DatasetFingerprint {
  std::string ann_file, ann_hash, img_prefix;
  int64_t images = 0;   // named by the annotation file
  int64_t bytes = 0;    // of those that are there
  int64_t missing = 0;  // named, but not there or unreadable
  bool cheap = false;
  std::string fingerprint;  // xxh128 of ann_hash and image_list
  std::string image_list;   // lines "HASH SIZE NAME", sorted by name; HASH is "-" in cheap mode and
                            // "missing" for what isn't there
  int64_t hashed = 0;       // how many contents were read now, not taken from the cache
};

// `names`: the images that `ann_file` names, relative to `img_prefix`. Without an `ann_file` they
// are every file below `img_prefix`. Throws UsageError where the annotation file can't be read.
// Where `stop` says so, throws an Error of the kind kInterrupted; the cache keeps what was hashed.
DatasetFingerprint FingerprintDataset(const std::filesystem::path& ann_file,
                                      const std::filesystem::path& img_prefix,
                                      std::vector<std::string> names,
                                      const DatasetOptions& options);

struct DatasetChange {
  enum class Kind { kAdded, kRemoved, kChanged };
  Kind kind;
  std::string name;
};
// By name, in order. A content known on one side only counts as unchanged when the sizes agree.
std::vector<DatasetChange> CompareImageLists(const std::string& before, const std::string& now);

}  // namespace xp::snapshot
