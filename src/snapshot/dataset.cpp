#include "exp/snapshot/dataset.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <sstream>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/parallel.h"
#include "exp/base/walk.h"
#include "src/snapshot/hash_cache.h"

namespace fs = std::filesystem;

namespace xp::snapshot {
namespace {

// Every file below a folder, relative to it, also behind links: a class's folder may be one.
std::vector<std::string> NamesInFolder(const fs::path& folder) {
  std::vector<std::string> names;
  Walk walk;
  walk.file = [&](const fs::directory_entry& entry) {
    std::error_code error;
    if (entry.is_regular_file(error)) names.push_back(entry.path().lexically_relative(folder));
  };
  WalkFiles(folder, walk);
  return names;
}

struct Image {
  std::string name;
  FileKey key;
  bool there = false;
  std::string hash;
};

std::string ListText(const std::vector<Image>& images) {
  std::string out;
  for (const Image& image : images) {
    out += image.hash + ' ' + std::to_string(image.key.size) + ' ';
    for (char c : image.name) {
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    out += '\n';
  }
  return out;
}

// name -> "HASH SIZE"
std::map<std::string, std::string> ParseList(const std::string& list) {
  std::map<std::string, std::string> out;
  std::istringstream in(list);
  for (std::string line; std::getline(in, line);) {
    size_t a = line.find(' '), b = a == std::string::npos ? a : line.find(' ', a + 1);
    if (b != std::string::npos) out[line.substr(b + 1)] = line.substr(0, b);
  }
  return out;
}

Error StoppedAfter(int64_t done, size_t total, const fs::path& img_prefix) {
  return Error(ErrorKind::kInterrupted,
               {.what = fmt::format("stopped while images were hashed: {} of {}", done, total),
                .where = img_prefix.string(),
                .next = "the hashes are kept: the next time goes on behind them"});
}

// Hashes the images that are there; gives how many weren't known from before.
int64_t HashImages(const fs::path& img_prefix, const DatasetOptions& options,
                   std::vector<Image>* images, std::atomic<int64_t>* missing) {
  HashCache cache(options.cache_file);
  std::atomic<int64_t> hashed{0}, done{0};
  auto hash = [&](Image& image) {
    if (!image.there) return;
    fs::path file = img_prefix / image.name;
    if (cache.Find(file.string(), image.key, image.hash)) return;
    try {
      const int64_t began = NowNs();
      image.hash = HashFile(file).Hex();
      cache.Put(file.string(), image.key, began, image.hash);
      ++hashed;
    } catch (const Error&) {
      image.hash = "missing";
      ++*missing;
    }
  };
  auto hash_unless_stopped = [&](size_t i) {
    ThrowIfStopped(options.stop);
    hash((*images)[i]);
    ++done;
  };
  try {
    ForEachInParallel(images->size(), options.threads, hash_unless_stopped, options.progress);
  } catch (const Error&) {  // hash() throws none
    cache.Save();
    throw StoppedAfter(done, images->size(), img_prefix);
  }
  cache.Save();
  return hashed;
}

bool SameContent(const std::string& a, const std::string& b) {
  if (a == b) return true;
  bool cheap = a[0] == '-' || b[0] == '-';
  return cheap && a.substr(a.find(' ')) == b.substr(b.find(' '));
}

}  // namespace

DatasetFingerprint FingerprintDataset(const fs::path& ann_file, const fs::path& img_prefix,
                                      std::vector<std::string> names,
                                      const DatasetOptions& options) {
  DatasetFingerprint out{.ann_file = ann_file.string(), .img_prefix = img_prefix.string()};
  out.ann_hash = (ann_file.empty() ? HashBytes("") : HashFile(ann_file)).Hex();
  if (ann_file.empty()) names = NamesInFolder(img_prefix);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<Image> images(names.size());
  std::atomic<int64_t> bytes{0}, missing{0};
  ForEachInParallel(images.size(), options.threads, [&](size_t i) {
    images[i].name = names[i];
    images[i].there = StatFile(img_prefix / names[i], images[i].key);
    images[i].hash = images[i].there ? "-" : "missing";
    images[i].there ? bytes += images[i].key.size : ++missing;
  });
  out.cheap = options.mode == DataMode::kCheap ||
              (options.mode == DataMode::kAuto && bytes > options.auto_limit_bytes);
  if (!out.cheap) out.hashed = HashImages(img_prefix, options, &images, &missing);
  out.images = static_cast<int64_t>(images.size());
  out.bytes = bytes;
  out.missing = missing;
  out.image_list = ListText(images);
  out.fingerprint = HashBytes(out.ann_hash + '\n' + out.image_list).Hex();
  return out;
}

std::vector<DatasetChange> CompareImageLists(const std::string& before, const std::string& now) {
  std::map<std::string, std::string> a = ParseList(before), b = ParseList(now);
  std::vector<DatasetChange> changes;
  for (const auto& [name, content] : a) {
    auto found = b.find(name);
    if (found == b.end()) {
      changes.push_back({DatasetChange::Kind::kRemoved, name});
    } else if (!SameContent(content, found->second)) {
      changes.push_back({DatasetChange::Kind::kChanged, name});
    }
  }
  for (const auto& [name, content] : b) {
    if (!a.count(name)) changes.push_back({DatasetChange::Kind::kAdded, name});
  }
  return changes;
}

}  // namespace xp::snapshot
