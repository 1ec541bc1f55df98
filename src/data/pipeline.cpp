#include "src/data/pipeline.h"

#include <algorithm>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/parallel.h"

namespace xp::data {

Pipeline::Pipeline(BatchSource* source, int workers, int depth)
    : source_(source), slots_(std::max(depth, 1)) {
  threads_ = StartThreads(std::max(workers, 1), [this](int) { Work(); });
  if (threads_.empty()) {
    throw JobError({.what = "the system lets no thread start for the loader",
                    .next = "`exp doctor` tells the limits of threads and memory"});
  }
}

Pipeline::~Pipeline() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = exit_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pipeline::Stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  ready_.wait(lock, [this] { return busy_ == 0; });
}

void Pipeline::Start(int64_t first, int64_t end) {
  Stop();
  {
    std::lock_guard lock(mutex_);
    for (Slot& slot : slots_) slot = Slot();
    opened_ = given_ = first;
    end_ = end;
    stopped_ = false;
  }
  work_.notify_all();
}

int Pipeline::Next() {
  std::unique_lock lock(mutex_);
  if (stopped_ || given_ >= end_) return -1;
  int index = static_cast<int>(given_ % static_cast<int64_t>(slots_.size()));
  Slot& slot = slots_[static_cast<size_t>(index)];
  ready_.wait(lock, [&] { return slot.state == State::kReady && slot.batch == given_; });
  ++given_;
  if (std::exception_ptr error = std::exchange(slot.error, nullptr)) {
    slot.state = State::kFree;
    work_.notify_all();
    std::rethrow_exception(error);
  }
  return index;
}

void Pipeline::Release(int slot) {
  std::lock_guard lock(mutex_);
  slots_[static_cast<size_t>(slot)].state = State::kFree;
  work_.notify_all();
}

Pipeline::Slot* Pipeline::FindWork() {
  if (stopped_) return nullptr;
  for (int64_t batch = given_; batch < opened_; ++batch) {
    Slot& slot = slots_[static_cast<size_t>(batch % static_cast<int64_t>(slots_.size()))];
    if (slot.state == State::kFilling && slot.taken < slot.items) return &slot;
  }
  Slot& slot = slots_[static_cast<size_t>(opened_ % static_cast<int64_t>(slots_.size()))];
  return opened_ < end_ && slot.state == State::kFree ? &slot : nullptr;
}

void Pipeline::RunOpen(Slot* slot, std::unique_lock<std::mutex>* lock) {
  slot->state = State::kOpening;
  slot->batch = opened_++;
  slot->taken = slot->done = 0;
  int index = static_cast<int>(slot - slots_.data());
  lock->unlock();
  int items = 0;
  std::exception_ptr error;
  try {
    items = source_->Open(slot->batch, index);
  } catch (...) {
    error = std::current_exception();
  }
  lock->lock();
  slot->items = items;
  slot->error = error;
  slot->error_item = error ? -1 : items;
  slot->state = items > 0 ? State::kFilling : State::kReady;
}

void Pipeline::RunFill(Slot* slot, std::unique_lock<std::mutex>* lock) {
  int item = slot->taken++;
  int index = static_cast<int>(slot - slots_.data());
  lock->unlock();
  std::exception_ptr error;
  try {
    source_->Fill(slot->batch, index, item);
  } catch (...) {
    error = std::current_exception();
  }
  lock->lock();
  if (error && item < slot->error_item) {
    slot->error = error;
    slot->error_item = item;
  }
  if (++slot->done == slot->items) slot->state = State::kReady;
}

void Pipeline::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    Slot* slot = nullptr;
    work_.wait(lock, [&] { return exit_ || (slot = FindWork()) != nullptr; });
    if (exit_) return;
    ++busy_;
    if (slot->state == State::kFree) {
      RunOpen(slot, &lock);
      work_.notify_all();
    } else {
      RunFill(slot, &lock);
    }
    --busy_;
    if (slot->state == State::kReady || stopped_) ready_.notify_all();
  }
}

}  // namespace xp::data
