#include "src/train/batch_source.h"

#include <algorithm>

#include "exp/data/from_config.h"

namespace xp::train {
namespace {

// Whatever the loader is of.
template <class Loader>
class LoaderBatches : public BatchSource {
 public:
  explicit LoaderBatches(std::unique_ptr<Loader> loader) : loader_(std::move(loader)) {}
  int64_t batches_per_epoch() const override { return loader_->batches_per_epoch(); }
  int64_t images() const override { return loader_->images(); }
  int ImagesIn(int64_t batch) const override { return loader_->ImagesIn(batch); }
  void StartEpoch(uint32_t epoch, int64_t start_batch) override {
    loader_->StartEpoch(epoch, start_batch);
  }
  std::vector<std::string> TakeWarnings() override { return loader_->TakeWarnings(); }
  data::StageSeconds TakeStages() override { return loader_->TakeStages(); }
  int workers() const override { return loader_->workers(); }

  std::vector<models::BatchShape> Shapes() const override {
    std::vector<models::BatchShape> shapes;
    for (const data::Bucket& b : loader_->Buckets())
      shapes.push_back({b.n, b.height, b.width, max_boxes()});
    return shapes;
  }

 protected:
  virtual int max_boxes() const = 0;
  std::unique_ptr<Loader> loader_;
};

class DetectionBatches : public LoaderBatches<data::Loader> {
 public:
  using LoaderBatches::LoaderBatches;

  std::vector<data::Category> categories() const override { return loader_->dataset().categories; }
  std::string path() const override { return loader_->dataset().path; }
  bool Next(data::Batch* batch) override { return loader_->Next(batch); }
  std::string ImageName(int64_t image_id) const override {
    const data::CocoDataset& dataset = loader_->dataset();
    auto found = dataset.image_index.find(image_id);
    return found == dataset.image_index.end()
               ? ""
               : dataset.images[static_cast<size_t>(found->second)].file_name;
  }
  data::Loader* detection() override { return loader_.get(); }

 private:
  int max_boxes() const override { return std::max(1, loader_->max_boxes()); }
};

class ClassBatches : public LoaderBatches<data::ClassLoader> {
 public:
  using LoaderBatches::LoaderBatches;

  std::vector<data::Category> categories() const override {
    std::vector<data::Category> categories;
    for (const std::string& name : loader_->list().classes)
      categories.push_back({static_cast<int64_t>(categories.size()) + 1, name});
    return categories;
  }
  std::string path() const override { return loader_->list().path; }
  bool Next(data::Batch* batch) override {
    std::swap(taken_.images, batch->images);  // the memory goes back to the loader
    if (!loader_->Next(&taken_)) return false;
    batch->n = taken_.n;
    batch->height = taken_.height;
    batch->width = taken_.width;
    std::swap(taken_.images, batch->images);
    batch->labels = taken_.labels;
    batch->left_out = taken_.left_out;
    batch->image_ids.assign(taken_.indices.begin(), taken_.indices.end());
    batch->image_sizes.clear();
    for (int i = 0; i < taken_.n; ++i)
      batch->image_sizes.insert(batch->image_sizes.end(), {taken_.height, taken_.width});
    return true;
  }
  std::string ImageName(int64_t image_id) const override {
    const std::vector<std::string>& files = loader_->list().files;
    bool known = image_id >= 0 && image_id < static_cast<int64_t>(files.size());
    return known ? files[static_cast<size_t>(image_id)] : "";
  }

 private:
  int max_boxes() const override { return 0; }
  data::ClassBatch taken_;
};

}  // namespace

std::vector<std::string> BatchSource::classes() const {
  std::vector<std::string> names;
  for (const data::Category& c : categories()) names.push_back(c.name);
  return names;
}

std::unique_ptr<BatchSource> WrapClassLoader(std::unique_ptr<data::ClassLoader> loader) {
  return std::make_unique<ClassBatches>(std::move(loader));
}

std::unique_ptr<BatchSource> OpenBatches(const config::Reader& config, models::Task task,
                                         const data::AuditPart& part, uint64_t seed) {
  if (task == models::Task::kClassification)
    return WrapClassLoader(data::OpenClassLoader(config, part, seed));
  return std::make_unique<DetectionBatches>(data::OpenLoader(config, part, seed));
}

}  // namespace xp::train
