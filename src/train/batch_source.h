// Where a run's batches come from, whatever the task: a detector's loader or a classifier's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exp/config/reader.h"
#include "exp/data/audit.h"
#include "exp/data/class_loader.h"
#include "exp/data/loader.h"
#include "exp/models/model.h"

namespace xp::train {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Every shape that a batch may have, the largest first.
  virtual std::vector<models::BatchShape> Shapes() const = 0;
  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t images() const = 0;
  // Of a batch of the epoch that was started.
  virtual int ImagesIn(int64_t batch) const = 0;
  // Names and COCO ids (a classifier's: from 1) in label order.
  virtual std::vector<data::Category> categories() const = 0;
  virtual std::string path() const = 0;  // of the annotations, for messages
  // As data::Loader's. A classifier's batches hold images, image_sizes, labels [n] and image_ids,
  // which are places in its list.
  virtual void StartEpoch(uint32_t epoch, int64_t start_batch) = 0;
  virtual bool Next(data::Batch* batch) = 0;
  virtual std::vector<std::string> TakeWarnings() = 0;
  virtual data::StageSeconds TakeStages() = 0;
  virtual int workers() const = 0;
  virtual std::string ImageName(int64_t image_id) const = 0;  // "" where there is none
  std::vector<std::string> classes() const;                   // names of categories()
  // The loader of a detector; null for a classifier.
  virtual data::Loader* detection() { return nullptr; }
};

// Of a part that was opened for that task.
std::unique_ptr<BatchSource> OpenBatches(const config::Reader& config, models::Task task,
                                         const data::AuditPart& part, uint64_t seed);

std::unique_ptr<BatchSource> WrapClassLoader(std::unique_ptr<data::ClassLoader> loader);

}  // namespace xp::train
