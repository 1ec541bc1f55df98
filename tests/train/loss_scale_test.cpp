// fp16's loss scale is a part of the state like any other: an update that is stopped at any step
// and goes on from its checkpoint, in buffers of its own, has the bits of one that never stopped.
// (The CPU trains in fp32 and bf16; its update operations know fp16, the reference for CUDA's.)
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "catch.h"
#include "exp/graph/program.h"
#include "exp/train/checkpoint.h"
#include "exp/train/flat_state.h"
#include "exp/train/update.h"
#include "src/graph/half.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;

namespace {

constexpr int kSteps = 2030;  // the scale doubles after 2000 good ones

class ScaledUpdate {
 public:
  ScaledUpdate(graph::Backend& backend, const OptimizerOptions& options)
      : layout_(std::make_shared<graph::ParamLayout>()), slots_(OptimizerSlotNames(options)) {
    layout_->AddParam({.name = "w", .shape = {4, 3}});
    layout_->AddParam({.name = "b", .shape = {70}, .is_bias = true});
    graph::Graph g(layout_, graph::DType::kF16);
    for (int i = 0; i < 2; ++i) {
      const graph::Param& p = layout_->params()[static_cast<size_t>(i)];
      offsets_.push_back(layout_->AddGrad(i));
      g.AddTensor({.name = p.name,
                   .shape = p.shape,
                   .storage = graph::Storage::kGrad,
                   .offset = offsets_.back()});
    }
    AppendUpdate(g, options);
    params_ = std::make_unique<graph::ParamBuffers>(backend, layout_, graph::DType::kF16, true,
                                                    OptimizerSlotCount(options), false);
    state_.params.resize(static_cast<size_t>(layout_->param_elements()));  // gaps stay zero
    for (const graph::Param& p : layout_->params())
      std::fill_n(state_.params.begin() + p.offset, p.elements(), 0.5f);
    state_.states.resize(static_cast<size_t>(layout_->state_elements()));
    state_.optimizer.resize(state_.params.size() * slots_.size());
    graph::InitializeStates(*layout_, state_.states.data());
    Write();
    program_ = std::make_unique<graph::Program>(backend, std::move(g), *params_);
  }

  float scale() {
    Read();
    return state_.states[static_cast<size_t>(
        layout_->states()[static_cast<size_t>(layout_->FindState("loss_scale"))].offset)];
  }

  // Gradients of the step, in fp16 behind the scale that the losses are multiplied with.
  void Step(int step) {
    const float by = scale();
    std::mt19937 random(static_cast<unsigned>(step));
    std::normal_distribution<float> normal(0, step == 1000 ? 1e4f : 1.0f);  // a step that overflows
    std::vector<float> grads(static_cast<size_t>(layout_->grad_elements()));
    for (int i = 0; i < 2; ++i) {
      for (int64_t k = 0; k < layout_->params()[static_cast<size_t>(i)].elements(); ++k) {
        grads[static_cast<size_t>(offsets_[static_cast<size_t>(i)] + k)] =
            graph::HalfToFloat(graph::FloatToHalf(normal(random) * by));
      }
    }
    params_->Write(graph::Storage::kGrad, grads);
    const float lr = 0.01f / static_cast<float>(step + 1), average = 0.25f;
    program_->SetInput("lr", &lr, sizeof(lr));
    program_->SetInput("ema_momentum", &average, sizeof(average));
    program_->Run(true);
  }

  void Save(const std::filesystem::path& path) {
    Read();
    std::vector<NamedTensor> tensors = ExportState(*layout_, state_, slots_);
    std::vector<TensorView> views;
    for (const NamedTensor& t : tensors)
      views.push_back({{t.name, ElementType::kF32, t.shape}, t.values.data()});
    SaveCheckpoint(path, {}, views);
  }

  void Restore(const std::filesystem::path& path) {
    Checkpoint checkpoint = LoadCheckpoint(path);
    for (const TensorInfo& t : checkpoint.file->tensors()) {
      CHECK(ImportTensor(*layout_, {t.name, t.shape, checkpoint.file->ReadFloats(t.name)}, slots_,
                         path.string(), &state_));
    }
    Write();
  }

  const FlatState& state() {
    Read();
    return state_;
  }

 private:
  void Read() {
    params_->Read(graph::Storage::kParam, &state_.params);
    params_->Read(graph::Storage::kState, &state_.states);
    params_->Read(graph::Storage::kOptimizer, &state_.optimizer);
  }
  void Write() {
    params_->Write(graph::Storage::kParam, state_.params);
    params_->Write(graph::Storage::kState, state_.states);
    params_->Write(graph::Storage::kOptimizer, state_.optimizer);
  }

