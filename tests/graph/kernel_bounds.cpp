#include "graph/kernel_bounds.h"

#include <algorithm>

#include "catch.h"
#include "exp/graph/memory_plan.h"

namespace xp::graph {
namespace {

constexpr size_t kPage = 4096;
constexpr uint8_t kGuard = 0xa5;

// `bytes` bytes of the device that begin `shift` bytes behind the begin of a page; guards on either
// side.
class GuardedBytes {
 public:
  GuardedBytes(Backend& backend, size_t bytes, size_t shift = 0)
      : backend_(backend), bytes_(bytes), buffer_(backend.Allocate(bytes + 12 * kPage)) {
    const std::vector<uint8_t> guards(buffer_->bytes(), kGuard);
    backend_.Upload(buffer_->data(), guards.data(), guards.size());
    const size_t into_page = reinterpret_cast<uintptr_t>(buffer_->data()) % kPage;
    begin_ = 2 * kPage - into_page + shift;
  }

  uint8_t* data() const { return static_cast<uint8_t*>(buffer_->data()) + begin_; }
  bool GuardsAreWhole() const {
    std::vector<uint8_t> all(buffer_->bytes());
    backend_.Download(all.data(), buffer_->data(), all.size());
    const auto whole = [](uint8_t byte) { return byte == kGuard; };
    const auto begin = all.begin() + static_cast<ptrdiff_t>(begin_);
    return std::all_of(all.begin(), begin, whole) &&
           std::all_of(begin + static_cast<ptrdiff_t>(bytes_), all.end(), whole);
  }
  bool Holds(const std::vector<uint8_t>& bytes) const {
    std::vector<uint8_t> there(bytes.size());
    backend_.Download(there.data(), data(), there.size());
    return there == bytes;
  }

 private:
  Backend& backend_;
  size_t bytes_, begin_ = 0;
  std::unique_ptr<Buffer> buffer_;
};

bool HasOnlyPlainTensors(const Graph& graph) {
  return std::all_of(graph.tensors().begin(), graph.tensors().end(), [](const Tensor& t) {
    return t.storage == Storage::kTemp || t.storage == Storage::kInput ||
           t.storage == Storage::kOutput;
  });
}

bool IsWritten(const Graph& graph, TensorId id) {
  return std::any_of(graph.ops().begin(), graph.ops().end(), [&](const Op& op) {
    return std::find(op.outputs.begin(), op.outputs.end(), id) != op.outputs.end();
  });
}

}  // namespace

void CheckKernelBounds(Backend& backend, const Graph& graph, const InputBytes& inputs) {
  if (!HasOnlyPlainTensors(graph)) return;
  std::vector<std::unique_ptr<GuardedBytes>> tensors;
  for (const Tensor& t : graph.tensors()) {
    tensors.push_back(std::make_unique<GuardedBytes>(backend, t.bytes()));
  }
  const auto address = [&](TensorId id) -> uint8_t* {
    return id == kNoTensor ? nullptr : tensors[static_cast<size_t>(id)]->data();
  };
  for (const auto& [id, bytes] : inputs) {
    if (!bytes.empty()) backend.Upload(address(id), bytes.data(), bytes.size());
  }

  for (const Op& op : graph.ops()) {
    const auto kernel = backend.CreateKernel(graph, op);
    std::vector<const void*> in;
    std::vector<void*> out;
    for (TensorId id : op.inputs) in.push_back(address(id));
    for (TensorId id : op.outputs) out.push_back(address(id));
    // Where a workspace begins decides how much of it goes into the alignment of its parts.
    for (size_t shift : {size_t{0}, 5 * kTensorAlignment, kPage - kTensorAlignment}) {
      const GuardedBytes workspace(backend, kernel->WorkspaceBytes(), shift);
      kernel->Run({in, out, workspace.data()});
      backend.Synchronize();
      INFO(op.name << ": workspace of " << kernel->WorkspaceBytes() << " bytes, " << shift
                   << " bytes into a page");
      REQUIRE(workspace.GuardsAreWhole());
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      INFO("around " << graph.tensors()[i].name << ", by " << op.name);
      REQUIRE(tensors[i]->GuardsAreWhole());
    }
  }
  for (const auto& [id, bytes] : inputs) {
    if (IsWritten(graph, id)) continue;  // running statistics
    INFO(graph.tensor(id).name << ", an input");
    REQUIRE(tensors[static_cast<size_t>(id)]->Holds(bytes));
  }
}

}  // namespace xp::graph
