#include "exp/record/writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/record/store.h"
#include "src/record/batch.h"
#include "src/record/begin.h"
#include "src/record/cleaner.h"
#include "src/record/room.h"

namespace fs = std::filesystem;

namespace xp::record {
namespace {

using Clock = std::chrono::steady_clock;

// A megabyte set aside, given back to a full disk so that the end state can still be written.
constexpr size_t kReserveBytes = 1 << 20;

void MakeReserve(const fs::path& folder) {
  fs::path file = folder / kReserveName;
  std::error_code error;
  if (fs::exists(file, error)) return;
  if (FILE* f = std::fopen(file.c_str(), "wbx")) {
    std::string zeros(kReserveBytes, '\0');
    bool complete = std::fwrite(zeros.data(), 1, zeros.size(), f) == zeros.size();
    complete = std::fclose(f) == 0 && complete;
    if (!complete) fs::remove(file, error);
  }
}

struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};

}  // namespace

struct RunWriter::Impl {
  Store store;
  Begun begun;
  WriterOptions options;
  Clock::time_point started = Clock::now();

  std::mutex mutex;  // guards everything down to `thread`
  std::condition_variable wake, done;
  Batch queue;
  std::vector<std::string> names;  // of the series, by number
  std::unordered_map<std::string, int, NameHash, std::equal_to<>> numbers;
  uint64_t put = 0;       // things queued so far
  uint64_t written = 0;   // of these, on the disk (or given up)
  uint64_t failures = 0;  // batches that the disk didn't take: nobody waits for those
  int64_t lost = 0;
  bool stop = false;
  std::string problem;
  std::optional<WriteReport> report;

  std::thread thread;
  // Below: the writer's thread only, and End after it has joined.
  Batch pending;
  size_t names_seen = 0;
  std::unique_ptr<BatchWriter> out;

  Impl(Store s, Begun b, WriterOptions o)
      : store(std::move(s)), begun(std::move(b)), options(std::move(o)) {
    queue.points.reserve(4096);
    out = std::make_unique<BatchWriter>(store.db(), begun.run, begun.attempt);
    try {
      thread = std::thread([this] { Loop(); });
    } catch (const std::system_error& e) {  // the run has its row already
      const std::string what = std::string("the recorder's thread can't be started: ") + e.what();
      Finish(EndState::kFailed, what);
      throw JobError({.what = what,
                      .next =
                          "raise `ulimit -u` or the container's limit of processes; `exp doctor "
                          "--look` tells the limits"});
    }
  }

  int64_t Millis() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started).count();
  }

  // Cleans with `work` before anything is queued; what was found goes into the record with it.
  template <class Work>
  void Clean(Work work) {
    if (!options.clean) return;
    Cleaner cleaner(options);
    work(cleaner);
    if (!cleaner.changed() || !options.redactions) return;
    std::string found = options.redactions();
    std::lock_guard lock(mutex);
    queue.redactions = std::move(found);
  }

  void PutPoint(QueuedPoint&& point) {
    if (report) return;
    if (queue.points.size() >= options.queue_limit) {
      ++lost;
      return;
    }
    queue.points.push_back(std::move(point));
    ++put;
    if (queue.points.size() == kWakeAt) wake.notify_one();
  }

  // Queues with `add`, and waits for the disk when `millis` > 0.
  template <class Add>
  void PutRow(Add add, int millis) {
    std::unique_lock lock(mutex);
    if (report) return;
    add(queue);
    uint64_t mine = ++put, failed = failures;
    wake.notify_one();
    if (millis > 0 && problem.empty()) {
      done.wait_for(lock, std::chrono::milliseconds(millis),
                    [&] { return written >= mine || failures != failed; });
    }
  }

  void Loop();
  bool TryWrite();
  void TakeQueue();
  void NoteProblem(const std::string& text);
  WriteReport Finish(EndState state, const std::string& reason);

  static constexpr size_t kWakeAt = 20000;
};

