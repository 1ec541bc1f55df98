#include "exp/train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "src/train/checkpoint_io.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;

namespace {

CheckpointInfo Info(int epoch, int64_t step, int64_t batch = 0) {
  CheckpointInfo info;
  info.epoch = epoch;
  info.step = step;
  info.batch = batch;
  info.seed = 0xFFFFFFFFFFFFFFFFull;
  info.metadata = {{"exp.run", "20240101-abcd"}, {"exp.config", "00ff"}};
  return info;
}

Hash128 Save(const std::filesystem::path& folder, const CheckpointInfo& info) {
  std::vector<float> weight(100, static_cast<float>(info.step)), momentum(100, 0.5f);
  std::vector<TensorView> tensors{
      {{"backbone.body.conv1.weight", ElementType::kF32, {4, 25}}, weight.data()},
      {{OptimizerTensorName("momentum", "backbone.body.conv1.weight"), ElementType::kF32, {4, 25}},
       momentum.data()}};
  return SaveCheckpoint(folder / CheckpointFileName(info), info, tensors);
}

void FlipByte(const std::filesystem::path& path, size_t from_end) {
  std::string content = ReadFile(path);
  content[content.size() - from_end] ^= 1;
  WriteFileAtomic(path, content);
}

}  // namespace

TEST_CASE("a checkpoint gives back what was saved") {
  TempFolder folder;
  CheckpointInfo info = Info(3, 1200, 17);
  info.metrics = {{"bbox_mAP", 1.0 / 3}, {"bbox_mAP_50", std::nan("")}};
  Hash128 hash = Save(folder.path(), info);
  CHECK(hash == HashFile(folder / "iter_1200.safetensors"));
  Checkpoint read = LoadCheckpoint(folder / "iter_1200.safetensors");
  CHECK(read.info.epoch == 3);
  CHECK(read.info.step == 1200);
  CHECK(read.info.batch == 17);
  CHECK(read.info.seed == info.seed);
  CHECK(read.info.metrics.at("bbox_mAP") == 1.0 / 3);
  CHECK(std::isnan(read.info.metrics.at("bbox_mAP_50")));
  CHECK(read.info.metadata == info.metadata);
  CHECK(read.file->ReadFloats("optimizer.momentum.backbone.body.conv1.weight") ==
        std::vector<float>(100, 0.5f));
  CHECK(CheckpointFileName(Info(12, 5000)) == "epoch_12.safetensors");
}

TEST_CASE("a changed bit anywhere is noticed") {
  TempFolder folder;
  Save(folder.path(), Info(1, 10));
  const std::filesystem::path path = folder / "epoch_1.safetensors";
  const std::string good = ReadFile(path);
  for (size_t at = 0; at < good.size(); at += 13) {
    std::string bad = good;
    bad[at] ^= 4;
    WriteFileAtomic(path, bad);
    INFO("byte " << at);
    CHECK_THROWS_AS(LoadCheckpoint(path), Error);
  }
  for (size_t size : {size_t{0}, size_t{7}, good.size() / 2, good.size() - 1}) {
    WriteFileAtomic(path, good.substr(0, size));
    CHECK_THROWS_AS(LoadCheckpoint(path), Error);
  }
}

TEST_CASE("weights without a training state are told from checkpoints") {
  CHECK_THROWS_WITH(LoadCheckpoint(EXP_SOURCE_DIR "/tests/fixtures/ops.safetensors"),
                    ContainsSubstring("load_from"));
}

TEST_CASE("resuming falls back to the newest checkpoint that is intact") {
  TempFolder folder;
  std::vector<std::string> warnings;
  auto warn = [&](const std::filesystem::path& path, const std::string& problem) {
    warnings.push_back(path.filename().string() + " " + problem);
  };
  CHECK_FALSE(LoadNewestCheckpoint(folder.path(), warn));
  CHECK_FALSE(LoadNewestCheckpoint(folder / "absent", warn));
  Save(folder.path(), Info(9, 90));  // "epoch_9" sorts after "epoch_10" by name, not by step
  Save(folder.path(), Info(10, 100));
  Save(folder.path(), Info(10, 105, 5));
  WriteFileAtomic(folder / "notes.txt", "x");
  CHECK(LoadNewestCheckpoint(folder.path(), warn)->info.step == 105);
  CHECK(warnings.empty());

  FlipByte(folder / "iter_105.safetensors", 20);  // in a tensor: only the content hash can tell
  CHECK(LoadNewestCheckpoint(folder.path(), warn)->info.step == 100);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], ContainsSubstring("iter_105.safetensors is damaged"));

  WriteFileAtomic(folder / "epoch_10.safetensors", "cut");
  warnings.clear();
  CHECK(LoadNewestCheckpoint(folder.path(), warn)->info.step == 90);
  CHECK(warnings.size() == 2);

  FlipByte(folder / "epoch_9.safetensors", 20);
  CHECK_THROWS_WITH(LoadNewestCheckpoint(folder.path(), warn), ContainsSubstring("none of its 3"));
}

