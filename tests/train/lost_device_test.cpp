// A device that is lost on the way: the run ends with the reason, the last checkpoint stays, and
// going on from it on a device that works gives the same bits as never having lost one.
#include <fmt/format.h>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/train/checkpoint.h"
#include "small_detector.h"
#include "wrapped_backend.h"

using namespace xp;
using namespace xp::train;

namespace {

// Works for so many steps, and never again.
class LostBackend : public WrappedBackend {
 public:
  LostBackend(std::unique_ptr<graph::Backend> whole, int launches)
      : WrappedBackend(std::move(whole)), left_(launches) {}

  std::unique_ptr<graph::Recording> Record(std::function<void()> body) override {
    struct Counted : graph::Recording {
      Counted(LostBackend* b, std::unique_ptr<graph::Recording> r)
          : owner(b), inner(std::move(r)) {}
      void Launch() override {
        owner->Use("running a step", 1);
        inner->Launch();
      }
      LostBackend* owner;
      std::unique_ptr<graph::Recording> inner;
    };
    return std::make_unique<Counted>(this, WrappedBackend::Record(std::move(body)));
  }
  void Upload(void* device, const void* host, size_t bytes) override {
    Use("copying", 0);
    WrappedBackend::Upload(device, host, bytes);
  }
  void Download(void* host, const void* device, size_t bytes) override {
    Use("copying", 0);
    WrappedBackend::Download(host, device, bytes);
  }
  void Synchronize() override {
    Use("waiting", 0);
    WrappedBackend::Synchronize();
  }

 private:
  void Use(const char* doing, int launches) {
    left_ -= launches;
    if (left_ < 0)
      throw JobError(
          {.what = fmt::format("the GPU was lost while {}: unspecified launch failure", doing),
           .next = "look into the kernel log (dmesg) for Xid messages"});
  }
  int left_;
};

struct Diary : Observer {
  std::vector<std::string> epochs, checkpoints;
  int ends = 0;
  void OnEpoch(const EpochEvent& e) override {
    epochs.push_back(fmt::format("{} {}", e.epoch, e.weights_hash.Hex()));
  }
  void OnCheckpoint(const CheckpointEvent& e) override { checkpoints.push_back(e.path); }
  void OnEnd(const EndEvent&) override { ++ends; }
};

}  // namespace

TEST_CASE("what makes the steps ready can be stopped, and afterwards steps end first") {
  SmallDetector work({"data.train.times=1", "model.backbone.base_channels=8", "runner.max_epochs=1",
                      "lr_config.policy=fixed", "~lr_config.warmup"});
  const config::Node config = work.Config({});
  StoppingObserver observer;
  TrainOptions options = SmallDetector::Options(work.folder / "run");
  options.stop = &observer.stop;
  observer.stop = true;
  try {
    Training training(config, options, observer);
    FAIL("it got ready");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kInterrupted);
  }
  CHECK_FALSE(std::filesystem::exists(work.folder / "run"));
  observer.stop = false;
  Training training(config, options, observer);
  observer.stop_at = 2;
  training.Run();
  CHECK_FALSE(std::filesystem::is_empty(work.folder / "run"));  // the state of step 2
}

TEST_CASE(
    "a device lost in the middle leaves the checkpoint before, which goes on to the same bits") {
  SmallDetector work({"data.train.times=1", "model.backbone.base_channels=8", "runner.max_epochs=3",
                      "lr_config.policy=fixed", "~lr_config.warmup"});
  config::Node config = work.Config({});
  Diary whole;
  Train(config, SmallDetector::Options(work.folder / "whole"), whole);
  REQUIRE(whole.epochs.size() == 3);

  Diary lost, rest;
  TrainOptions options = SmallDetector::Options(work.folder / "run");
  options.wrap_backend = [](std::unique_ptr<graph::Backend> b) -> std::unique_ptr<graph::Backend> {
    return std::make_unique<LostBackend>(std::move(b), 8);  // in the second epoch of five steps
  };
  CHECK_THROWS_WITH(Train(config, options, lost), ContainsSubstring("the GPU was lost"));
  CHECK(lost.ends == 0);  // the owner of the record writes the end, with this reason
  REQUIRE(lost.checkpoints.size() == 1);
  auto newest = LoadNewestCheckpoint(
      work.folder / "run", [](const auto&, const std::string&) { FAIL("a damaged checkpoint"); });
  REQUIRE(newest);
  CHECK(newest->info.epoch == 1);

  options.wrap_backend = nullptr;
  options.resume_checkpoint = work.folder / "run";
  Train(config, options, rest);
  std::vector<std::string> epochs = lost.epochs;
  epochs.insert(epochs.end(), rest.epochs.begin(), rest.epochs.end());
  CHECK(epochs == whole.epochs);
}
