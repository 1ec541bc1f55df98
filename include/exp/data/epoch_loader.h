// What the loaders of both tasks share: an epoch's batches in order, made ahead of need by threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace xp::data {

// A shape that a batch may have.
struct Bucket {
  int n = 0, height = 0, width = 0;
  bool operator==(const Bucket&) const = default;
};

enum class LastBatch {
  kSmaller,  // a group's last batch holds what is left
  kDrop,     // left-over images of an epoch are not used (others in each epoch)
  kRepeat,   // filled up from the start of the group, as mmdetection and torchvision do
};

// Where the threads of a loader spent their time, in seconds summed over threads.
struct StageSeconds {
  double read = 0;       // getting files from the disk, or from wherever they come
  double decode = 0;     // JPEG, PNG, WebP to pixels
  double transform = 0;  // augmentations, resize, placing into the batch
  int64_t images = 0;

  double all() const { return read + decode + transform; }
};

// Returns an image file's content for its path (folder and file name); may throw UsageError and is
// called from several threads.
using ReadImageFn = std::function<std::string(const std::string& path)>;

class EpochFeed;  // src/data/feed.h

// What batch k of epoch e holds is a pure function of (data set, options, e, k). Not for use from
// several threads.
class EpochLoader {
 public:
  EpochLoader(const EpochLoader&) = delete;
  EpochLoader& operator=(const EpochLoader&) = delete;

  // Every shape that a batch of this loader may have, largest area first.
  const std::vector<Bucket>& Buckets() const;
  int64_t batches_per_epoch() const;  // the same in each epoch
  int64_t images() const;             // that an epoch draws from
  int workers() const;                // threads

  // Begins an epoch at its batch number `start_batch` (0 .. batches_per_epoch), also while another
  // one is not used up.
  void StartEpoch(uint32_t epoch, int64_t start_batch = 0);
  // How many images a batch of the epoch that was started holds.
  int ImagesIn(int64_t batch) const;

  // Images that were replaced or left out under Policy::kDrop since the last call.
  std::vector<std::string> TakeWarnings();
  // Since the last call.
  StageSeconds TakeStages();

 protected:
  explicit EpochLoader(std::unique_ptr<EpochFeed> feed);
  ~EpochLoader();
  EpochFeed& feed() const { return *feed_; }

 private:
  std::unique_ptr<EpochFeed> feed_;
};

}  // namespace xp::data
