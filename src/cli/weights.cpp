// `exp weights`: what is in a file of weights, and files of other programs made ours (or theirs).
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/printable.h"
#include "exp/train/checkpoint.h"
#include "exp/train/safetensors.h"
#include "exp/train/tensor_file.h"
#include "exp/train/weight_names.h"
#include "src/cli/command.h"
#include "src/cli/out_folder.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

using train::ElementType;
using train::NameStyle;
using train::TensorFile;
using train::TensorInfo;

struct ShowOptions {
  std::string file, filter;
  bool json = false;
};

struct ConvertOptions {
  std::string in, out;
  std::string from = "auto", to = "torchvision", background = "first", dtype = "same";
  bool backbone = false, ema = false;
};

NameStyle ParseStyle(const std::string& name) {
  for (NameStyle style : {NameStyle::kTorchvision, NameStyle::kMmdetection, NameStyle::kTimm}) {
    if (name == train::NameStyleName(style)) return style;
  }
  throw UsageError({.what = fmt::format("there is no naming `{}`", name),
                    .expected = "torchvision, mmdetection or timm"});
}

std::vector<const TensorInfo*> Matching(const TensorFile& file, const ShowOptions& options) {
  std::vector<const TensorInfo*> chosen;
  for (const TensorInfo& tensor : file.tensors()) {
    bool matches =
        options.filter.empty() || fnmatch(options.filter.c_str(), tensor.name.c_str(), 0) == 0;
    if (matches) chosen.push_back(&tensor);
  }
  return chosen;
}

void PrintJson(const TensorFile& file, const std::vector<const TensorInfo*>& tensors) {
  nlohmann::ordered_json out = {{"path", file.path()},
                                {"format", file.format()},
                                {"naming", train::NameStyleName(train::GuessStyle(file))},
                                {"metadata", file.metadata()},
                                {"tensors", nlohmann::ordered_json::array()}};
  for (const TensorInfo* t : tensors) {
    out["tensors"].push_back({{"name", t->name},
                              {"dtype", train::ElementName(t->type)},
                              {"shape", t->shape},
                              {"bytes", t->bytes()}});
  }
  out["unread"] = nlohmann::ordered_json::array();
  for (const train::UnreadTensor& t : file.unread())
    out["unread"].push_back({{"name", t.name}, {"kind", t.kind}});
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void Show(const ShowOptions& options) {
  std::unique_ptr<TensorFile> file = train::OpenTensorFile(options.file);
  std::vector<const TensorInfo*> tensors = Matching(*file, options);
  if (options.json) return PrintJson(*file, tensors);
  fmt::print("{}: {}, {} tensors, {} names\n", file->path(), file->format(), file->tensors().size(),
             train::NameStyleName(train::GuessStyle(*file)));
  for (const auto& [key, value] : file->metadata())
    fmt::print("  {} = {}\n", Printable(key), Printable(value));
  constexpr size_t kWidest = 100;
  size_t width = 4;
  for (const TensorInfo* t : tensors) width = std::max(width, std::min(t->name.size(), kWidest));
  int64_t elements = 0;
  size_t bytes = 0;
  for (const TensorInfo* t : tensors) {
    fmt::print("{:<{}}  {:<4}  {}\n", Printable(t->name), width, train::ElementName(t->type),
               train::ShapeText(t->shape));
    elements += t->elements();
    bytes += t->bytes();
  }
  fmt::print("{} elements, {:.1f} MB{}\n", elements, static_cast<double>(bytes) / 1e6,
             options.filter.empty() ? "" : " in what was shown");
  for (const train::UnreadTensor& t : file->unread())
    fmt::print("not read: {}  {}\n", Printable(t.name), Printable(t.kind));
}

// Which tensors are the model's weights, and under which name: a checkpoint also has the
// optimizer's.
std::string ModelName(const TensorInfo& tensor, bool ema) {
  if (tensor.name.starts_with("ema.")) return ema ? tensor.name.substr(4) : "";
  bool state = tensor.name.starts_with("optimizer.") || tensor.name.starts_with("loss_scale") ||
               tensor.name == "unit_scale" || tensor.name.starts_with(train::kEpochBegin);
  return state ? "" : tensor.name;
}

ElementType TargetType(const TensorInfo& tensor, const std::string& dtype) {
  if (dtype == "same" || !train::IsFloat(tensor.type)) return tensor.type;
  return dtype == "fp32"   ? ElementType::kF32
         : dtype == "fp16" ? ElementType::kF16
                           : ElementType::kBF16;
}

std::vector<std::byte> ReadAs(const TensorFile& file, const TensorInfo& tensor, ElementType type) {
  if (type == tensor.type) return file.Read(tensor);
  std::vector<float> values = file.ReadFloats(tensor.name);
  std::vector<std::byte> bytes(values.size() * train::ElementSize(type));
  train::FromFloats(type, values.data(), values.size(), bytes.data());
  // A weight that becomes infinite would be found in the first forward pass at the earliest.
  std::vector<float> back(values.size());
  train::ToFloats(type, bytes.data(), back.size(), back.data());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || std::isfinite(back[i])) continue;
    throw UsageError({.what = fmt::format("`{}` has the value {}, beyond {}", tensor.name,
                                          values[i], train::ElementName(type)),
                      .where = file.path(),
                      .next = "convert with --dtype bf16, or leave the type as it is"});
  }
  return bytes;
}

