#include "exp/graph/passes.h"

#include <algorithm>

namespace xp::graph {
namespace {

constexpr size_t kNone = SIZE_MAX;

// Who writes and who reads each tensor, kept up to date while ops are merged.
struct Uses {
  std::vector<size_t> producer;  // op index
  std::vector<std::vector<size_t>> readers;

  explicit Uses(const Graph& g) : producer(g.tensors().size(), kNone), readers(g.tensors().size()) {
    for (size_t i = 0; i < g.ops().size(); ++i) {
      for (TensorId id : g.ops()[i].outputs) {
        if (id != kNoTensor) producer[static_cast<size_t>(id)] = i;
      }
      for (TensorId id : g.ops()[i].inputs) {
        if (id != kNoTensor) readers[static_cast<size_t>(id)].push_back(i);
      }
    }
  }
  // The only reader of the tensor if it is an op of that type, else kNone.
  size_t OnlyReader(const Graph& g, TensorId id, OpType type) const {
    const auto& r = readers[static_cast<size_t>(id)];
    return r.size() == 1 && g.ops()[r[0]].type == type && g.tensor(id).storage == Storage::kTemp
               ? r[0]
               : kNone;
  }
};

bool IsNorm(const Op& op) { return op.type == OpType::kBatchNorm || op.type == OpType::kAffine; }

// norm -> add(norm, other): the norm that runs last takes the other one in as its residual.
bool FuseAdd(Graph& g, const Uses& uses, size_t index, std::vector<bool>& dead) {
  Op& norm = g.ops()[index];
  size_t add = uses.OnlyReader(g, norm.outputs[0], OpType::kAdd);
  if (add == kNone || g.ops()[add].inputs.size() != 2 || norm.inputs[5] != kNoTensor) return false;
  const Op& sum = g.ops()[add];
  TensorId other = sum.inputs[0] == norm.outputs[0] ? sum.inputs[1] : sum.inputs[0];
  if (other == norm.outputs[0]) return false;
  size_t made = uses.producer[static_cast<size_t>(other)];
  if (made != kNone && made > index) return false;  // that one will take this one in
  norm.inputs[5] = other;
  norm.outputs[0] = sum.outputs[0];
  dead[add] = true;
  return true;
}

void FuseReluInto(Graph& g, const Uses& uses, Op& op, bool& relu, std::vector<bool>& dead) {
  size_t reader = uses.OnlyReader(g, op.outputs[0], OpType::kRelu);
  if (reader == kNone || relu) return;
  relu = true;
  op.outputs[0] = g.ops()[reader].outputs[0];
  dead[reader] = true;
}

void RemoveDead(Graph& g, const std::vector<bool>& dead) {
  std::vector<Op> kept;
  for (size_t i = 0; i < g.ops().size(); ++i) {
    if (!dead[i]) kept.push_back(std::move(g.ops()[i]));
  }
  g.ops() = std::move(kept);
}

}  // namespace

void RunPasses(Graph& g, const PassOptions& options) {
  g.set_fusible(options.fuse_norm);
  Uses uses(g);
  std::vector<bool> dead(g.ops().size(), false);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    Op& op = g.ops()[i];
    if (options.fuse_norm && IsNorm(op)) {
      FuseAdd(g, uses, i, dead);
      FuseReluInto(g, uses, op, std::get<NormAttrs>(op.attrs).relu, dead);
    } else if (options.fuse_conv && op.type == OpType::kConv2d) {
      FuseReluInto(g, uses, op, std::get<ConvAttrs>(op.attrs).relu, dead);
    } else if (options.fuse_conv && op.type == OpType::kLinear) {
      FuseReluInto(g, uses, op, std::get<ReluAttrs>(op.attrs).relu, dead);
    }
  }
  RemoveDead(g, dead);
}

}  // namespace xp::graph
