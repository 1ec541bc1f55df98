#include "src/graph/cuda/conv_variants.h"

#include "exp/graph/memory_plan.h"
#include "kernels/bias_act.h"
#include "kernels/conv_input.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/element_type.h"

namespace xp::graph::cuda {
namespace {

class WithEpilogue : public ConvPlan {
 public:
  WithEpilogue(std::unique_ptr<ConvPlan> plan, const ConvProblem& whole, cudaStream_t stream)
      : plan_(std::move(plan)), whole_(whole), stream_(stream) {}
  size_t workspace_bytes() const override { return plan_->workspace_bytes(); }
  std::string Compiled() const override { return plan_->Compiled(); }
  void Run(const ConvBuffers& b, void* workspace) override {
    plan_->Run(b, workspace);
    kernels::BiasAct(b.y, static_cast<const float*>(whole_.bias ? b.bias : nullptr),
                     whole_.y_elements() / whole_.k, whole_.k, whole_.relu,
                     ElementTypeOf(whole_.type), stream_);
    CheckLaunch("BiasAct");
  }

 private:
  std::unique_ptr<ConvPlan> plan_;
  ConvProblem whole_;
  cudaStream_t stream_;
};

// Takes a part of the images after the other.
class InParts : public ConvPlan {
 public:
  InParts(std::unique_ptr<ConvPlan> plan, const ConvProblem& part, int64_t parts)
      : plan_(std::move(plan)),
        parts_(parts),
        x_bytes_(part.x_elements() * static_cast<int64_t>(DTypeSize(part.type))),
        y_bytes_(part.y_elements() * static_cast<int64_t>(DTypeSize(part.type))) {}
  size_t workspace_bytes() const override { return plan_->workspace_bytes(); }
  std::string Compiled() const override { return plan_->Compiled(); }
  void Run(const ConvBuffers& b, void* workspace) override {
    for (int64_t i = 0; i < parts_; ++i) {
      plan_->Run({static_cast<char*>(b.x) + i * x_bytes_, b.w,
                  static_cast<char*>(b.y) + i * y_bytes_, b.bias},
                 workspace);
    }
  }

 private:
  std::unique_ptr<ConvPlan> plan_;
  int64_t parts_, x_bytes_, y_bytes_;
};

// Makes another input and other weights in the workspace, and takes a weight gradient back.
class WithInput : public ConvPlan {
 public:
  WithInput(std::unique_ptr<ConvPlan> plan, InputForm form, const ConvProblem& whole,
            const ConvProblem& inner, cudaStream_t stream)
      : plan_(std::move(plan)),
        form_(form),
        whole_(whole),
        inner_(inner),
        type_(ElementTypeOf(whole.type)),
        stream_(stream) {}

  size_t workspace_bytes() const override { return XBytes() + WBytes() + plan_->workspace_bytes(); }
  std::string Compiled() const override { return plan_->Compiled(); }

  void Run(const ConvBuffers& b, void* workspace) override {
    ConvBuffers inner = b;
    inner.x = workspace;
    inner.w = static_cast<char*>(workspace) + XBytes();
    void* rest = static_cast<char*>(inner.w) + WBytes();
    FormInput(b.x, inner.x);
    if (whole_.kind == ConvKind::kForward) FormWeights(b.w, inner.w);
    plan_->Run(inner, rest);
    if (whole_.kind == ConvKind::kWeightGrad) UnformWeights(inner.w, b.w);
    CheckLaunch("a first layer's change of form");
  }

 private:
  size_t Bytes(int64_t elements) const {
    size_t bytes = static_cast<size_t>(elements) * DTypeSize(whole_.type);
    return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  }
  size_t XBytes() const { return Bytes(inner_.x_elements()); }
  size_t WBytes() const { return Bytes(inner_.w_elements()); }
  int64_t WeightRows() const { return whole_.k * whole_.r * whole_.s; }

  void FormInput(const void* x, void* out) const {
    if (form_ == InputForm::kSpaceToRows) {
      kernels::SpaceToRows(x, out, whole_.n, whole_.h, whole_.w, whole_.p, whole_.q, type_,
                           stream_);
    } else if (form_ == InputForm::kSpaceToDepth) {
      kernels::SpaceToDepth(x, out, whole_.n, whole_.h, whole_.w, whole_.p, whole_.q, type_,
                            stream_);
    } else {
      kernels::ResizeChannels(x, out, whole_.n * whole_.h * whole_.w, static_cast<int>(whole_.c),
                              static_cast<int>(inner_.c), type_, stream_);
    }
  }
  void FormWeights(const void* w, void* out) const {
    if (form_ == InputForm::kSpaceToRows) {
      kernels::SpaceToRowsWeights(w, out, whole_.k, type_, stream_);
    } else if (form_ == InputForm::kSpaceToDepth) {
      kernels::SpaceToDepthWeights(w, out, whole_.k, type_, stream_);
    } else {
      kernels::ResizeChannels(w, out, WeightRows(), static_cast<int>(whole_.c),
                              static_cast<int>(inner_.c), type_, stream_);
    }
  }
  void UnformWeights(const void* dw, void* out) const {
    if (form_ == InputForm::kSpaceToRows) {
      kernels::RowsToSpaceWeights(dw, out, whole_.k, type_, stream_);
    } else if (form_ == InputForm::kSpaceToDepth) {
      kernels::DepthToSpaceWeights(dw, out, whole_.k, type_, stream_);
    } else {
      kernels::ResizeChannels(dw, out, WeightRows(), static_cast<int>(inner_.c),
                              static_cast<int>(whole_.c), type_, stream_);
    }
  }

