#include "exp/train/inference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "exp/base/error.h"
#include "exp/config/reader.h"
#include "exp/data/from_config.h"
#include "src/train/class_evaluator.h"
#include "src/train/detection_evaluator.h"
#include "src/train/device.h"
#include "src/train/load_weights.h"
#include "src/train/tta.h"

namespace xp::train {
namespace {

using config::Reader;

std::vector<std::string> Names(const std::vector<data::Category>& categories) {
  std::vector<std::string> names;
  names.reserve(categories.size());
  for (const data::Category& category : categories) names.push_back(category.name);
  return names;
}

std::string Shown(std::vector<std::string> names) {
  constexpr size_t kMost = 100;
  const size_t all = names.size();
  if (all > kMost) names.resize(kMost);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     all > kMost ? fmt::format(" and {} more", all - kMost) : "");
}

// How many images a batch has at most; one where there are none, for the loader to say so.
int BatchSize(int samples_per_gpu, size_t images) {
  return static_cast<int>(
      std::min<int64_t>(samples_per_gpu, std::max<int64_t>(1, static_cast<int64_t>(images))));
}

}  // namespace

class Inference::Impl {
 public:
  Impl(const config::Node& root, const InferenceOptions& options)
      : config(root), o(options), model(models::CreateModel(config.Child("model"))) {
    if (!config.Has("data." + o.part)) {
      throw UsageError({.what = "the config has no data." + o.part,
                        .where = config.Where("data"),
                        .expected = "the part whose resize and files are used",
                        .next = "name another one with --part"});
    }
    OpenedDevice opened =
        OpenDevice({o.device,
                    config.Choice("precision", {"fp32", "tf32", "bf16", "fp16"}, "fp32"),
                    o.threads,
                    config.Bool("deterministic", true),
                    {}});
    backend = std::move(opened.backend);
    compute = opened.compute;
    precision_note = opened.precision_note;
    Load();
  }

  EvaluationContext Context() { return {*backend, *model, *params, compute, nullptr}; }

  Detections DetectOnce(std::shared_ptr<const data::CocoDataset> dataset,
                        const std::string& img_prefix, bool flip,
                        const std::optional<data::ImageScale>& scale) {
    data::LoaderOptions l = data::ReadLoaderOptions(config, o.part, 0);
    l.img_prefix = img_prefix;
    l.filter_empty_gt = false;
    l.shuffle = false;
    l.last_batch = data::LastBatch::kSmaller;
    l.samples_per_gpu = BatchSize(l.samples_per_gpu, dataset->images.size());
    l.flip_ratio = flip ? 1 : 0;
    if (scale) l.scales = {*scale};
    const size_t count = dataset->images.size();
    data::Loader loader(std::move(dataset), l);
    Detections found = DetectionEvaluator(Context(), loader).Detect(Watch(count));
    ++views_done;
    Told(loader.TakeWarnings());
    return found;
  }

  // Of a pass over `images`: told on from where the passes before it ended.
  EvaluationWatch Watch(size_t images) const {
    if (!o.progress) return {};
    const auto count = static_cast<int64_t>(images);
    return {nullptr, [this, count](int64_t done) {
              o.progress(views_done * count + done, o.tta.views() * count);
            }};
  }

  // The threshold and the number of detections that the model itself uses.
  std::pair<double, int> Suppression() const {
    std::string head = config.Has("model.bbox_head") ? "model.test_cfg" : "model.test_cfg.rcnn";
    bool ssd = head == "model.test_cfg";
    return {config.Double(head + ".nms.iou_threshold", ssd ? 0.45 : 0.5),
            config.IntWithin(head + ".max_per_img", ssd ? 200 : 100, 1, 1000000)};
  }

  Reader config;
  InferenceOptions o;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<graph::Backend> backend;
  graph::DType compute = graph::DType::kF32;
  int64_t views_done = 0;  // of the call under way
  std::string precision_note;
  std::unique_ptr<graph::ParamBuffers> params;
  std::vector<data::Category> categories, recorded;  // `recorded`: by the checkpoint, if it does

  // Label k must mean the same to the model and to the data: else each box is taken for another
  // class, and the scores are wrong without a word.
  void RequireClasses(const std::vector<std::string>& found, const std::string& path) const {
    const std::vector<std::string> known = Names(recorded);
    const bool same = recorded.empty() ? found.size() == static_cast<size_t>(model->num_classes())
                                       : found == known;
    if (same) return;
    throw UsageError(
        {.what = fmt::format("the model has {}, the data have {}",
                             recorded.empty() ? fmt::format("{} classes", model->num_classes())
                                              : "the classes " + Shown(known),
                             Shown(found)),
         .where = path,
         .expected = "the same classes in the same order",
         .next = "name them in the model's order in data." + o.part + ".classes"});
  }

