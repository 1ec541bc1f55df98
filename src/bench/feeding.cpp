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
#include "exp/models/zoo.h"
#include "src/bench/guarded.h"
#include "src/bench/into_row.h"
#include "src/bench/trial.h"

namespace fs = std::filesystem;

namespace xp::bench {

class Photos {
 public:
  explicit Photos(const LoaderPart& part) {
    part.images.empty() ? Draw(part.count) : Find(part.images, part.count);
    if (files.empty()) {
      throw UsageError({.what = "there is no JPEG",
                        .where = part.images,
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
    std::vector<std::string> photos = DrawPhotos(std::min(count, 256));
    for (size_t i = 0; i < photos.size(); ++i) {
      files.push_back(fmt::format("{}.jpg", i));
      WriteFileAtomic(root / files.back(), photos[i]);
    }
  }
  void Find(const std::string& folder, int count) {
    root = folder;
    files = FindJpegs(folder);
    if (files.size() > static_cast<size_t>(count)) files.resize(static_cast<size_t>(count));
  }

  std::unique_ptr<TemporaryFolder> folder_;
};

namespace {

// The images are of the part's size, whatever that of the steps is; a size that is usual isn't
// told.
void PutSize(const LoaderPart& part, int usual, Case* c) {
  c->height = c->width = part.size == usual ? 0 : part.size;
}

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

void MeasureLoaderInto(const Case& c, const LoaderPart& part, Photos& photos, StopFlag stop,
                       Row* row) {
  // One endless epoch, timed after what the workers had ready before the clock started.
  constexpr int kSkip = 2;
  int batches = 100000 / c.batch + kSkip + 1;
  data::ClassLoader loader(photos.List(batches * c.batch, 1000), LoaderOptions(c, part));
  loader.StartEpoch(0);
  data::ClassBatch batch;
  int skip = kSkip + loader.options().prefetch;
  for (int i = 0; i < skip && loader.Next(&batch); ++i) {
  }
  std::vector<double> times;
  for (int repeat = 0; repeat < c.repeats; ++repeat) {
    Stopwatch watch;
    int count = 0;
    while (watch.Seconds() < c.seconds_a_repeat && loader.Next(&batch)) {
      ThrowIfStopped(stop);
      ++count;
    }
    if (count == 0) break;
    times.push_back(watch.Seconds() / count);
  }
  if (times.empty()) throw JobError({.what = "the loader gave no batch"});
  row->device = fmt::format("{} JPEGs, {}", photos.files.size(),
                            photos.drawn() ? "drawn, 500x375" : photos.root.string());
  PutWindows(times, row);
}

void MeasureEndToEndInto(const Case& given, const EndToEndPart& part, Photos& photos, StopFlag stop,
                         Row* row) {
  Case c = given;
  c.height = c.width = part.size;
  Stopwatch watch;
  Trial trial(c);
  if (trial.model().task() != models::Task::kClassification) {
    throw UsageError({.what = "end to end is measured with classifiers, not with " + c.model,
                      .next = "`exp run` of a detector reports its img/s an epoch"});
  }
  row->device = trial.device();
  row->c.precision = trial.precision();
  row->reason = trial.precision_note();
  row->bytes = trial.bytes();
  int images = std::max(c.batch, part.images_an_epoch / c.batch * c.batch);
  data::ClassLoader loader(photos.List(images, 1000), LoaderOptions(c, part));
  data::ClassBatch batch;
  double later = 0;
  std::unique_ptr<PowerMeter> meter;
  for (int epoch = 0; epoch < std::max(2, part.epochs); ++epoch) {
    if (epoch == 1) {
      meter = std::make_unique<PowerMeter>(train::CudaNumber(c.device));
    }
    Stopwatch epoch_watch;
    loader.StartEpoch(static_cast<uint32_t>(epoch));
    for (bool first = epoch == 0; loader.Next(&batch);) {
      ThrowIfStopped(stop);
      trial.SetImages(batch.images, batch.labels);
      trial.Start();
      if (first) {
        trial.Wait();
        row->setup_seconds = watch.Seconds();
        first = false;
      }
    }
    trial.Wait();
    if (epoch == 0) {
      row->first_epoch_seconds = epoch_watch.Seconds();
    } else {
      later += epoch_watch.Seconds();
    }
  }
  PutPower(meter->Stop(), row);
  row->repeats = std::max(2, part.epochs) - 1;
  row->epoch_seconds = later / row->repeats;
  row->images_per_second = images / row->epoch_seconds;
  row->milliseconds = 1e3 * c.batch / row->images_per_second;
  row->loss = trial.Loss();
}

}  // namespace

std::shared_ptr<Photos> OpenPhotos(const LoaderPart& part) {
  return std::make_shared<Photos>(part);
}

Row MeasureLoader(const Case& c, const LoaderPart& part, Photos& photos, StopFlag stop) {
  Row row;
  row.c = c;
  row.c.kind = "loader";
  Guarded(&row, [&] {
    PutSize(part, LoaderPart().size, &row.c);
    MeasureLoaderInto(c, part, photos, stop, &row);
  });
  return row;
}

Row MeasureEndToEnd(const Case& c, const EndToEndPart& part, Photos& photos, StopFlag stop) {
  Row row;
  row.c = c;
  row.c.kind = "end_to_end";
  Guarded(&row, [&] {
    PutSize(part, models::FindInZoo(c.model).height, &row.c);
    MeasureEndToEndInto(c, part, photos, stop, &row);
  });
  return row;
}

}  // namespace xp::bench