// What a file holds beside weights goes without a word; weights don't.
void TellLeftOut(const std::vector<std::string>& names, const char* style, bool ema) {
  std::string shown;
  size_t count = 0;
  for (const std::string& name : names) {
    if (ModelName({.name = name}, ema).empty() || name.ends_with(".num_batches_tracked")) continue;
    constexpr size_t kShown = 5;
    if (count++ < kShown) shown += (shown.empty() ? "" : ", ") + Printable(name);
  }
  if (count == 0) return;
  Tell("warning: {} tensors are left out, which have no place in {} names: {}{}\n", count, style,
       shown, count > 5 ? ", ..." : "");
}

// timm has classifiers only.
bool OfDetector(const TensorFile& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(), [](const TensorInfo& tensor) {
    return tensor.name.starts_with("rpn.") || tensor.name.starts_with("roi_heads.") ||
           tensor.name.starts_with("backbone.");
  });
}

std::map<std::string, std::string> KeptMetadata(const TensorFile& file) {
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : file.metadata()) {
    // What says where the weights came from stays; what would make it a checkpoint goes.
    bool kept =
        key == "exp.run" || key == "exp.config" || key == "exp.epoch" || key == "exp.background";
    if (kept || !key.starts_with("exp.")) metadata[key] = value;
  }
  metadata["format"] = "pt";  // what Python's safetensors readers ask for
  return metadata;
}

using Chosen = std::map<std::string, const TensorInfo*>;  // by the model's names

// Averages take the place of the weights where they are asked for.
Chosen ChooseWeights(const TensorFile& file, const ConvertOptions& options) {
  Chosen chosen;
  bool averages = false;
  for (const TensorInfo& tensor : file.tensors()) {
    std::string name = ModelName(tensor, options.ema);
    bool average = tensor.name.starts_with("ema.");
    averages = averages || average;
    if (!name.empty() && (average || !chosen.contains(name))) chosen[name] = &tensor;
  }
  if (options.ema && !averages) {
    throw UsageError({.what = "holds no averaged weights",
                      .where = options.in,
                      .expected = "a checkpoint of a run with `ema.momentum`",
                      .next = "leave --ema out for the last weights"});
  }
  if (chosen.empty()) {
    throw UsageError(
        {.what = "has no weight with a name that is known",
         .where = options.in,
         .next = "see the names with `exp weights show`, and say with --from how they are meant"});
  }
  return chosen;
}

std::unique_ptr<TensorFile> OpenRenamed(const ConvertOptions& options) {
  train::RenameOptions rename;
  if (options.from != "auto") rename.from = ParseStyle(options.from);
  rename.to = ParseStyle(options.to);
  rename.background =
      options.background == "last" ? train::Background::kLast : train::Background::kFirst;
  rename.as_backbone = options.backbone;
  std::vector<std::string> left_out;
  std::unique_ptr<TensorFile> file =
      train::Rename(train::OpenTensorFile(options.in), rename, &left_out);
  if (rename.to == NameStyle::kTimm && OfDetector(*file)) {
    throw UsageError({.what = "holds a detector's weights, and timm has no detectors",
                      .where = options.in,
                      .expected = "--to torchvision or mmdetection"});
  }
  TellLeftOut(left_out, train::NameStyleName(rename.to), options.ema);
  if (!file->unread().empty()) Tell("warning: {}\n", Printable(train::UnreadText(file->unread())));
  return file;
}

