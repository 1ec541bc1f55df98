// A step that doesn't fit says which batch would; tried on a backend that has less memory than it
// is given.
#include <memory>

#include "catch.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/backend.h"
#include "exp/graph/passes.h"
#include "exp/models/classifier.h"
#include "src/train/largest_batch.h"
#include "src/train/step_runner.h"
#include "wrapped_backend.h"

using namespace xp;
using namespace xp::train;
using graph::DType;

namespace {

class SmallBackend : public WrappedBackend {
 public:
  explicit SmallBackend(size_t free_bytes)
      : WrappedBackend(graph::CreateCpuBackend(1)), free_bytes_(free_bytes) {}
  graph::DeviceMemory Memory() const override { return {free_bytes_, 2 * free_bytes_}; }

 private:
  size_t free_bytes_;
};

// What building steps of `batch` images on so much free memory says; empty when it works. `needed`:
// how much it would have to be.
ErrorText Build(int batch, size_t free_bytes, uint64_t* needed = nullptr) {
  SmallBackend backend(free_bytes);
  models::ClassifierOptions options;
  options.backbone.depth = 18;
  options.num_classes = 10;
  auto model = models::MakeClassifier(options);
  models::BatchShape shape{batch, 64, 64, 0};
  OptimizerOptions optimizer;
  auto layout = std::make_shared<graph::ParamLayout>();
  graph::Graph g(layout, DType::kF32);
  model->BuildTraining(g, shape);
  graph::RunPasses(g, {});
  graph::AppendBackward(g);
  AppendUpdate(g, optimizer);
  graph::ParamBuffers params(backend, layout, DType::kF32, true, OptimizerSlotCount(optimizer),
                             false);
  try {
    StepRunner steps(backend, *model, params, DType::kF32, optimizer, {shape});
  } catch (const graph::MemoryLimit& e) {
    CHECK(e.exit_code() == 1);
    CHECK(e.needed_bytes() > e.free_bytes());
    if (needed) *needed = e.needed_bytes();
    return e.text();
  }
  return {};
}

}  // namespace

TEST_CASE("the largest batch that fits is found") {
  int asked = 0;
  auto bytes = [&](int n) {
    ++asked;
    return static_cast<size_t>(1000 + 100 * n);
  };
  CHECK(LargestBatch(bytes, 1099, 64) == 0);
  CHECK(LargestBatch(bytes, 1100, 64) == 1);
  CHECK(LargestBatch(bytes, 2750, 64) == 17);
  CHECK(LargestBatch(bytes, 1 << 20, 64) == 63);  // the one below what was refused
  CHECK(LargestBatch(bytes, 5000, 1) == 0);
  CHECK(asked <= 5 * 7);
}

TEST_CASE("a batch that doesn't fit names one that does") {
  // Half of what it takes: how much that is differs with the processor (workspaces of oneDNN).
  constexpr int kAsked = 256;
  uint64_t needed = 0;
  Build(kAsked, 1 << 16, &needed);
  const size_t free_bytes = needed / 2;
  ErrorText refused = Build(kAsked, free_bytes);
  INFO(refused.what << " -- " << refused.next);
  REQUIRE(refused.what.rfind("mem lim: ", 0) == 0);
  size_t comma = refused.what.find("were asked for, ");
  REQUIRE(comma != std::string::npos);
  int largest = std::stoi(refused.what.substr(comma + 16));
  REQUIRE(largest >= 1);
  REQUIRE(largest < kAsked);
  CHECK(refused.next.find("samples_per_gpu=" + std::to_string(largest)) != std::string::npos);
  CHECK(Build(largest, free_bytes).what.empty());
  CHECK_FALSE(Build(2 * largest, free_bytes).what.empty());

  CHECK(Build(2, 1 << 16).what.find("not even one fits") != std::string::npos);
}
