// A device that computes wrongly: the CPU, with one kind of operation altered.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exp/base/error.h"
#include "exp/graph/backend.h"

namespace xp::doctor {

class FaultyBackend : public graph::Backend {
 public:
  enum class Fault {
    kAlways,     // the first byte of each result has its bits turned over
    kSometimes,  // of every second kernel that is made
    kThrows,
  };
  FaultyBackend(graph::OpType type, Fault fault)
      : inner_(graph::CreateCpuBackend(2)), type_(type), fault_(fault) {}
  const std::string& name() const override { return inner_->name(); }
  const std::string& description() const override { return inner_->description(); }
  bool is_cuda() const override { return false; }
  std::unique_ptr<graph::Kernel> CreateKernel(const graph::Graph& g, const graph::Op& op) override {
    auto kernel = inner_->CreateKernel(g, op);
    if (op.type != type_) return kernel;
    if (fault_ == Fault::kThrows) throw JobError({.what = "CUDNN_STATUS_EXECUTION_FAILED"});
    if (fault_ == Fault::kSometimes && ++made_ % 2 == 1) return kernel;
    return std::make_unique<Wrong>(std::move(kernel));
  }
  std::unique_ptr<graph::Buffer> Allocate(size_t bytes) override { return inner_->Allocate(bytes); }
  graph::DeviceMemory Memory() const override { return inner_->Memory(); }
  void Upload(void* d, const void* h, size_t n) override { inner_->Upload(d, h, n); }
  void Download(void* h, const void* d, size_t n) override { inner_->Download(h, d, n); }
  std::unique_ptr<graph::PendingRead> DownloadAsync(const void* d, size_t n) override {
    return inner_->DownloadAsync(d, n);
  }
  std::unique_ptr<graph::Recording> Record(std::function<void()> body) override {
    return inner_->Record(std::move(body));
  }
  void Synchronize() override { inner_->Synchronize(); }
  std::vector<double> TimeEach(size_t n, const std::function<void(size_t)>& body) override {
    return inner_->TimeEach(n, body);
  }

 private:
  class Wrong : public graph::Kernel {
   public:
    explicit Wrong(std::unique_ptr<graph::Kernel> inner) : inner_(std::move(inner)) {}
    size_t WorkspaceBytes() const override { return inner_->WorkspaceBytes(); }
    void Run(const graph::KernelArgs& args) override {
      inner_->Run(args);
      // The high byte of a little-endian float: its sign and most of its exponent.
      auto* bytes = args.Out<unsigned char>(0);
      bytes[3] = static_cast<unsigned char>(bytes[3] ^ 0xff);
    }

   private:
    std::unique_ptr<graph::Kernel> inner_;
  };

  std::unique_ptr<graph::Backend> inner_;
  graph::OpType type_;
  Fault fault_;
  int made_ = 0;
};

}  // namespace xp::doctor
