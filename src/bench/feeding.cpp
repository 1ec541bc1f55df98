// The loader alone, and training from JPEGs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/stopwatch.h"
#include "exp/base/temporary_folder.h"
#include "exp/bench/photos.h"
#include "exp/bench/throughput.h"
#include "exp/data/class_loader.h"
#include "exp/data/image_list.h"
#include "src/bench/guarded.h"
#include "src/bench/into_row.h"
#include "src/bench/time_bound.h"
#include "src/bench/trial.h"

namespace fs = std::filesystem;

namespace xp::bench {

class Photos {
 public:
  explicit Photos(LoaderPart part) : part_(std::move(part)) {}
  // Draws or finds them, where that isn't done yet.
  void Require() {
    if (!files.empty()) return;
    part_.images.empty() ? Draw(part_.count) : Find(part_.images, part_.count);
    if (files.empty()) {
      throw UsageError({.what = "there is no JPEG",
                        .where = part_.images,
                        .expected = "a folder with .jpg files"});
    }
  }
  // `images` entries, files again and again, labels in turn.
  std::shared_ptr<data::ImageList> List(int images, int classes) const {
    auto list = std::make_shared<data::ImageList>();
    list->path = list->root = root.string();
    for (int i = 0; i < classes; ++i) list->classes.push_back(std::to_string(i));
    for (int i = 0; i < images; ++i) {
      list->files.push_back(files[static_cast<size_t>(i) % files.size()]);
      list->labels.push_back(i % classes);
    }
    return list;
  }

  fs::path root;
  std::vector<std::string> files;
  bool drawn() const { return folder_ != nullptr; }

 private:
  void Draw(int count) {
    folder_ = std::make_unique<TemporaryFolder>("bench");
    if (folder_->path().empty()) {
      throw JobError({.what = "no temporary folder can be made for the drawn images",
                      .next = "set TMPDIR to a folder that can be written"});
    }
    root = folder_->path();
    // Beyond some hundred the same again: the page cache holds them anyhow.
    std::vector<std::string> photos = DrawPhotos(std::min(count, 256)), names;
    for (size_t i = 0; i < photos.size(); ++i) {
      names.push_back(fmt::format("{}.jpg", i));
      WriteFileAtomic(root / names.back(), photos[i]);
    }
    files = std::move(names);
  }
  void Find(const std::string& folder, int count) {
    root = folder;
    files = FindJpegs(folder);
    if (files.size() > static_cast<size_t>(count)) files.resize(static_cast<size_t>(count));
  }

  LoaderPart part_;
  std::unique_ptr<TemporaryFolder> folder_;
};

namespace {

data::ClassLoaderOptions LoaderOptions(const Case& c, const LoaderPart& part) {
  data::ClassLoaderOptions options;
  options.samples_per_gpu = c.batch;
  options.workers = c.workers;
  options.prefetch = std::max(3, c.workers / 2);
  options.size = part.size;
  options.resize = part.size * 256 / 224;
  options.last_batch = data::LastBatch::kDrop;
  return options;
}

// Epoch behind epoch.
class Batches {
 public:
  explicit Batches(data::ClassLoader& loader) : loader_(loader) { loader_.StartEpoch(0); }
  void Next() {
    if (loader_.Next(&batch_)) return;
    loader_.StartEpoch(++epoch_);
    if (!loader_.Next(&batch_)) throw JobError({.what = "the loader gave no batch"});
  }