// Moves the queue behind what an earlier failure left, and tells the batch writer of new names.
void RunWriter::Impl::TakeQueue() {
  std::lock_guard lock(mutex);
  for (; names_seen < names.size(); ++names_seen) out->AddSeries(names[names_seen]);
  size_t room =
      options.queue_limit > pending.points.size() ? options.queue_limit - pending.points.size() : 0;
  if (queue.points.size() > room) {
    lost += static_cast<int64_t>(queue.points.size() - room);
    queue.points.resize(room);
  }
  pending.Append(std::move(queue));
  queue = Batch{};
  pending.mark = put;
  queue.points.reserve(std::min<size_t>(kWakeAt, std::max<size_t>(4096, pending.points.size())));
}

void RunWriter::Impl::NoteProblem(const std::string& text) {
  bool changed;
  {
    std::lock_guard lock(mutex);
    changed = problem.empty() != text.empty();
    problem = text;
  }
  if (changed && options.on_problem) {
    options.on_problem(text.empty() ? "the store can be written again" : text);
  }
}

bool RunWriter::Impl::TryWrite() {
  try {
    out->Write(pending, Millis());
  } catch (const std::bad_alloc&) {
    NoteProblem("no memory");
    return false;
  } catch (const std::exception& e) {
    NoteProblem(e.what());
    {
      std::lock_guard lock(mutex);
      ++failures;
    }
    done.notify_all();
    return false;
  }
  {
    std::lock_guard lock(mutex);
    written = pending.mark;
  }
  pending = Batch{};
  NoteProblem("");
  done.notify_all();
  return true;
}

void RunWriter::Impl::Loop() {
  constexpr int64_t kHeartbeatMillis = 10000, kRetryMillis = 1000;
  int64_t last = Millis();
  bool failed = false;
  while (true) {
    {
      std::unique_lock lock(mutex);
      auto due = [&] {
        return stop || (!failed && queue.points.size() >= kWakeAt) || (!failed && queue.HasRows());
      };
      int64_t interval = failed ? kRetryMillis : options.flush_millis;
      wake.wait_for(lock, std::chrono::milliseconds(interval), due);
      if (stop) return;
    }
    try {
      TakeQueue();
    } catch (const std::bad_alloc&) {  // perhaps there is memory a second later
      failed = true;
      continue;
    }
    if (pending.Empty() && Millis() - last < kHeartbeatMillis) continue;
    last = Millis();
    failed = !TryWrite();
  }
}

