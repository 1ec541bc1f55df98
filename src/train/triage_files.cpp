// What is kept of an incident: its inputs, the state before it, the report.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/system_advice.h"
#include "src/train/checkpoint_io.h"
#include "src/train/triage.h"

namespace xp::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// JSON has no nan: the text beside the bits keeps it.
json Number(double v) { return std::isfinite(v) ? json(v) : json(ValueText(v)); }

json LossesJson(const StepLosses& losses) {
  json parts = json::array();
  for (const NamedValues& part : losses.parts) {
    json terms;
    for (const auto& [name, value] : part)
      terms[name] = {{"value", Number(value)},
                     {"bits", fmt::format("{:016x}", std::bit_cast<uint64_t>(value))}};
    parts.push_back(terms);
  }
  return parts;
}

json ParamsJson(const std::vector<ParamReport>& reports) {
  json list = json::array();
  for (const ParamReport& r : reports) {
    list.push_back({{"name", r.name},
                    {"norm", r.norm},
                    {"largest", r.largest},
                    {"non_finite", r.non_finite},
                    {"elements", r.elements}});
  }
  return list;
}

json ImagesJson(const Incident& incident) {
  json images = json::array();
  size_t file = 0;
  for (const data::Batch& b : incident.batches) {
    for (size_t k = 0; k < static_cast<size_t>(b.n); ++k, ++file) {
      json image = {{"id", b.image_ids[k]}, {"file", incident.files[file]}};
      image["size"] = {b.image_sizes[2 * k + 1], b.image_sizes[2 * k]};
      if (b.box_counts.empty()) {
        image["label"] = b.labels[k];
      } else {
        image["boxes"] = json::array();
        for (size_t j = 0; j < static_cast<size_t>(b.box_counts[k]); ++j) {
          size_t at = k * static_cast<size_t>(b.max_boxes) + j;
          json box = json::array();
          for (size_t c = 0; c < 4; ++c) box.push_back(Number(b.boxes[4 * at + c]));
          image["boxes"].push_back({{"box", box}, {"label", b.labels[at]}});
        }
      }
      images.push_back(image);
    }
  }
  return images;
}

