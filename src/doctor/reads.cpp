// How fast the data folder can be read.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "exp/base/file_descriptor.h"
#include "exp/base/hash.h"
#include "exp/base/parallel.h"
#include "exp/base/resources.h"
#include "exp/base/stopwatch.h"
#include "exp/base/walk.h"
#include "exp/data/image_io.h"
#include "exp/doctor/measure.h"

namespace fs = std::filesystem;

namespace xp::doctor {
namespace {

constexpr int64_t kMostFiles = 20000;  // that are looked at
constexpr size_t kMostSmall = 2000;
constexpr uint64_t kLarge = uint64_t{32} << 20, kOwn = uint64_t{128} << 20;
constexpr uint64_t kLeastOwn = uint64_t{8} << 20;
constexpr size_t kBlock = size_t{1} << 20;

struct File {
  std::string path;
  uint64_t bytes = 0, key = 0;
};

struct Listing {
  std::vector<File> small, images;
  File largest;
  int64_t seen = 0, images_seen = 0;
};

// Data sets lie behind links more often than not; each folder is entered once, whatever leads to
// it.
class Folders {
 public:
  bool Enter(const fs::path& folder) {
    struct stat info {};
    return !folder.filename().string().starts_with('.') && ::stat(folder.c_str(), &info) == 0 &&
           entered_.emplace(info.st_dev, info.st_ino).second;
  }

 private:
  std::set<std::pair<dev_t, ino_t>> entered_;
};

void Take(const fs::directory_entry& entry, Listing* out) {
  std::error_code error;
  if (!entry.is_regular_file(error) || error) return;
  ++out->seen;
  File f{entry.path().string(), entry.file_size(error), 0};
  if (error || f.bytes == 0) return;
  f.key = HashBytes(f.path).low;
  if (f.bytes > out->largest.bytes) out->largest = f;
  const bool image = data::HasJpegEnding(entry.path());
  out->images_seen += image ? 1 : 0;
  if (f.bytes <= (uint64_t{4} << 20)) (image ? out->images : out->small).push_back(f);
}

// In an order that has nothing to do with how they lie on the disk, as training reads them.
Listing List(const std::string& folder, double seconds, StopFlag stop) {
  Listing out;
  Stopwatch watch;
  Folders folders;
  Walk walk;
  walk.enter = [&](const fs::path& path) { return folders.Enter(path); };
  walk.file = [&](const fs::directory_entry& entry) { Take(entry, &out); };
  walk.more = [&] { return out.seen < kMostFiles && watch.Seconds() <= seconds && !Stopped(stop); };
  walk.pass_over = true;
  WalkFiles(folder, walk);
  for (auto* list : {&out.small, &out.images}) {
    std::sort(list->begin(), list->end(),
              [](const File& a, const File& b) { return a.key < b.key; });
  }
  return out;
}

struct AlignedBlock {
  AlignedBlock() : data(static_cast<char*>(std::aligned_alloc(4096, kBlock))) {}
  ~AlignedBlock() { std::free(data); }
  AlignedBlock(const AlignedBlock&) = delete;
  AlignedBlock& operator=(const AlignedBlock&) = delete;
  char* data;
};

// Reads to the end, or until `seconds` pass; bytes that were read.
uint64_t ReadAll(int fd, double seconds, StopFlag stop) {
  AlignedBlock block;
  uint64_t bytes = 0;
  Stopwatch watch;
  while (block.data != nullptr && watch.Seconds() < seconds && !Stopped(stop)) {
    ssize_t n = ::read(fd, block.data, kBlock);
    if (n <= 0) break;
    bytes += static_cast<uint64_t>(n);
  }
  return bytes;
}

// Past the page cache where the file system allows it; else after asking for its pages to be
// dropped.
double ReadSequential(const std::string& path, double seconds, StopFlag stop) {
  int direct = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  const FileDescriptor file(direct >= 0 ? direct : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.good()) return 0;
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  Stopwatch watch;
  uint64_t bytes = ReadAll(file.get(), seconds, stop);
  double took = watch.Seconds();
  return bytes > 0 && took > 0 ? static_cast<double>(bytes) / took : 0;
}

// How large a file may be made in the folder: the disk, which others need, the limit of files, and
// memory, where the folder lies in it (tmpfs).
uint64_t OwnFileBytes(const std::string& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return 0;
  uint64_t free_bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  uint64_t most = std::min({kOwn, free_bytes / 4, FileSizeLimit(), UsableMemory().free_bytes / 4});
  return most / kBlock * kBlock;
}

// A file without a name in the folder, which is gone when it is closed.
double ReadOwnFile(const std::string& folder, uint64_t size, double seconds, StopFlag stop) {
  const FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  AlignedBlock block;
  if (!file.good() || block.data == nullptr) return 0;
  uint64_t random = 1;
  for (size_t i = 0; i + 8 <= kBlock; i += 8) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    std::copy_n(reinterpret_cast<const char*>(&random), 8, block.data + i);
  }
  uint64_t written = 0;
  Stopwatch watch;
  while (written < size && watch.Seconds() < seconds && !Stopped(stop)) {
    ssize_t n = ::write(file.get(), block.data, kBlock);
    if (n <= 0) break;
    written += static_cast<uint64_t>(n);
  }
  if (Stopped(stop)) return 0;
  ::fsync(file.get());
  if (written < kLeastOwn) return 0;
  return ReadSequential(fmt::format("/proc/self/fd/{}", file.get()), seconds, stop);
}

void ReadSmall(const std::vector<File>& files, double seconds, ReadSpeed& out, StopFlag stop) {
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> bytes{0}, count{0};
  Stopwatch watch;
  out.threads = OnThreads(std::clamp(UsableCpus(), 1, 16), [&](int) {
    for (size_t i; (i = next++) < files.size() && watch.Seconds() < seconds && !Stopped(stop);) {
      const FileDescriptor file(::open(files[i].path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!file.good()) continue;
      ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
      bytes += ReadAll(file.get(), seconds, stop);
      ++count;
    }
  });
  double took = watch.Seconds();
  if (count == 0 || took <= 0) return;
  out.small_files_a_second = static_cast<double>(count) / took;
  out.small_bytes_a_second = static_cast<double>(bytes) / took;
}

}  // namespace

ReadSpeed MeasureReads(const std::string& folder, double seconds, StopFlag stop) {
  ReadSpeed out;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    out.problem = "there is no such folder";
    return out;
  }
  if (::access(folder.c_str(), R_OK | X_OK) != 0) {
    out.problem = "this user may not read it";
    return out;
  }
  Listing listing = List(folder, seconds, stop);
  out.files_seen = listing.seen;
  out.images_seen = listing.images_seen;
  if (listing.largest.bytes >= kLarge) {
    out.sequential_bytes_a_second = ReadSequential(listing.largest.path, seconds, stop);
  } else {
    out.own_file = true;
    uint64_t size = OwnFileBytes(folder);
    if (size >= kLeastOwn) out.sequential_bytes_a_second = ReadOwnFile(folder, size, seconds, stop);
    if (out.sequential_bytes_a_second <= 0) {
      out.sequential_problem = fmt::format(
          "it holds no file of {} MiB, and {}", kLarge >> 20,
          size < kLeastOwn ? "disk, memory or the limit of file sizes have no room for one"
                           : "none can be made there");
    }
  }
  std::vector<File>& files = listing.images.size() >= 20 ? listing.images : listing.small;
  if (files.size() > kMostSmall) files.resize(kMostSmall);
  if (files.size() >= 20) ReadSmall(files, seconds, out, stop);
  for (const File& f : listing.images) {
    if (out.images.size() >= 64) break;
    out.images.push_back(f.path);
  }
  return out;
}