TEST_CASE("what a killed process left half written is removed, nothing else") {
  TempFolder folder;
  for (const char* name :
       {"epoch_1.safetensors", "epoch_2.safetensors.tmp.4711", "iter_30.safetensors.tmp.1",
        "notes.txt.tmp.3", "epoch_2.safetensors.tmp", "my_epoch_2.safetensors.tmp.3"})
    WriteFileAtomic(folder / name, "x");
  RemoveUnfinished(folder.path());
  RemoveUnfinished(folder / "absent");
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left.insert(entry.path().filename().string());
  CHECK(left == std::set<std::string>{"epoch_1.safetensors", "notes.txt.tmp.3",
                                      "epoch_2.safetensors.tmp", "my_epoch_2.safetensors.tmp.3"});
}

TEST_CASE("the keep policy lets go of nothing that one of its rules asks for") {
  std::vector<CheckpointEntry> entries;
  const double ap[] = {0.1, 0.5, 0.3, 0.5, 0.2, 0.4};
  for (int epoch = 1; epoch <= 6; ++epoch) {
    CheckpointEntry entry;
    entry.path = "epoch_" + std::to_string(epoch);
    entry.info = Info(epoch, epoch * 10);
    entry.info.metrics["bbox_mAP"] = ap[epoch - 1];
    entries.push_back(entry);
  }
  entries.push_back({"iter_65", Info(6, 65, 5), ""});
  entries.push_back({"epoch_bad", {}, "cut off"});
  std::reverse(entries.begin(), entries.end());
  auto gone = [&](KeepPolicy policy) {
    std::string names;
    for (const auto& path : Superfluous(entries, policy)) names += path.string() + " ";
    return names;
  };
  CHECK(gone({}).empty());
  CHECK(gone({.last = 3}) == "epoch_1 epoch_2 epoch_3 epoch_4 ");
  CHECK(gone({.last = 2, .best_metric = "bbox_mAP"}) == "epoch_1 epoch_3 epoch_4 epoch_5 ");
  CHECK(gone({.last = 1, .best_metric = "bbox_mAP", .higher_is_better = false}) ==
        "epoch_2 epoch_3 epoch_4 epoch_5 epoch_6 ");
  CHECK(gone({.last = 1, .every = 3}) == "epoch_1 epoch_2 epoch_4 epoch_5 ");
  CHECK(gone({.last = 1, .best_metric = "unknown"}) ==
        "epoch_1 epoch_2 epoch_3 epoch_4 epoch_5 epoch_6 ");
}

TEST_CASE("optimizer state has names") {
  CHECK(OptimizerSlots("SGD") == std::vector<std::string>{"momentum"});
  CHECK(OptimizerSlots("AdamW") == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  CHECK_THROWS_WITH(OptimizerSlots("sgdd"), ContainsSubstring("sgdd"));
}

TEST_CASE("sums of losses go on by name, whatever a checkpoint brought along") {
  LossSums sums = LossSums::Parse("2 loss_cls=0x1p+1");
  sums.Add({{"loss_bbox", 3}, {"loss_cls", 1}});  // other terms, in another order
  CHECK(sums.Means() == NamedValues{{"loss_cls", 1}, {"loss_bbox", 1}});
  CHECK(LossSums::Parse(sums.Text()).Means() == sums.Means());
  CHECK(LossSums::Parse("0 a=0x1p+1").Means() == NamedValues{{"a", 2}});
  CHECK(LossSums::Parse("nonsense").Means().empty());
}