std::string ReportJson(const Incident& i) {
  static constexpr const char* kFaults[] = {"loss", "gradient", "weights", "not repeated"};
  json report = {{"what", i.What()},
                 {"fault", kFaults[static_cast<int>(i.fault)]},
                 {"step", i.step},
                 {"epoch", i.epoch},
                 {"lr", i.lr},
                 {"term", i.term},
                 {"value", Number(i.value)},
                 {"losses", LossesJson(i.losses)},
                 {"repeats", i.repeats},
                 {"images", ImagesJson(i)},
                 {"gradients", ParamsJson(i.gradients)},
                 {"weights", ParamsJson(i.weights)}};
  if (i.loss_scale > 0) report["loss_scale"] = i.loss_scale;
  report["recent_losses"] = json::array();
  for (double v : i.recent) report["recent_losses"].push_back(Number(v));
  report["causes"] = json::array();
  for (const Cause& c : i.causes) {
    report["causes"].push_back(
        {{"name", c.name}, {"likelihood", c.likelihood}, {"why", c.why}, {"advice", c.advice}});
  }
  return report.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

// A batch's arrays as named tensors; what a batch lacks is left out.
class BatchTensors {
 public:
  void Add(const std::string& prefix, const data::Batch& b) {
    Put(prefix + "images", ElementType::kU8, {b.n, b.height, b.width, 3}, b.images.data());
    Put(prefix + "image_sizes", ElementType::kI32, {b.n, 2}, b.image_sizes.data());
    Put(prefix + "image_ids", ElementType::kI64, {b.n}, b.image_ids.data());
    if (b.box_counts.empty()) {
      Put(prefix + "labels", ElementType::kI32, {b.n}, b.labels.data());
      return;
    }
    Put(prefix + "boxes", ElementType::kF32, {b.n, b.max_boxes, 4}, b.boxes.data());
    Put(prefix + "labels", ElementType::kI32, {b.n, b.max_boxes}, b.labels.data());
    Put(prefix + "box_counts", ElementType::kI32, {b.n}, b.box_counts.data());
  }
  std::vector<TensorView> views;

 private:
  void Put(const std::string& name, ElementType type, std::vector<int64_t> shape,
           const void* data) {
    views.push_back({{name, type, std::move(shape)}, data});
  }
};

constexpr const char* kPutBack = "put the folder back as the run wrote it";

template <typename T>
std::vector<T> ReadAs(const TensorFile& file, const std::string& name, ElementType type) {
  const TensorInfo* info = file.Find(name);
  if (info == nullptr || info->type != type) {
    throw UsageError({.what = "lacks the tensor " + name,
                      .where = file.path(),
                      .expected = "the inputs of a step that a run has saved",
                      .next = kPutBack});
  }
  std::vector<std::byte> bytes = file.Read(*info);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

std::string Listed(const std::vector<ParamReport>& reports, size_t most) {
  std::string text;
  for (size_t i = 0; i < reports.size() && i < most; ++i) {
    const ParamReport& r = reports[i];
    text += fmt::format(
        "\n    {:10.4g}  {:10.4g}  {}{}", r.norm, r.largest, r.name,
        r.non_finite > 0 ? fmt::format("  ({} of {} not finite)", r.non_finite, r.elements) : "");
  }
  return text;
}

// Whether a batch that was read from a file can be fed to a step, whatever wrote that file.
bool Fits(const data::Batch& b, int64_t channels, bool detector) {
  if (b.n <= 0 || b.height <= 0 || b.width <= 0 || channels != 3) return false;
  auto n = static_cast<size_t>(b.n), boxes = static_cast<size_t>(b.max_boxes);
  if (b.images.size() / n / static_cast<size_t>(b.height) / 3 != static_cast<size_t>(b.width) ||
      b.image_sizes.size() != 2 * n || b.image_ids.size() != n)
    return false;
  for (size_t i = 0; i < n; ++i) {
    if (b.image_sizes[2 * i] < 1 || b.image_sizes[2 * i] > b.height ||
        b.image_sizes[2 * i + 1] < 1 || b.image_sizes[2 * i + 1] > b.width)
      return false;
  }
  if (!detector) return b.labels.size() == n;
  auto held = [&](int32_t count) { return count >= 0 && count <= b.max_boxes; };
  return b.box_counts.size() == n && b.boxes.size() == n * boxes * 4 &&
         b.labels.size() == n * boxes &&
         std::all_of(b.box_counts.begin(), b.box_counts.end(), held);
}

}  // namespace

void SaveIncident(Incident& incident, const Setup& setup, const TrainOptions& options) {
  incident.folder = options.work_dir / fmt::format("nonfinite_step_{}", incident.step);
  std::error_code error;
  fs::create_directories(incident.folder, error);
  if (error)
    throw JobError({.what = "can't be made: " + error.message(),
                    .where = incident.folder.string(),
                    .next = WriteAdvice(error.value())});
  BatchTensors tensors;
  for (size_t p = 0; p < incident.batches.size(); ++p)
    tensors.Add(fmt::format("{}.", p), incident.batches[p]);
  WriteSafetensors(incident.folder / "inputs.safetensors", tensors.views,
                   {{"exp.step", std::to_string(incident.step)},
                    {"exp.parts", std::to_string(incident.batches.size())}});
  CheckpointInfo info;
  info.epoch = incident.epoch;
  info.step = incident.step;
  info.seed = options.seed;
  info.metadata = options.record_metadata;
  info.metadata["exp.lr"] = fmt::format("{:a}", incident.lr);
  WriteRunCheckpoint(incident.folder, info, incident.before, setup, {.name = "before.safetensors"});
  WriteFileAtomic(incident.folder / "report.json", ReportJson(incident));
  WriteFileAtomic(incident.folder / "report.txt", IncidentText(incident));
}

std::string IncidentText(const Incident& i) {
  std::string text = i.What() + "\n  losses     ";
  for (const auto& [name, value] : i.losses.mean)
    text += fmt::format("{} {}  ", name, ValueText(value));
  text += fmt::format("\n  lr         {:g}", i.lr);
  if (i.loss_scale > 0) text += fmt::format("\n  loss scale {:g}", i.loss_scale);
  text +=
      fmt::format("\n  run again  {}", i.repeats ? "the same bits, from the same state and inputs"
                                                 : "OTHER BITS, from the same state and inputs");
  text += "\n  images";
  size_t file = 0;
  for (const data::Batch& b : i.batches) {
    for (size_t k = 0; k < static_cast<size_t>(b.n); ++k, ++file) {
      if (file == 32) text += fmt::format("\n    ... (report.json has all {})", i.files.size());
      if (file >= 32) continue;
      text += fmt::format("\n    id {}  {}  {}", b.image_ids[k], i.files[file],
                          b.box_counts.empty() ? fmt::format("label {}", b.labels[k])
                                               : fmt::format("{} boxes", b.box_counts[k]));
    }
  }
  text += "\n  gradients by layer: norm, largest" + Listed(i.gradients, 12);
  text += "\n  weights before the step: norm, largest" + Listed(i.weights, 6);
  text += "\n  what may lie behind it, likeliest first:";
  for (size_t c = 0; c < i.causes.size(); ++c) {
    text += fmt::format("\n    {}. {}: {}\n       {}", c + 1, i.causes[c].name, i.causes[c].why,
                        i.causes[c].advice);
  }
  return text + "\n";
}

std::vector<data::Batch> ReadInputs(const fs::path& path) {
  std::unique_ptr<TensorFile> file = OpenTensorFile(path);
  std::vector<data::Batch> batches;
  for (int p = 0;; ++p) {
    std::string prefix = fmt::format("{}.", p);
    const TensorInfo* images = file->Find(prefix + "images");
    if (images == nullptr && p > 0) return batches;
    data::Batch b;
    b.images = ReadAs<uint8_t>(*file, prefix + "images", ElementType::kU8);
    bool detector = file->Find(prefix + "boxes") != nullptr;
    if (images->shape.size() != 4)
      throw UsageError({.what = prefix + "images has another shape",
                        .where = path.string(),
                        .expected = "images, height, width and channels",
                        .next = kPutBack});
    b.n = static_cast<int>(images->shape[0]);
    b.height = static_cast<int>(images->shape[1]);
    b.width = static_cast<int>(images->shape[2]);
    b.image_sizes = ReadAs<int32_t>(*file, prefix + "image_sizes", ElementType::kI32);
    b.image_ids = ReadAs<int64_t>(*file, prefix + "image_ids", ElementType::kI64);
    b.labels = ReadAs<int32_t>(*file, prefix + "labels", ElementType::kI32);
    if (detector) {
      b.boxes = ReadAs<float>(*file, prefix + "boxes", ElementType::kF32);
      b.box_counts = ReadAs<int32_t>(*file, prefix + "box_counts", ElementType::kI32);
      b.max_boxes = static_cast<int>(b.boxes.size()) / 4 / std::max(b.n, 1);
    }
    if (!Fits(b, images->shape[3], detector)) {
      throw UsageError({.what = "the tensors of batch " + std::to_string(p) + " don't fit together",
                        .where = path.string(),
                        .next = kPutBack});
    }
    batches.push_back(std::move(b));
  }
}

}  // namespace xp::train