  std::shared_ptr<graph::ParamLayout> layout_;
  std::vector<std::string> slots_;
  std::vector<int64_t> offsets_;
  FlatState state_;
  std::unique_ptr<graph::ParamBuffers> params_;
  std::unique_ptr<graph::Program> program_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("a loss scale resumes to the same bits, wherever it was stopped") {
  TempFolder folder;
  for (OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
    OptimizerOptions options;
    options.kind = kind;
    options.max_norm = 1;
    options.ema_momentum = 0.25;
    auto backend = graph::CreateCpuBackend(1);
    ScaledUpdate whole(*backend, options);
    std::vector<float> scales;
    for (int step = 0; step < kSteps; ++step) {
      scales.push_back(whole.scale());
      whole.Step(step);
    }
    // It was lowered at first, by the step that overflows, and has been raised once again.
    CHECK(scales[0] == 65536);
    CHECK(scales[900] < 65536);
    CHECK(scales[1020] < scales[900]);
    // In the middle of lowering it, of counting good steps, around the step that overflows.
    for (int stop : {1, 2, 3, 500, 1000, 1001, 1003, kSteps - 1}) {
      INFO("stopped before step " << stop);
      ScaledUpdate first(*backend, options), rest(*backend, options);
      for (int step = 0; step < stop; ++step) first.Step(step);
      first.Save(folder / "state.safetensors");
      rest.Restore(folder / "state.safetensors");
      CHECK(rest.scale() == scales[static_cast<size_t>(stop)]);
      for (int step = stop; step < kSteps; ++step) rest.Step(step);
      CHECK(SameBits(rest.state().params, whole.state().params));
      CHECK(SameBits(rest.state().states, whole.state().states));
      CHECK(SameBits(rest.state().optimizer, whole.state().optimizer));
    }
  }
}

namespace {

std::filesystem::path StateAt(const std::filesystem::path& folder, int step) {
  return folder / ("step_" + std::to_string(step) + ".safetensors");
}

// The steps done by the newest state in the folder that is whole; 0: there is none.
int NewestStep(const std::filesystem::path& folder) {
  for (int step = kSteps; step > 0; --step) {
    if (std::filesystem::exists(StateAt(folder, step))) return step;
  }
  return 0;
}

// Goes on from the newest state to the last step; a state is saved every few steps, of which the
// newest two stay.
void GoOn(const std::filesystem::path& folder, const OptimizerOptions& options) {
  constexpr int kInterval = 15;
  auto backend = graph::CreateCpuBackend(1);
  ScaledUpdate update(*backend, options);
  const int begin = NewestStep(folder);
  if (begin > 0) update.Restore(StateAt(folder, begin));
  for (int step = begin; step < kSteps; ++step) {
    update.Step(step);
    if ((step + 1) % kInterval != 0 && step + 1 != kSteps) continue;
    update.Save(StateAt(folder, step + 1));
    std::filesystem::remove(StateAt(folder, step + 1 - 2 * kInterval));
  }
}

}  // namespace

// EXP_RESUME_KILLS: how many kills (12).
TEST_CASE("a process with a loss scale that is killed at random moments ends with the same bits") {
  const char* named = std::getenv("EXP_RESUME_KILLS");
  const int kills = named != nullptr ? std::max(1, std::atoi(named)) : 12;
  OptimizerOptions options;
  options.kind = OptimizerKind::kAdamW;
  options.max_norm = 1;
  options.ema_momentum = 0.25;
  auto backend = graph::CreateCpuBackend(1);
  ScaledUpdate whole(*backend, options), last(*backend, options);
  for (int step = 0; step < kSteps; ++step) whole.Step(step);

  std::mt19937 random(1);
  int killed = 0;
  while (killed < kills) {
    TempFolder folder;
    for (bool ended = false; !ended;) {
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        int code = 1;
        try {
          GoOn(folder.path(), options);
          code = 0;
        } catch (const std::exception& error) {
          std::fprintf(stderr, "%s\n", error.what());
        }
        ::_exit(code);
      }
      // The longest is about as long as a run takes.
      if (killed < kills) {
        ::usleep(random() % 200000);
        ::kill(child, SIGKILL);
      }
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      if (WIFSIGNALED(status)) ++killed;
      ended = WIFEXITED(status);
      if (ended) REQUIRE(WEXITSTATUS(status) == 0);
    }
    last.Restore(StateAt(folder.path(), kSteps));
    CHECK(last.scale() == whole.scale());
    CHECK(SameBits(last.state().params, whole.state().params));
    CHECK(SameBits(last.state().states, whole.state().states));
    CHECK(SameBits(last.state().optimizer, whole.state().optimizer));
  }
  CHECK(killed >= kills);
}
