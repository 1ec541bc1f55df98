// A kernel that is one operation of oneDNN's: convolutions, linear layers and their gradients.
#pragma once

#include <memory>
#include <utility>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/onednn.h"

namespace xp::graph::cpu {

class OnednnKernel : public Kernel {
 public:
  // bias: the operation's third input. Null for no operation.
  static std::unique_ptr<Kernel> Of(std::unique_ptr<OnednnOp> op, bool bias) {
    if (op == nullptr) return nullptr;
    return std::make_unique<OnednnKernel>(std::move(op), bias);
  }
  OnednnKernel(std::unique_ptr<OnednnOp> op, bool bias) : op_(std::move(op)), bias_(bias) {}

  size_t WorkspaceBytes() const override { return op_->WorkspaceBytes(); }
  void Run(const KernelArgs& args) override {
    op_->Run(args.in[0], args.in[1], bias_ ? args.In<float>(2) : nullptr, args.out[0],
             args.workspace);
  }

 private:
  std::unique_ptr<OnednnOp> op_;
  bool bias_;
};

}  // namespace xp::graph::cpu