// A file whose name promises another format can't be read by whom the name is meant for.
void CheckEnding(const std::string& file) {
  const std::string ending = fs::path(file).extension().string();
  for (const char* other :
       {".pth", ".pt", ".bin", ".ckpt", ".onnx", ".npz", ".npy", ".h5", ".pkl", ".msgpack"}) {
    if (ending != other) continue;
    throw UsageError({.what = "is written as safetensors, not as `" + ending + "`",
                      .where = file,
                      .expected = "a name ending in .safetensors",
                      .next = "in Python `torch.save(safetensors.torch.load_file(FILE), OUT)` "
                              "makes a .pth of it"});
  }
}

void Convert(const ConvertOptions& options) {
  CheckOutFile(options.out);
  CheckEnding(options.out);
  std::unique_ptr<TensorFile> file = OpenRenamed(options);
  std::vector<std::vector<std::byte>> data;
  std::vector<train::TensorView> views;
  for (const auto& [name, tensor] : ChooseWeights(*file, options)) {
    TensorInfo info = *tensor;
    info.name = name;
    info.type = TargetType(*tensor, options.dtype);
    data.push_back(ReadAs(*file, *tensor, info.type));
    views.push_back({std::move(info), data.back().data()});
  }
  Hash128 hash = train::WriteSafetensors(options.out, views, KeptMetadata(*file));
  fmt::print("{}: {} tensors, {}\n", options.out, views.size(), hash.Hex());
}

void AddShow(Command weights) {
  auto options = std::make_shared<ShowOptions>();
  Command command = weights.AddCommand("show", "list the tensors and the metadata of a file");
  command.AddOption("file", options->file, ".safetensors or .pth").Required();
  command.AddOption("--filter", options->filter, "only names that match, * and ? allowed");
  command.AddFlag("--json", options->json,
                  "as JSON: path, format, naming, metadata, tensors, unread");
  command.Callback([options] { Show(*options); });
  command.Footer(
      "Example:\n  exp weights show work_dirs/bccd/epoch_12.safetensors --filter 'rpn.*'");
}

void AddConvert(Command weights) {
  auto options = std::make_shared<ConvertOptions>();
  Command command =
      weights.AddCommand("convert", "write weights as safetensors, under other names");
  command.AddOption("in", options->in, ".safetensors or .pth (read without executing anything)")
      .Required();
  command.AddOption("out", options->out, "the .safetensors file to write").Required();
  command.AddOption("--from", options->from, "how IN names its weights (default: found out)")
      .OneOf({"auto", "torchvision", "mmdetection", "timm"});
  command.AddOption("--to", options->to, "how OUT names them")
      .OneOf({"torchvision", "mmdetection", "timm"})
      .ShowDefault();
  command.AddOption("--background", options->background, "where OUT's box head has background")
      .OneOf({"first", "last"})
      .ShowDefault();
  command.AddOption("--dtype", options->dtype, "element type of OUT's floats")
      .OneOf({"same", "fp32", "fp16", "bf16"})
      .ShowDefault();
  command.AddFlag("--backbone", options->backbone,
                  "a classifier's weights, as a detector's backbone");
  command.AddFlag("--ema", options->ema,
                  "a checkpoint's averaged weights instead of the last ones");
  command.Callback([options] { Convert(*options); });
  command.Footer(
      "Example:\n  exp weights convert faster_rcnn_r50_fpn_1x_coco.pth weights.safetensors\n"
      "  exp weights convert resnet50-0676ba61.pth r50.safetensors --backbone");
}

}  // namespace

void AddWeightsCommand(Command app, Context&) {
  Command weights = app.AddCommand("weights", "look into files of weights, and convert them");
  weights.RequireCommand();
  AddShow(weights);
  AddConvert(weights);
}

}  // namespace xp::cli