WriteReport RunWriter::Impl::Finish(EndState state, const std::string& why) {
  std::string reason = why;
  Clean([&](Cleaner& c) { c.Text(reason, "the reason of the end"); });
  {
    std::lock_guard lock(mutex);
    if (report) return *report;
    stop = true;
  }
  wake.notify_all();
  if (thread.joinable()) thread.join();
  TakeQueue();
  WriteReport result;
  static constexpr const char* kNames[] = {"finished", "failed", "interrupted"};
  pending.end = EndRow{kNames[static_cast<int>(state)], reason, lost};
  Clock::time_point give_up = Clock::now() + std::chrono::milliseconds(options.patience_millis);
  std::error_code error;
  while (!(result.end_written = TryWrite())) {
    bool gave_back = fs::remove(store.folder() / kReserveName, error);
    if (!gave_back && Clock::now() > give_up) break;
    if (!gave_back) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (!result.end_written) {
    // Not even now: keep the truth in the store, if it takes one small row.
    result.problem = problem;
    int64_t dropped = static_cast<int64_t>(pending.points.size());
    lost += dropped;
    Batch last;
    last.end = EndRow{kNames[static_cast<int>(state)], reason, lost};
    last.mark = pending.mark;
    pending = std::move(last);
    result.end_written = TryWrite();
  }
  result.points_lost = lost;
  result.points_written = out->points_written();
  std::lock_guard lock(mutex);
  report = result;
  done.notify_all();
  return result;
}

RunWriter::RunWriter(const fs::path& folder, const RunInfo& info, WriterOptions options) {
  Store store = Store::OpenOrCreate(folder);
  MakeReserve(store.folder());
  Begun begun = BeginRun(store.db(), info);
  impl_ = std::make_unique<Impl>(std::move(store), std::move(begun), std::move(options));
}

RunWriter::RunWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<RunWriter> RunWriter::Resume(const fs::path& folder, const std::string& run_id,
                                             const ResumePoint& from, WriterOptions options) {
  Store store = Store::OpenOrCreate(folder);
  MakeReserve(store.folder());
  Begun begun = BeginAttempt(store.db(), run_id, from);
  auto impl = std::make_unique<Impl>(std::move(store), std::move(begun), std::move(options));
  return std::unique_ptr<RunWriter>(new RunWriter(std::move(impl)));
}

RunWriter::~RunWriter() {
  if (!impl_) return;
  try {
    impl_->Finish(EndState::kFailed, "the program went on without ending the run");
  } catch (const std::exception&) {  // no memory: the run will be seen as killed
  }
}

const std::string& RunWriter::id() const { return impl_->begun.run_id; }

int RunWriter::Series(std::string_view name) {
  {
    std::lock_guard lock(impl_->mutex);
    auto found = impl_->numbers.find(name);
    if (found != impl_->numbers.end()) return found->second;
  }
  std::string clean(name);
  impl_->Clean([&](Cleaner& c) { c.Text(clean, "a metric's name"); });
  clean = ValidUtf8(clean);
  std::lock_guard lock(impl_->mutex);
  auto [place, fresh] = impl_->numbers.emplace(std::string(name), 0);
  if (!fresh) return place->second;  // another thread was faster
  // Two names may be the same without their secrets; a series has one row.
  auto same = std::find(impl_->names.begin(), impl_->names.end(), clean);
  place->second = static_cast<int>(same - impl_->names.begin());
  if (same == impl_->names.end()) impl_->names.push_back(std::move(clean));
  return place->second;
}

void RunWriter::Point(int series, int64_t step, double value) {
  int64_t at = impl_->Millis();
  std::lock_guard lock(impl_->mutex);
  impl_->PutPoint({series, step, at, value});
}

void RunWriter::Point(std::string_view name, int64_t step, Value value) {
  int series = Series(name);
  if (std::holds_alternative<JsonText>(value))
    impl_->Clean([&](Cleaner& c) { c.Point(std::string(name), value); });
  int64_t at = impl_->Millis();
  std::lock_guard lock(impl_->mutex);
  impl_->PutPoint({series, step, at, std::move(value)});
}

void RunWriter::Start(std::string json, std::string device) {
  impl_->Clean([&](Cleaner& c) { c.Json(json, "", "what the trainer said when it began"); });
  impl_->PutRow(
      [&](Batch& b) {
        b.start = std::move(json);
        b.device = std::move(device);
      },
      0);
}

void RunWriter::Epoch(EpochRow row) {
  impl_->Clean([&](Cleaner& c) {
    c.Values(row.losses, "an epoch's losses");
    c.Values(row.metrics, "an epoch's metrics");
    c.Text(row.weights_hash, "an epoch's hash");
    c.Text(row.optimizer_hash, "an epoch's hash");
  });
  impl_->PutRow([&](Batch& b) { b.epochs.emplace_back(WallClockNs(), std::move(row)); }, 1000);
}

void RunWriter::Checkpoint(CheckpointRow row) {
  impl_->Clean([&](Cleaner& c) { c.Text(row.path, "a checkpoint's path"); });
  impl_->PutRow([&](Batch& b) { b.checkpoints.emplace_back(WallClockNs(), std::move(row)); }, 1000);
}

void RunWriter::Warning(std::string code, std::string message, int64_t step) {
  impl_->Clean([&](Cleaner& c) {
    c.Text(code, "a warning's code");
    c.Text(message, "a warning");
  });
  impl_->PutRow(
      [&](Batch& b) {
        b.warnings.push_back({std::move(code), std::move(message), step, WallClockNs()});
      },
      0);
}

bool RunWriter::Flush(int millis) {
  std::unique_lock lock(impl_->mutex);
  if (impl_->report) return impl_->report->problem.empty();
  uint64_t mine = impl_->put, failed = impl_->failures;
  impl_->queue.flush = true;
  impl_->wake.notify_one();
  impl_->done.wait_for(lock, std::chrono::milliseconds(millis),
                       [&] { return impl_->written >= mine || impl_->failures != failed; });
  return impl_->written >= mine;
}

WriteReport RunWriter::End(EndState state, const std::string& reason) {
  return impl_->Finish(state, reason);
}

}  // namespace xp::record
