// A backend that hands everything on to another: tests change one answer.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exp/graph/backend.h"

class WrappedBackend : public xp::graph::Backend {
 public:
  explicit WrappedBackend(std::unique_ptr<xp::graph::Backend> whole) : whole_(std::move(whole)) {}
  const std::string& name() const override { return whole_->name(); }
  const std::string& description() const override { return whole_->description(); }
  bool is_cuda() const override { return whole_->is_cuda(); }
  std::unique_ptr<xp::graph::Kernel> CreateKernel(const xp::graph::Graph& g,
                                                  const xp::graph::Op& op) override {
    return whole_->CreateKernel(g, op);
  }
  std::unique_ptr<xp::graph::Buffer> Allocate(size_t bytes) override {
    return whole_->Allocate(bytes);
  }
  xp::graph::DeviceMemory Memory() const override { return whole_->Memory(); }
  void Upload(void* device, const void* host, size_t bytes) override {
    whole_->Upload(device, host, bytes);
  }
  void Download(void* host, const void* device, size_t bytes) override {
    whole_->Download(host, device, bytes);
  }
  std::unique_ptr<xp::graph::PendingRead> DownloadAsync(const void* device, size_t bytes) override {
    return whole_->DownloadAsync(device, bytes);
  }
  std::unique_ptr<xp::graph::Recording> Record(std::function<void()> body) override {
    return whole_->Record(std::move(body));
  }
  void Synchronize() override { whole_->Synchronize(); }
  std::vector<double> TimeEach(size_t count, const std::function<void(size_t)>& body) override {
    return whole_->TimeEach(count, body);
  }

 protected:
  std::unique_ptr<xp::graph::Backend> whole_;
};
