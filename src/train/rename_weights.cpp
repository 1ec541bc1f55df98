// A tensor file seen under other names, with the rows of the box head in the order of another
// program.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "exp/base/error.h"
#include "exp/train/weight_names.h"

namespace xp::train {
namespace {

constexpr std::string_view kClassifier = "roi_heads.box_predictor.cls_score.";
constexpr std::string_view kDeltas = "roi_heads.box_predictor.bbox_pred.";
constexpr std::string_view kSsdClassifier = "head.classification_head.module_list.";
constexpr std::string_view kSsdDeltas = "head.regression_head.module_list.";

// What happens to a tensor's first dimension on the way.
struct RowChange {
  int64_t drop_front = 0, drop_back = 0, zeros_front = 0, zeros_back = 0;
  int64_t rotate = 0;  // rows moved from the front to the back (negative: the other way)
  int64_t groups = 1;  // of as many rows, each changed by itself
  bool none() const {
    return drop_front == 0 && drop_back == 0 && zeros_front == 0 && zeros_back == 0 && rotate == 0;
  }
};

// How a head's rows lie: where background is, and whether the deltas have rows for it.
struct HeadLayout {
  Background background = Background::kFirst;
  bool deltas_for_background = true;
};

RowChange ClassifierChange(const HeadLayout& from, const HeadLayout& to) {
  if (from.background == to.background) return {};
  return {.rotate = from.background == Background::kFirst ? 1 : -1};
}

// `rows` of deltas for `classes` rows of the classifier (background included).
RowChange DeltaChange(const HeadLayout& from, const HeadLayout& to, int64_t rows, int64_t classes) {
  int64_t expected = 4 * (from.deltas_for_background ? classes : classes - 1);
  if (rows != expected || classes < 2) return {};  // class-agnostic: 4 rows
  RowChange change;
  bool first = from.background == Background::kFirst,
       to_first = to.background == Background::kFirst;
  if (from.deltas_for_background && (first != to_first || !to.deltas_for_background)) {
    (first ? change.drop_front : change.drop_back) = 4;
    if (to.deltas_for_background) (to_first ? change.zeros_front : change.zeros_back) = 4;
  } else if (!from.deltas_for_background && to.deltas_for_background) {
    (to_first ? change.zeros_front : change.zeros_back) = 4;
  }
  return change;
}

// torchvision's SSD keeps VGG16's layers up to conv4_3 as `features` and the rest, from the fourth
// pool (number 23) on, as the first block of `extra` (models/detection/ssd.py,
// SSDFeatureExtractorVGG).
std::string VggName(const std::string& name) {
  size_t dot = name.find('.', 9);
  std::string digits = name.substr(9, dot - 9);
  bool number = !digits.empty() && digits.size() < 4 &&
                digits.find_first_not_of("0123456789") == std::string::npos;
  if (!number || dot == std::string::npos || std::stoi(digits) < 23) return "backbone." + name;
  return fmt::format("backbone.extra.0.{}{}", std::stoi(digits) - 23, name.substr(dot));
}

// A classifier of mmpretrain's, not a detector: `head.fc.` beside the backbone alone.
bool IsMmpretrain(const TensorFile& file, std::string_view prefix) {
  return file.Find(std::string(prefix) + "head.fc.weight") != nullptr;
}

class RenamedFile : public TensorFile {
 public:
  RenamedFile(std::unique_ptr<TensorFile> file, const RenameOptions& options,
              std::vector<std::string>* left_out)
      : file_(std::move(file)), options_(options) {
    path_ = file_->path();
    format_ = file_->format();
    metadata_ = file_->metadata();
    const std::string prefix = WrapperPrefix(*file_);
    const NameStyle from = options.from ? *options.from : GuessStyle(*file_);
    classifier_ = from == NameStyle::kMmdetection && IsMmpretrain(*file_, prefix);
    std::map<std::string, const TensorInfo*> ours;
    for (const TensorInfo& tensor : file_->tensors()) {
      if (!tensor.name.starts_with(prefix)) continue;
      std::optional<std::string> name =
          OurName(from, std::string_view(tensor.name).substr(prefix.size()));
      if (!name || !FromOurName(options.to, *name)) {
        if (left_out != nullptr) left_out->push_back(tensor.name);
        continue;
      }
      auto [at, added] = ours.emplace(*name, &tensor);
      if (!added) {
        throw UsageError({.what = fmt::format("`{}` and `{}` would both be `{}`", at->second->name,
                                              tensor.name, *name),
                          .where = path_,
                          .next = "say with --from how the names are meant"});
      }
    }
    FindLayouts(from);
    for (const auto& [name, tensor] : ours) AddTensor(name, *tensor, ours);
    for (UnreadTensor other : file_->unread()) {
      other.source = other.name;
      if (other.name.starts_with(prefix)) {
        std::optional<std::string> name =
            OurName(from, std::string_view(other.name).substr(prefix.size()));
        std::optional<std::string> target = name ? FromOurName(options.to, *name) : std::nullopt;
        if (target) other.name = *target;
      }
      unread_.push_back(std::move(other));
    }
    SortByName();
    if (to_.background == Background::kLast) {
      metadata_["exp.background"] = "last";
    } else {
      metadata_.erase("exp.background");
    }
  }

  std::vector<std::byte> Read(const TensorInfo& info) const override {
    const Source& source = sources_.at(info.name);
    std::vector<std::byte> bytes = file_->Read(*source.tensor);
    return source.change.none() ? bytes : Changed(bytes, *source.tensor, source.change);
  }

