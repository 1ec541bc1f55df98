#include "src/graph/cuda/conv_variants.h"

#include "kernels/bias_act.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/element_type.h"

namespace xp::graph::cuda {
namespace {

class WithEpilogue : public ConvPlan {
 public:
  WithEpilogue(std::unique_ptr<ConvPlan> plan, const ConvProblem& whole, cudaStream_t stream)
      : plan_(std::move(plan)), whole_(whole), stream_(stream) {}
  size_t workspace_bytes() const override { return plan_->workspace_bytes(); }
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

// A product's rows as the width of one image instead of as many images of one pixel.
ConvProblem RowsAsWidth(ConvProblem problem) {
  problem.w = problem.q = problem.n;
  problem.n = 1;
  return problem;
}

}  // namespace

std::vector<ConvVariant> VariantsOf(const ConvProblem& problem) {
  std::vector<ConvVariant> variants;
  auto add = [&](const std::string& name, const ConvProblem& p) {
    bool has_epilogue = p.bias || p.relu;
    if (has_epilogue) variants.push_back({name + "fused", p, false});
    ConvProblem plain = p;
    plain.bias = plain.relu = false;
    variants.push_back({name + "plain", plain, has_epilogue});
  };
  add("", problem);
  if (problem.linear && problem.n > 1) add("wide-", RowsAsWidth(problem));
  return variants;
}

std::unique_ptr<ConvPlan> Complete(const ConvVariant& variant, const ConvProblem& whole,
                                   std::unique_ptr<ConvPlan> plan, cudaStream_t stream) {
  if (!variant.epilogue) return plan;
  return std::make_unique<WithEpilogue>(std::move(plan), whole, stream);
}

}  // namespace xp::graph::cuda