  std::unique_ptr<ConvPlan> plan_;
  InputForm form_;
  ConvProblem whole_, inner_;
  kernels::ElementType type_;
  cudaStream_t stream_;
};

// A product's rows as the width of one image instead of as many images of one pixel.
ConvProblem RowsAsWidth(ConvProblem problem) {
  problem.w = problem.q = problem.n;
  problem.n = 1;
  return problem;
}

// Into how many equal parts the images go so that a part's maps have `most_bytes` at most, as far
// as they can be told apart: cuDNN takes maps to begin at 16 bytes. A weight gradient is a sum over
// the images.
int64_t PartsOf(const ConvProblem& p, size_t most_bytes) {
  if (p.type != DType::kF32 || p.tf32 || p.linear || p.kind == ConvKind::kWeightGrad) return 1;
  constexpr int64_t kSize = sizeof(float), kAlignment = 16;
  const int64_t x = p.h * p.w * p.c * kSize, y = p.p * p.q * p.k * kSize;
  int64_t best = 1;
  for (int64_t parts = 1; parts <= p.n; ++parts) {
    const int64_t images = p.n / parts;
    if (p.n % parts != 0 || images * x % kAlignment != 0 || images * y % kAlignment != 0) continue;
    best = parts;
    if (static_cast<size_t>(images * (x + y)) <= most_bytes) break;
  }
  return best;
}

ConvProblem PaddedTo(ConvProblem problem, int64_t channels) {
  problem.c = channels;
  return problem;
}

ConvProblem AsSpaceToDepth(ConvProblem problem) {
  problem.h = problem.p + 3;
  problem.w = problem.q + 3;
  problem.c = 16;
  problem.r = problem.s = 4;
  problem.stride = {1, 1};
  problem.pad = {0, 0};
  return problem;
}

ConvProblem AsSpaceToRows(ConvProblem problem) {
  problem.h = problem.p + 3;
  problem.w = problem.q;
  problem.c = 48;
  problem.r = 4;
  problem.s = 1;
  problem.stride = {1, 1};
  problem.pad = {0, 0};
  return problem;
}

}  // namespace

bool IsStem(const ConvProblem& p) {
  return p.c == 3 && p.groups == 1 && p.r == 7 && p.s == 7 && p.stride == std::array{2, 2} &&
         p.pad == std::array{3, 3} && p.dilation == std::array{1, 1};
}

std::vector<ConvVariant> VariantsOf(const ConvProblem& problem, size_t most_bytes) {
  std::vector<ConvVariant> variants;
  auto add = [&](const std::string& name, const ConvProblem& p, InputForm input,
                 int64_t parts = 1) {
    bool has_epilogue = p.bias || p.relu;
    if (has_epilogue) variants.push_back({name + "fused", p, false, input, parts});
    ConvProblem plain = p;
    plain.bias = plain.relu = false;
    variants.push_back({name + "plain", plain, has_epilogue, input, parts});
  };
  add("", problem, InputForm::kAsIs);
  if (const int64_t parts = PartsOf(problem, most_bytes); parts > 1) {
    ConvProblem part = problem;
    part.n /= parts;
    add("parts-", part, InputForm::kAsIs, parts);
  }
  if (problem.linear && problem.n > 1) add("wide-", RowsAsWidth(problem), InputForm::kAsIs);
  // The gradient of an image isn't wanted by anybody.
  if (problem.kind != ConvKind::kDataGrad && !problem.linear && problem.groups == 1 &&
      problem.c < 4) {
    add("pad4-", PaddedTo(problem, 4), InputForm::kPadChannels);
    add("pad8-", PaddedTo(problem, 8), InputForm::kPadChannels);
    if (IsStem(problem)) {
      add("depth-", AsSpaceToDepth(problem), InputForm::kSpaceToDepth);
      add("rows-", AsSpaceToRows(problem), InputForm::kSpaceToRows);
    }
  }
  return variants;
}

std::unique_ptr<ConvPlan> Complete(const ConvVariant& variant, const ConvProblem& whole,
                                   std::unique_ptr<ConvPlan> plan, cudaStream_t stream) {
  if (variant.parts > 1) {
    plan = std::make_unique<InParts>(std::move(plan), variant.problem, variant.parts);
  }
  if (variant.input != InputForm::kAsIs) {
    plan =
        std::make_unique<WithInput>(std::move(plan), variant.input, whole, variant.problem, stream);
  }
  if (variant.epilogue) plan = std::make_unique<WithEpilogue>(std::move(plan), whole, stream);
  return plan;
}

}  // namespace xp::graph::cuda