Findings JudgeReads(const std::string& folder, const ReadSpeed& speed) {
  Finding whole{.id = "disk.read", .group = "speed", .level = Level::kAbsent};
  const std::string& reason = speed.problem.empty() ? speed.sequential_problem : speed.problem;
  whole.found = folder + ": not measured" + (reason.empty() ? "" : ": " + reason);
  if (speed.sequential_bytes_a_second > 0) {
    double mb = speed.sequential_bytes_a_second / 1e6;
    whole.level = Level::kOk;
    whole.found = fmt::format("{:.0f} MB/s in one piece, {}{}", mb,
                              speed.own_file ? "a file made in " : "the largest file of ", folder);
    whole.needed = "150 MB/s";
    whole.numbers = {{"mb_s", mb}};
    if (mb < 150) {
      whole.level = Level::kWarning;
      whole.why = "annotations and checkpoints take long to load";
      whole.fix = "copy the data to a local disk (an SSD)";
    }
  }
  Finding small{.id = "disk.files", .group = "speed", .level = Level::kAbsent};
  small.found = fmt::format("{}: too few small files to measure with", folder);
  small.needed = "the folder of the images, by --data";
  if (speed.small_files_a_second > 0) {
    small.level = Level::kOk;
    small.found = fmt::format("{:.0f} files/s, {:.0f} MB/s with {} threads ({} files seen in {})",
                              speed.small_files_a_second, speed.small_bytes_a_second / 1e6,
                              speed.threads, speed.files_seen, folder);
    small.needed = "1000 files/s";
    small.numbers = {{"files_s", speed.small_files_a_second},
                     {"mb_s", speed.small_bytes_a_second / 1e6}};
    if (speed.small_files_a_second < 1000) {
      small.level = Level::kWarning;
      small.why = "each image is one file: the loader waits for the disk";
      small.fix = "copy the images to a local SSD, or to memory (/dev/shm) when they fit";
    }
  }
  if (!speed.problem.empty()) small.found = folder + ": " + speed.problem;
  return {whole, small};
}

}  // namespace xp::doctor
