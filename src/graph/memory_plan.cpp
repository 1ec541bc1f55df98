// Offline placement: the largest block first, each at the lowest address where it fits among the
// blocks that are alive at the same time ("greedy by size", Pisarchyk and Lee,
// https://arxiv.org/abs/2001.03288).
#include "exp/graph/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace xp::graph {
namespace {

struct Block {
  size_t bytes = 0;
  int64_t first = -1, last = -1;  // ops, inclusive
  size_t offset = 0;
};

size_t Aligned(size_t n) {
  return (n + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// Blocks 0 .. tensors-1 are tensors, then one block an op for its workspace.
std::vector<Block> Lifetimes(const Graph& g, const std::vector<size_t>& workspace_bytes) {
  std::vector<Block> blocks(g.tensors().size() + g.ops().size());
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    auto touch = [&](TensorId id) {
      if (id == kNoTensor || g.tensor(id).storage != Storage::kTemp) return;
      Block& b = blocks[static_cast<size_t>(id)];
      b.bytes = Aligned(g.tensor(id).bytes());
      if (b.first < 0) b.first = static_cast<int64_t>(i);
      b.last = static_cast<int64_t>(i);
    };
    for (TensorId id : op.inputs) touch(id);
    for (TensorId id : op.outputs) touch(id);
    Block& w = blocks[g.tensors().size() + i];
    w = {Aligned(workspace_bytes[i]), static_cast<int64_t>(i), static_cast<int64_t>(i), 0};
  }
  return blocks;
}

// Gives outputs their input's block where they may have it; whose block each tensor then uses.
std::vector<size_t> ShareInPlace(const Graph& g, const std::vector<std::vector<InPlace>>& in_place,
                                 std::vector<Block>* blocks) {
  std::vector<size_t> owner(blocks->size());
  std::iota(owner.begin(), owner.end(), size_t{0});
  const std::vector<Block> alone = *blocks;
  for (size_t i = 0; i < in_place.size(); ++i) {
    const Op& op = g.ops()[i];
    const auto now = static_cast<int64_t>(i);
    std::vector<TensorId> taken;
    for (const InPlace& pair : in_place[i]) {
      if (pair.output >= op.outputs.size() || pair.input >= op.inputs.size()) continue;
      const TensorId in = op.inputs[pair.input], out = op.outputs[pair.output];
      if (in == kNoTensor || out == kNoTensor || in == out) continue;
      const auto from = static_cast<size_t>(in), to = static_cast<size_t>(out);
      const bool fits = alone[from].bytes > 0 && alone[from].bytes == alone[to].bytes &&
                        alone[from].last == now && alone[to].first == now && owner[to] == to &&
                        std::find(taken.begin(), taken.end(), in) == taken.end();
      if (!fits) continue;
      taken.push_back(in);
      owner[to] = owner[from];
      (*blocks)[owner[to]].last = alone[to].last;
      (*blocks)[to].bytes = 0;
    }
  }
  return owner;
}

}  // namespace

MemoryPlan PlanMemory(const Graph& g, const std::vector<size_t>& workspace_bytes,
                      const std::vector<std::vector<InPlace>>& in_place) {
  std::vector<Block> blocks = Lifetimes(g, workspace_bytes);
  const std::vector<size_t> owner = ShareInPlace(g, in_place, &blocks);
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  MemoryPlan plan;
  std::vector<size_t> placed;  // sorted by offset
  for (size_t id : order) {
    Block& b = blocks[id];
    if (b.bytes == 0) break;
    size_t offset = 0;
    for (size_t other : placed) {
      const Block& o = blocks[other];
      if (o.last < b.first || b.last < o.first) continue;
      if (offset + b.bytes <= o.offset) break;
      offset = std::max(offset, o.offset + o.bytes);
    }
    b.offset = offset;
    auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                               [&](size_t value, size_t p) { return value < blocks[p].offset; });
    placed.insert(at, id);
    plan.arena_bytes = std::max(plan.arena_bytes, offset + b.bytes);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    (i < g.tensors().size() ? plan.offset : plan.workspace).push_back(blocks[owner[i]].offset);
  }
  for (const Tensor& t : g.tensors()) {
    if (t.storage == Storage::kInput || t.storage == Storage::kOutput) {
      plan.persistent_bytes += Aligned(t.bytes());
    }
  }
  return plan;
}

}  // namespace xp::graph
