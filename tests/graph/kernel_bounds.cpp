#include "graph/kernel_bounds.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "catch.h"
#include "exp/graph/memory_plan.h"

namespace xp::graph {
namespace {

constexpr size_t kPage = 4096;
constexpr uint8_t kGuard = 0xa5;

// `bytes` bytes that begin `shift` bytes behind the begin of a page; a guard on either side.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t bytes, size_t shift = 0)
      : begin_(2 * kPage + shift),
        end_(begin_ + bytes),
        all_(static_cast<uint8_t*>(::operator new (Size(), std::align_val_t{kPage}))) {
    std::memset(all_, kGuard, Size());
  }
  ~GuardedBytes() { ::operator delete (all_, std::align_val_t{kPage}); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  uint8_t* data() const { return all_ + begin_; }
  bool GuardsAreWhole() const {
    const auto whole = [](uint8_t byte) { return byte == kGuard; };
    return std::all_of(all_, all_ + begin_, whole) &&
           std::all_of(all_ + end_, all_ + Size(), whole);
  }

 private:
  size_t Size() const { return end_ + 8 * kPage; }

  size_t begin_, end_;
  uint8_t* all_;
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

void CheckKernelBounds(Backend& cpu, const Graph& graph, const InputBytes& inputs) {
  if (!HasOnlyPlainTensors(graph)) return;
  std::vector<std::unique_ptr<GuardedBytes>> tensors;
  for (const Tensor& t : graph.tensors()) {
    tensors.push_back(std::make_unique<GuardedBytes>(t.bytes()));
  }
  const auto address = [&](TensorId id) -> uint8_t* {
    return id == kNoTensor ? nullptr : tensors[static_cast<size_t>(id)]->data();
  };
  for (const auto& [id, bytes] : inputs) std::copy(bytes.begin(), bytes.end(), address(id));

  for (const Op& op : graph.ops()) {
    const auto kernel = cpu.CreateKernel(graph, op);
    std::vector<const void*> in;
    std::vector<void*> out;
    for (TensorId id : op.inputs) in.push_back(address(id));
    for (TensorId id : op.outputs) out.push_back(address(id));
    // Where a workspace begins decides how much of it goes into the alignment of its parts.
    for (size_t shift : {size_t{0}, 5 * kTensorAlignment, kPage - kTensorAlignment}) {
      const GuardedBytes workspace(kernel->WorkspaceBytes(), shift);
      kernel->Run({in, out, workspace.data()});
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
    REQUIRE(std::equal(bytes.begin(), bytes.end(), address(id)));
  }
}

}  // namespace xp::graph