  // Each once, however many views of an image there are.
  void Told(std::vector<std::string> lines) {
    for (std::string& line : lines) {
      if (std::find(warnings.begin(), warnings.end(), line) == warnings.end())
        warnings.push_back(std::move(line));
    }
  }
  std::vector<std::string> warnings;

  // Softmaxes of the whole list; `side`: of the resize, 0: the config's.
  std::vector<ClassScores> ClassifyOnce(std::shared_ptr<const data::ImageList> list, bool flip,
                                        int side);

 private:
  void Load() {
    auto layout = std::make_shared<graph::ParamLayout>();
    {
      graph::Graph g(layout, compute);
      model->BuildEvaluation(g, {1, 320, 320, 0});  // any shape has the same parameters
    }
    params = std::make_unique<graph::ParamBuffers>(*backend, layout, compute, false, 0, false);
    FlatState state;
    state.params.resize(static_cast<size_t>(layout->param_elements()));
    state.states.resize(static_cast<size_t>(layout->state_elements()));
    graph::InitializeStates(*layout, state.states.data());
    WeightSource source;
    source.path = o.weights.string();
    source.background = BackgroundOf(config);
    source.flip_channels = !config.Bool("model.img_norm_cfg.to_rgb", true);
    source.averages = o.averages;
    std::string passed_over = LoadWeights(source, *layout, &state).passed_over;
    if (!passed_over.empty()) Told({o.weights.string() + ": " + passed_over});
    params->Write(graph::Storage::kParam, state.params);
    params->Write(graph::Storage::kState, state.states);
    FindCategories();
  }

  void FindCategories() {
    auto count = static_cast<size_t>(model->num_classes());
    categories = RecordedCategories(*OpenTensorFile(o.weights));
    if (categories.size() == count) {
      recorded = categories;
      return;
    }
    categories.clear();
    try {
      if (model->task() == models::Task::kDetection) {
        categories = data::OpenDataset(config, o.part, data::Policy::kIgnore).categories;
      } else {
        for (const std::string& name : data::OpenImageList(config, o.part).classes)
          categories.push_back({static_cast<int64_t>(categories.size()) + 1, name});
      }
    } catch (const Error&) {  // the data needn't be here
    }
    if (categories.size() == count) return;
    categories.clear();
    for (size_t i = 1; i <= count; ++i)
      categories.push_back({static_cast<int64_t>(i), fmt::format("class {}", i)});
  }
};

Inference::Inference(const config::Node& config, const InferenceOptions& options)
    : impl_(std::make_unique<Impl>(config, options)) {}
Inference::~Inference() = default;

models::Task Inference::task() const { return impl_->model->task(); }
int Inference::num_classes() const { return impl_->model->num_classes(); }
const std::string& Inference::precision_note() const { return impl_->precision_note; }

std::vector<std::string> Inference::TakeWarnings() { return std::exchange(impl_->warnings, {}); }

std::string Inference::device() const {
  return impl_->backend->name() + " (" + impl_->backend->description() + ")";
}
const std::vector<data::Category>& Inference::categories() const { return impl_->categories; }

Detections Inference::Detect(const std::shared_ptr<const data::CocoDataset>& dataset,
                             const std::string& img_prefix) {
  const TestTimeAugmentation& tta = impl_->o.tta;
  impl_->views_done = 0;
  if (!tta.flip && tta.scales.empty()) return impl_->DetectOnce(dataset, img_prefix, false, {});
  std::vector<std::optional<data::ImageScale>> scales(tta.scales.begin(), tta.scales.end());
  if (scales.empty()) scales.emplace_back();
  Detections all;
  for (const auto& scale : scales) {
    for (bool flip : {false, true}) {
      if (flip && !tta.flip) continue;
      Detections some = impl_->DetectOnce(dataset, img_prefix, flip, scale);
      for (size_t i = 0; i < some.size(); ++i) {
        const double* b = &some.boxes[4 * i];
        all.Add(some.image_ids[i], {b[0], b[1], b[2], b[3]}, some.scores[i], some.category_ids[i]);
      }
    }
  }
  auto [iou, most] = impl_->Suppression();
  return MergeDetections(all, iou, most);
}

