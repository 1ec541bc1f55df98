// A backend that launches kernel by kernel instead of replaying a captured step, to show what the
// capture is worth; private to src/bench.
#pragma once

#include <memory>
#include <utility>

#include "exp/graph/backend.h"

namespace xp::bench {

class UncapturedBackend : public graph::Backend {
 public:
  explicit UncapturedBackend(std::unique_ptr<graph::Backend> inner) : inner_(std::move(inner)) {}

  const std::string& name() const override { return inner_->name(); }
  const std::string& description() const override { return inner_->description(); }
  bool is_cuda() const override { return inner_->is_cuda(); }
  void StopAt(StopFlag stop) override {
    Backend::StopAt(stop);
    inner_->StopAt(stop);
  }
  std::unique_ptr<graph::Kernel> CreateKernel(const graph::Graph& g, const graph::Op& op) override {
    return inner_->CreateKernel(g, op);
  }
  std::unique_ptr<graph::Buffer> Allocate(size_t bytes) override { return inner_->Allocate(bytes); }
  graph::DeviceMemory Memory() const override { return inner_->Memory(); }
  void Upload(void* device, const void* host, size_t bytes) override {
    inner_->Upload(device, host, bytes);
  }
  void Download(void* host, const void* device, size_t bytes) override {
    inner_->Download(host, device, bytes);
  }
  std::unique_ptr<graph::PendingRead> DownloadAsync(const void* device, size_t bytes) override {
    return inner_->DownloadAsync(device, bytes);
  }
  std::unique_ptr<graph::Recording> Record(std::function<void()> body) override {
    return std::make_unique<Direct>(std::move(body));
  }
  void Synchronize() override { inner_->Synchronize(); }
  std::vector<double> TimeEach(size_t count, const std::function<void(size_t)>& body) override {
    return inner_->TimeEach(count, body);
  }
  std::vector<std::string> PlanNotes() const override { return inner_->PlanNotes(); }
  graph::StepPasses step_passes() const override { return inner_->step_passes(); }

 private:
  class Direct : public graph::Recording {
   public:
    explicit Direct(std::function<void()> body) : body_(std::move(body)) {}
    void Launch() override { body_(); }

   private:
    std::function<void()> body_;
  };

  std::unique_ptr<graph::Backend> inner_;
};

}  // namespace xp::bench
