#include "src/cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/config/reader.h"
#include "exp/data/from_config.h"
#include "exp/snapshot/dataset.h"
#include "src/cli/long_work.h"
#include "src/cli/signals.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

std::string TextAt(const config::Node& root, const std::string& path) {
  const config::Node* value = root.At(path);
  return value && value->IsString() ? value->AsString() : "";
}

void AddDatasets(const config::Node& root, const SnapshotOptions& options, const fs::path& store,
                 snapshot::Redactor& redactor, std::vector<record::DatasetRow>& rows) {
  snapshot::DatasetOptions hashing = options.data;
  hashing.cache_file = store / "image-hashes";
  hashing.stop = &StopSignals::flag();
  std::string before;
  for (const char* role : {"train", "val", "test"}) {
    const std::string file = TextAt(root, fmt::format("data.{}.ann_file", role));
    const std::string images = TextAt(root, fmt::format("data.{}.img_prefix", role));
    std::error_code error;
    if (file.empty() ? !fs::is_directory(images, error) : !fs::is_regular_file(file, error))
      continue;
    std::string both = fmt::format("{}\n{}", file, images);
    if (both == before) continue;  // data.test is often data.val
    before = both;
    LongWork shown(fmt::format("hashing data.{}", role));
    hashing.progress = shown.Reporter();
    snapshot::DatasetFingerprint f = snapshot::FingerprintDataset(
        file, images, data::NamedImages(config::Reader(root), role), hashing);
    record::DatasetRow& row = rows.emplace_back();
    row.role = role;
    row.ann_file = redactor.Text(f.ann_file, "data.ann_file");
    row.ann_hash = f.ann_hash;
    row.img_prefix = redactor.Text(f.img_prefix, "data.img_prefix");
    row.images = f.images;
    row.bytes = f.bytes;
    row.missing = f.missing;
    row.mode = f.cheap ? "cheap" : "full";
    row.fingerprint = f.fingerprint;
    row.image_list = redactor.Text(f.image_list, "names of images");
  }
}

void AddWeights(const config::Node& root, snapshot::Redactor& redactor,
                std::vector<record::DatasetRow>& rows) {
  struct Source {
    const char *role, *path;
  };
  static constexpr std::array kSources = {Source{"init_cfg", "model.backbone.init_cfg.checkpoint"},
                                          Source{"load_from", "load_from"}};
  for (const Source& source : kSources) {
    const std::string file = TextAt(root, source.path);
    std::error_code error;
    if (file.empty() || !fs::is_regular_file(file, error)) continue;
    record::DatasetRow row;
    try {
      row.ann_hash = row.fingerprint = HashFile(file).Hex();
    } catch (const Error&) {  // who needs it says that it can't be read
      continue;
    }
    row.role = source.role;
    row.ann_file = redactor.Text(file, source.path);
    row.bytes = static_cast<int64_t>(fs::file_size(file, error));
    rows.push_back(std::move(row));
  }
}

std::string ImageChanges(const record::DatasetRecord& before, const record::DatasetRow& now) {
  using Kind = snapshot::DatasetChange::Kind;
  std::vector<snapshot::DatasetChange> changes =
      snapshot::CompareImageLists(before.image_list, now.image_list);
  if (before.image_list.empty() || changes.empty()) return "other images";
  constexpr size_t kShown = 5;
  std::string text = fmt::format("{} {}: ", changes.size(),
                                 changes.size() == 1 ? "image differs" : "images differ");
  for (size_t i = 0; i < std::min(kShown, changes.size()); ++i) {
    text += fmt::format("{}{} ({})", i ? ", " : "", changes[i].name,
                        changes[i].kind == Kind::kAdded     ? "added"
                        : changes[i].kind == Kind::kRemoved ? "removed"
                                                            : "other content");
  }
  return changes.size() > kShown ? text + ", ..." : text;
}

}  // namespace

std::vector<record::DatasetRow> FingerprintInputs(const config::Node& root,
                                                  const SnapshotOptions& options,
                                                  const fs::path& store,
                                                  snapshot::Redactor& redactor) {
  std::vector<record::DatasetRow> rows;
  if (!options.data_off) AddDatasets(root, options, store, redactor, rows);
  AddWeights(root, redactor, rows);
  return rows;
}

std::vector<std::string> InputChanges(const record::Run& run,
                                      const std::vector<record::DatasetRow>& now, bool weights) {
  std::vector<std::string> lines;
  for (const record::DatasetRecord& before : run.datasets) {
    if (record::HoldsWeights(before) && !weights) continue;
    auto row = std::find_if(now.begin(), now.end(),
                            [&](const record::DatasetRow& r) { return r.role == before.role; });
    const std::string name =
        record::HoldsWeights(before) ? before.role : "data." + before.role + ".ann_file";
    if (row == now.end()) {
      lines.push_back(fmt::format("{}: {} isn't there any more", name,
                                  before.ann_file.empty() ? before.img_prefix : before.ann_file));
      continue;
    }
    if (row->ann_hash != before.ann_hash) {
      lines.push_back(fmt::format("{}: the content of {} is another: {} -> {}", name, row->ann_file,
                                  before.ann_hash.substr(0, 12), row->ann_hash.substr(0, 12)));
    }
    // The fingerprint is of the annotations, too: only the list tells of images alone.
    bool images = row->fingerprint != before.fingerprint && row->mode == before.mode &&
                  row->image_list != before.image_list;
    if (images && !record::HoldsWeights(before)) {
      lines.push_back(
          fmt::format("data.{}.img_prefix: {}", before.role, ImageChanges(before, *row)));
    }
  }
  return lines;
}

}  // namespace xp::cli