namespace {

// A classifier's batches, each image mirrored.
class MirroredBatches : public BatchSource {
 public:
  explicit MirroredBatches(std::unique_ptr<BatchSource> inner) : inner_(std::move(inner)) {}
  std::vector<models::BatchShape> Shapes() const override { return inner_->Shapes(); }
  int64_t batches_per_epoch() const override { return inner_->batches_per_epoch(); }
  int64_t images() const override { return inner_->images(); }
  int ImagesIn(int64_t batch) const override { return inner_->ImagesIn(batch); }
  std::vector<data::Category> categories() const override { return inner_->categories(); }
  std::string path() const override { return inner_->path(); }
  void StartEpoch(uint32_t epoch, int64_t first) override { inner_->StartEpoch(epoch, first); }
  bool Next(data::Batch* batch) override {
    if (!inner_->Next(batch)) return false;
    const auto width = static_cast<size_t>(batch->width);
    for (size_t row = 0; row < batch->images.size() / 3 / width; ++row) {
      uint8_t* pixels = &batch->images[row * width * 3];
      for (size_t x = 0; x < width / 2; ++x)
        std::swap_ranges(pixels + 3 * x, pixels + 3 * x + 3, pixels + 3 * (width - 1 - x));
    }
    return true;
  }
  std::vector<std::string> TakeWarnings() override { return inner_->TakeWarnings(); }
  data::StageSeconds TakeStages() override { return inner_->TakeStages(); }
  int workers() const override { return inner_->workers(); }
  std::string ImageName(int64_t image_id) const override { return inner_->ImageName(image_id); }

 private:
  std::unique_ptr<BatchSource> inner_;
};

void Softmax(std::vector<float>* scores) {
  float most = *std::max_element(scores->begin(), scores->end()), sum = 0;
  for (float& v : *scores) sum += v = std::exp(v - most);
  for (float& v : *scores) v /= sum;
}

}  // namespace

std::vector<ClassScores> Inference::Classify(const std::shared_ptr<const data::ImageList>& list) {
  const TestTimeAugmentation& tta = impl_->o.tta;
  impl_->views_done = 0;
  std::vector<int> sides;  // the shorter one's length before the centre is taken
  for (const data::ImageScale& scale : tta.scales)
    sides.push_back(std::min(scale.width, scale.height));
  if (sides.empty()) sides.push_back(0);
  std::vector<ClassScores> out;
  for (int side : sides) {
    for (bool flip : {false, true}) {
      if (flip && !tta.flip) continue;
      std::vector<ClassScores> some = impl_->ClassifyOnce(list, flip, side);
      if (out.empty()) {
        out = std::move(some);
        continue;
      }
      for (size_t i = 0; i < out.size(); ++i) {  // every view comes in the list's order
        for (size_t c = 0; c < out[i].scores.size(); ++c) out[i].scores[c] += some[i].scores[c];
      }
    }
  }
  const auto views = static_cast<float>(tta.views());
  if (views == 1) return out;
  for (ClassScores& image : out) {
    for (float& v : image.scores) v /= views;
  }
  return out;
}

std::vector<ClassScores> Inference::Impl::ClassifyOnce(std::shared_ptr<const data::ImageList> list,
                                                       bool flip, int side) {
  data::ClassLoaderOptions l = data::ReadClassLoaderOptions(config, o.part, 0);
  l.train = false;
  if (side > 0 && side < l.size) {
    throw UsageError({.what = fmt::format("the shorter side of a scale is {}, and the crop's is {}",
                                          side, l.size),
                      .where = "data." + o.part + ".crop_size",
                      .expected = "scales that the crop fits into",
                      .next = "give larger scales"});
  }
  if (side > 0) l.resize = side;
  l.samples_per_gpu = BatchSize(l.samples_per_gpu, list->files.size());
  auto source = WrapClassLoader(std::make_unique<data::ClassLoader>(list, l));
  if (flip) source = std::make_unique<MirroredBatches>(std::move(source));
  std::vector<ClassScores> out;
  ClassEvaluator evaluator(Context(), *source);
  size_t classes = static_cast<size_t>(model->num_classes());
  evaluator.EachImage(Watch(list->files.size()), [&](int64_t index, int32_t, const float* logits) {
    ClassScores scores{list->files[static_cast<size_t>(index)],
                       list->labels[static_cast<size_t>(index)],
                       std::vector<float>(logits, logits + classes)};
    Softmax(&scores.scores);
    out.push_back(std::move(scores));
  });
  ++views_done;
  Told(source->TakeWarnings());
  return out;
}

std::shared_ptr<const data::CocoDataset> Inference::OpenDetectionPart(
    std::string* img_prefix) const {
  *img_prefix = impl_->config.String("data." + impl_->o.part + ".img_prefix", "");
  auto part = std::make_shared<data::CocoDataset>(data::OpenDataset(impl_->config, impl_->o.part));
  impl_->RequireClasses(Names(part->categories), part->path);
  return part;
}

std::shared_ptr<const data::ImageList> Inference::OpenClassPart() const {
  auto part = std::make_shared<data::ImageList>(data::OpenImageList(impl_->config, impl_->o.part));
  impl_->RequireClasses(part->classes, part->path);
  return part;
}

}  // namespace xp::train