 private:
  data::ClassLoader& loader_;
  data::ClassBatch batch_;
  uint32_t epoch_ = 0;
};

// What the workers had ready before the clock started doesn't count.
void SkipReady(const Case& c, int count, Batches& batches, StopFlag stop) {
  TimeBound bound(c.seconds_a_case);
  Stopwatch watch;
  double a_batch = 0;
  for (int i = 1; i <= count; ++i) {
    ThrowIfStopped(stop);
    batches.Next();
    a_batch = watch.Seconds() / i;
    bound.Require(a_batch, 0, fmt::format("a batch takes {}", SecondsText(a_batch)));
  }
  const double rest = c.repeats * std::max(c.seconds_a_repeat, a_batch);
  bound.Require(a_batch, rest,
                fmt::format("a batch takes {}, {} repeats at least {}", SecondsText(a_batch),
                            c.repeats, SecondsText(rest)));
}

void MeasureLoaderInto(const Case& c, const LoaderPart& part, Photos& photos, StopFlag stop,
                       Row* row) {
  photos.Require();
  constexpr int kImages = 100000;  // an epoch: long enough that its end costs nothing
  constexpr int kSkip = 2;
  const int images = (kImages / c.batch + 1) * c.batch;
  data::ClassLoader loader(photos.List(images, 1000), LoaderOptions(c, part));
  Batches batches(loader);
  SkipReady(c, loader.options().prefetch + kSkip, batches, stop);
  std::vector<double> times;
  for (int repeat = 0; repeat < c.repeats; ++repeat) {
    Stopwatch watch;
    int count = 0;
    while (count == 0 || watch.Seconds() < c.seconds_a_repeat) {
      ThrowIfStopped(stop);
      batches.Next();
      ++count;
    }
    times.push_back(watch.Seconds() / count);
  }
  row->device = fmt::format("{} JPEGs, {}", photos.files.size(),
                            photos.drawn() ? "drawn, 500x375" : photos.root.string());
  PutWindows(times, row);
}

// Seconds of an epoch; `after` is called behind each step with its number, from 1.
template <class After>
double Epoch(Trial& trial, data::ClassLoader& loader, int number, StopFlag stop, After after) {
  Stopwatch watch;
  data::ClassBatch batch;
  loader.StartEpoch(static_cast<uint32_t>(number));
  for (int step = 1; loader.Next(&batch); ++step) {
    ThrowIfStopped(stop);
    trial.SetImages(batch.images, batch.labels);
    trial.Start();
    after(step);
  }
  trial.Wait();
  return watch.Seconds();
}

// The first epoch: its third step, and then the whole of it, show whether all of them can be
// measured within the bound.
void FirstEpoch(Trial& trial, data::ClassLoader& loader, const Stopwatch& since_start, int epochs,
                int steps, StopFlag stop, Row* row) {
  constexpr int kJudged = 3;
  TimeBound bound(row->c.seconds_a_case);
  auto require = [&](double step, int left) {
    bound.Require(
        step, step * left,
        fmt::format("a step from JPEGs takes {}, {} of them in {} epochs {}", SecondsText(step),
                    steps * epochs, epochs, SecondsText(step * steps * epochs)));
  };
  row->first_epoch_seconds = Epoch(trial, loader, 0, stop, [&](int step) {
    if (step != 1 && step != kJudged) return;
    trial.Wait();
    if (step == 1) row->setup_seconds = since_start.Seconds();
    double later = since_start.Seconds() - row->setup_seconds;
    if (step == kJudged) require(later / (kJudged - 1), steps * epochs - kJudged);
  });
  require(row->first_epoch_seconds / steps, steps * (epochs - 1));
}

void MeasureEndToEndInto(const Case& given, const EndToEndPart& part, Photos& photos, StopFlag stop,
                         Row* row) {
  Case c = given;
  c.height = c.width = part.size;
  photos.Require();
  Stopwatch watch;
  Trial trial(c, stop);
  if (trial.model().task() != models::Task::kClassification) {
    throw UsageError({.what = "end to end is measured with classifiers, not with " + c.model,
                      .next = "`exp run` of a detector reports its img/s an epoch"});
  }
  row->device = trial.device();
  row->c.precision = trial.precision();
  row->reason = trial.precision_note();
  row->bytes = trial.bytes();
  const int steps = std::max(1, part.images_an_epoch / c.batch), images = steps * c.batch;
  const int epochs = part.epochs;
  data::ClassLoader loader(photos.List(images, 1000), LoaderOptions(c, part));
  FirstEpoch(trial, loader, watch, epochs, steps, stop, row);
  PowerMeter meter(train::CudaNumber(c.device));
  double later = 0;
  for (int epoch = 1; epoch < epochs; ++epoch) {
    later += Epoch(trial, loader, epoch, stop, [](int) {});
  }
  PutPower(meter.Stop(), row);
  row->repeats = epochs - 1;
  row->epoch_seconds = later / row->repeats;
  row->images_per_second = images / row->epoch_seconds;
  row->milliseconds = 1e3 * c.batch / row->images_per_second;
  PutLoss(trial.Loss(), row);
}

}  // namespace

std::shared_ptr<Photos> OpenPhotos(const LoaderPart& part) {
  return std::make_shared<Photos>(part);
}

Row MeasureLoader(const Case& c, const LoaderPart& part, Photos& photos, StopFlag stop) {
  Row row;
  row.c = c;
  row.c.kind = "loader";
  Guarded(&row, [&] { MeasureLoaderInto(c, part, photos, stop, &row); });
  return row;
}

Row MeasureEndToEnd(const Case& c, const EndToEndPart& part, Photos& photos, StopFlag stop) {
  Row row;
  row.c = c;
  row.c.kind = "end_to_end";
  Guarded(&row, [&] { MeasureEndToEndInto(c, part, photos, stop, &row); });
  return row;
}

}  // namespace xp::bench
