// Threads that fill batches ahead of need, item by item, and hand them out in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace xp::data {

// What the threads do. Both calls come from worker threads and may throw; slots are 0 .. depth-1.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Makes ready slot `slot` for batch `batch` and returns how many items it has.
  virtual int Open(int64_t batch, int slot) = 0;
  // Fills in one item; items of one batch are filled by several threads at once.
  virtual void Fill(int64_t batch, int slot, int item) = 0;
};

// A ring of `depth` slots; batch b is always in slot b % depth. Start, Next and Release are for one
// thread.
class Pipeline {
 public:
  Pipeline(BatchSource* source, int workers, int depth);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Begins with batch `first`, up to but without `end`. Work on what was asked for before is
  // abandoned.
  void Start(int64_t first, int64_t end);
  // Waits for the work in hand and begins no more, until Start: what Open and Fill read may then be
  // changed.
  void Stop();

  // The slot of the next batch, in order; -1 when there are no more. Rethrows what the source threw
  // for it (of several items the first by number), after which Next goes on with the batch after
  // it.
  int Next();
  // Gives the slot that Next returned back to the threads.
  void Release(int slot);

 private:
  enum class State { kFree, kOpening, kFilling, kReady };
  struct Slot {
    State state = State::kFree;
    int64_t batch = -1;
    int items = 0, taken = 0, done = 0;
    std::exception_ptr error;
    int error_item = -1;
  };

  void Work();
  // A slot with an item to fill, or one to open; null when there is nothing to do. Under the mutex.
  Slot* FindWork();
  void RunOpen(Slot* slot, std::unique_lock<std::mutex>* lock);
  void RunFill(Slot* slot, std::unique_lock<std::mutex>* lock);

  BatchSource* source_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable work_, ready_;
  int64_t opened_ = 0;  // the next batch to open
  int64_t given_ = 0;   // the next batch to hand out
  int64_t end_ = 0;
  int busy_ = 0;  // threads inside the source
  bool stopped_ = true, exit_ = false;
};

}  // namespace xp::data