 private:
  struct Source {
    const TensorInfo* tensor;
    RowChange change;
  };

  std::optional<std::string> OurName(NameStyle from, std::string_view name) const {
    if (classifier_ && name.starts_with("head.fc.")) name.remove_prefix(5);
    std::optional<std::string> ours =
        classifier_ && name.starts_with("fc.") ? std::string(name) : ToOurName(from, name);
    const bool bare = classifier_ || options_.as_classifier;
    if (bare && ours && ours->starts_with("backbone.body.")) ours->erase(0, 14);
    return ours && options_.as_backbone ? AsBackbone(*ours) : ours;
  }

  // The layers below a classifier's own, weights and their averages; a detector's backbone is one.
  static std::optional<std::string> AsBackbone(const std::string& name) {
    if (name.starts_with("ema.")) {
      std::optional<std::string> average = AsBackbone(name.substr(4));
      return average ? std::optional("ema." + *average) : std::nullopt;
    }
    if (name.starts_with("backbone.")) return name;
    if (name.starts_with("features.")) return VggName(name);
    for (const char* part : {"conv1.", "bn1.", "layer1.", "layer2.", "layer3.", "layer4."}) {
      if (name.starts_with(part)) return "backbone.body." + name;
    }
    return std::nullopt;
  }

  void FindLayouts(NameStyle from) {
    auto said = metadata_.find("exp.background");
    if (from == NameStyle::kMmdetection) {
      from_ = {Background::kLast, false};
    } else if (said != metadata_.end() && said->second == "last") {
      from_ = {Background::kLast, true};
    }
    to_ = options_.to == NameStyle::kMmdetection ? HeadLayout{Background::kLast, false}
                                                 : HeadLayout{options_.background, true};
  }

  RowChange ChangeOf(std::string_view name, const TensorInfo& tensor,
                     const std::map<std::string, const TensorInfo*>& ours) const {
    if (name.starts_with(kSsdClassifier)) return SsdChange(name, tensor, ours);
    // Optimizer state and averages of a head lie as the head does.
    size_t at = name.find("roi_heads.box_predictor.");
    if (at == std::string_view::npos || tensor.shape.empty()) return {};
    if (name.substr(at).starts_with(kClassifier)) return ClassifierChange(from_, to_);
    if (!name.substr(at).starts_with(kDeltas)) return {};
    std::string classifier(name);
    classifier.replace(at, kDeltas.size(), kClassifier);
    auto other = ours.find(classifier);
    if (other == ours.end() || other->second->shape.empty()) return {};
    return DeltaChange(from_, to_, tensor.shape[0], other->second->shape[0]);
  }

  // Rows are anchor by anchor, as many as the deltas of that level have fours.
  RowChange SsdChange(std::string_view name, const TensorInfo& tensor,
                      const std::map<std::string, const TensorInfo*>& ours) const {
    auto deltas =
        ours.find(std::string(kSsdDeltas) + std::string(name.substr(kSsdClassifier.size())));
    if (from_.background == to_.background || deltas == ours.end() || tensor.shape.empty() ||
        deltas->second->shape.empty())
      return {};
    const int64_t anchors = deltas->second->shape[0] / 4;
    if (anchors < 1 || tensor.shape[0] % anchors != 0) return {};
    RowChange change = ClassifierChange(from_, to_);
    change.groups = anchors;
    return change;
  }

  void AddTensor(const std::string& name, const TensorInfo& tensor,
                 const std::map<std::string, const TensorInfo*>& ours) {
    std::optional<std::string> target = FromOurName(options_.to, name);
    if (!target) return;
    TensorInfo info = tensor;
    info.name = *target;
    RowChange change = ChangeOf(name, tensor, ours);
    if (!change.none()) {
      info.shape[0] +=
          change.zeros_front + change.zeros_back - change.drop_front - change.drop_back;
    }
    sources_.emplace(info.name, Source{&tensor, change});
    tensors_.push_back(std::move(info));
  }

  static std::vector<std::byte> Changed(const std::vector<std::byte>& bytes,
                                        const TensorInfo& tensor, const RowChange& change) {
    const int64_t rows = tensor.shape[0] / change.groups;
    const int64_t row = rows > 0 ? static_cast<int64_t>(bytes.size()) / rows / change.groups : 0;
    std::vector<std::byte> out;
    auto append = [&](int64_t begin, int64_t end) {
      out.insert(out.end(), bytes.begin() + begin * row, bytes.begin() + end * row);
    };
    auto append_zeros = [&](int64_t count) {
      out.resize(out.size() + static_cast<size_t>(count * row), std::byte{0});
    };
    for (int64_t group = 0; group < change.groups; ++group) {
      const int64_t begin = group * rows + change.drop_front;
      const int64_t end = (group + 1) * rows - change.drop_back;
      const int64_t split = change.rotate >= 0 ? begin + change.rotate : end + change.rotate;
      append_zeros(change.zeros_front);
      append(split, end);
      append(begin, split);
      append_zeros(change.zeros_back);
    }
    return out;
  }

  std::unique_ptr<TensorFile> file_;
  RenameOptions options_;
  HeadLayout from_, to_;
  bool classifier_ = false;  // of mmpretrain's names
  std::map<std::string, Source> sources_;
};

}  // namespace

std::unique_ptr<TensorFile> Rename(std::unique_ptr<TensorFile> file, const RenameOptions& options,
                                   std::vector<std::string>* left_out) {
  return std::make_unique<RenamedFile>(std::move(file), options, left_out);
}

}  // namespace xp::train
