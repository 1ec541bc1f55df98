#include "src/graph/cpu/widened.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "exp/graph/memory_plan.h"
#include "src/graph/cpu/narrow.h"
#include "src/graph/cpu/parallel.h"

namespace xp::graph::cpu {
namespace {

class Widened : public Kernel {
 public:
  Widened(const Context& context, const Graph& g, const Op& op) : threads_(context.threads) {
    Graph wide(g.shared_layout(), DType::kF32);
    Op wide_op = op;
    std::unordered_map<TensorId, TensorId> renamed;
    const auto take = [&](std::vector<TensorId>& ids, std::vector<int>& slots) {
      for (TensorId& id : ids) {
        slots.push_back(id == kNoTensor ? -1 : SlotOf(id, g.tensor(id)));
        if (id != kNoTensor) id = Rename(wide, renamed, id, g.tensor(id));
      }
    };
    take(wide_op.inputs, in_slots_);
    take(wide_op.outputs, out_slots_);
    wide_ = std::move(wide_op);
    graph_ = std::make_unique<Graph>(std::move(wide));
  }

  // False when there is no such kernel.
  bool Create(const Context& context, Factory make) {
    kernel_ = make(context, *graph_, wide_);
    graph_.reset();
    return kernel_ != nullptr;
  }

  size_t WorkspaceBytes() const override { return copies_bytes_ + kernel_->WorkspaceBytes(); }

  void Run(const KernelArgs& args) override {
    char* space = static_cast<char*>(args.workspace);
    std::vector<const void*>& in = in_;
    std::vector<void*>& out = out_;
    in.assign(args.in.begin(), args.in.end());
    out.assign(args.out.begin(), args.out.end());
    for (size_t i = 0; i < in.size(); ++i) {
      if (in_slots_[i] < 0 || in[i] == nullptr) continue;
      const Copy& copy = copies_[static_cast<size_t>(in_slots_[i])];
      auto* wide = reinterpret_cast<float*>(space + copy.offset);
      const auto* narrow = static_cast<const uint16_t*>(in[i]);
      ParallelRanges(threads_, copy.elements, kGrain, [&](int64_t begin, int64_t end) {
        Widen(copy.type, narrow + begin, end - begin, wide + begin);
      });
      in[i] = wide;
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (out_slots_[i] < 0 || out[i] == nullptr) continue;
      out[i] = space + copies_[static_cast<size_t>(out_slots_[i])].offset;
    }
    KernelArgs inner{in, out, space + copies_bytes_};
    kernel_->Run(inner);
    for (size_t i = 0; i < out.size(); ++i) {
      if (out_slots_[i] < 0 || out[i] == nullptr) continue;
      const Copy& copy = copies_[static_cast<size_t>(out_slots_[i])];
      auto* narrow = static_cast<uint16_t*>(args.out[i]);
      const auto* wide = reinterpret_cast<const float*>(space + copy.offset);
      ParallelRanges(threads_, copy.elements, kGrain, [&](int64_t begin, int64_t end) {
        Narrow(copy.type, wide + begin, end - begin, narrow + begin);
      });
    }
  }

 private:
  // A narrow tensor's place in the workspace.
  struct Copy {
    size_t offset;
    int64_t elements;
    DType type;
  };

  int SlotOf(TensorId id, const Tensor& tensor) {
    if (!IsNarrow(tensor.dtype)) return -1;
    const auto [at, added] = slot_of_.emplace(id, static_cast<int>(copies_.size()));
    if (added) {
      copies_.push_back({copies_bytes_, tensor.elements(), tensor.dtype});
      const size_t bytes = static_cast<size_t>(tensor.elements()) * sizeof(float);
      copies_bytes_ += (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    }
    return at->second;
  }

  static TensorId Rename(Graph& wide, std::unordered_map<TensorId, TensorId>& renamed, TensorId id,
                         const Tensor& tensor) {
    const auto found = renamed.find(id);
    if (found != renamed.end()) return found->second;
    Tensor copy = tensor;
    if (IsNarrow(copy.dtype)) copy.dtype = DType::kF32;
    return renamed[id] = wide.AddTensor(std::move(copy));
  }

  int threads_;
  std::unordered_map<TensorId, int> slot_of_;
  std::vector<Copy> copies_;
  std::vector<int> in_slots_, out_slots_;
  std::vector<const void*> in_;  // what the fp32 kernel is given
  std::vector<void*> out_;
  size_t copies_bytes_ = 0;
  Op wide_;
  std::unique_ptr<Graph> graph_;  // while the kernel is made
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> MakeWidened(const Context& context, const Graph& g, const Op& op,
                                    Factory make) {
  auto widened = std::make_unique<Widened>(context, g, op);
  if (!widened->Create(context, make)) return nullptr;
  return widened;
}

}  // namespace xp::graph::cpu
