#include "src/graph/make_again.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace xp::graph {
namespace {

constexpr size_t kNone = SIZE_MAX;

class Block {
 public:
  Block(Graph& g, const Graph::Block& block, size_t forward_ops) : g_(g), out_(block.out) {
    first_ = Producer(block.in, forward_ops) + 1;  // an input of the graph: from the first op on
    last_ = Producer(block.out, forward_ops);
    if (last_ == kNone || first_ > last_) throw std::logic_error("no such block to make again");
    for (size_t i = first_; i <= last_; ++i) {
      const TensorId y = g_.ops()[i].outputs[0];
      if (y != out_) inside_.insert(y);
    }
  }

  // Lets an operation of the backward part read what is made again. True when it does.
  bool Redirect(Op* op) {
    bool any = false;
    for (TensorId& id : op->inputs) {
      if (inside_.count(id) == 0) continue;
      id = Again(id);
      any = true;
    }
    return any;
  }

  // The copies that Redirect asked for, in the order of the forward graph.
  std::vector<Op> Copies() {
    std::vector<Op> copies;
    for (size_t i = last_ + 1; i-- > first_;) {  // later ones ask for earlier ones
      auto made = again_.find(g_.ops()[i].outputs[0]);
      if (made != again_.end()) copies.push_back(Copy(g_.ops()[i], made->second));
    }
    std::reverse(copies.begin(), copies.end());
    return copies;
  }

 private:
  size_t Producer(TensorId id, size_t forward_ops) const {
    for (size_t i = 0; i < forward_ops; ++i) {
      const std::vector<TensorId>& outputs = g_.ops()[i].outputs;
      if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return i;
    }
    return kNone;
  }

  TensorId Again(TensorId id) {
    auto [made, is_new] = again_.try_emplace(id, kNoTensor);
    if (is_new) {
      const Tensor t = g_.tensor(id);
      made->second = g_.AddTemp(t.name + " again", t.shape, t.dtype);
    }
    return made->second;
  }

  Op Copy(const Op& op, TensorId y) {
    Op copy{op.type, op.inputs, {y}, op.attrs, op.name + " again"};
    if (op.type == OpType::kBatchNorm) {
      // kBatchNorm's inputs: x, scale, bias, mean, var, [residual]; its running statistics are
      // updated once only.
      copy.type = OpType::kNormJoin;
      copy.inputs.assign(11, kNoTensor);
      std::copy(op.inputs.begin(), op.inputs.begin() + 3, copy.inputs.begin());
      copy.inputs[3] = op.outputs[1], copy.inputs[4] = op.outputs[2];
      copy.inputs[10] = op.inputs[5];
    }
    copy.outputs.resize(op.type == OpType::kBatchNorm ? 2 : op.outputs.size(), kNoTensor);
    for (TensorId& id : copy.inputs) {
      if (inside_.count(id) > 0) id = Again(id);
    }
    return copy;
  }

  Graph& g_;
  TensorId out_;
  size_t first_ = 0, last_ = 0;         // its operations
  std::set<TensorId> inside_;           // what can be made again
  std::map<TensorId, TensorId> again_;  // what is, and as what
};

}  // namespace

void MakeBlocksAgain(Graph& g, size_t forward_ops) {
  if (g.made_again().empty()) return;
  std::vector<Op> ops = g.ops();
  std::vector<std::pair<size_t, std::vector<Op>>> insertions;  // before which op
  for (const Graph::Block& marked : g.made_again()) {
    Block block(g, marked, forward_ops);
    size_t first_reader = kNone;
    for (size_t i = forward_ops; i < ops.size(); ++i) {
      if (block.Redirect(&ops[i]) && first_reader == kNone) first_reader = i;
    }
    if (first_reader != kNone) insertions.emplace_back(first_reader, block.Copies());
  }
  // From the last on, so that the places before stay what they are.
  std::stable_sort(insertions.begin(), insertions.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [at, copies] : insertions) {
    ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(at),
               std::make_move_iterator(copies.begin()), std::make_move_iterator(copies.end()));
  }
  g.ReplaceOps(std::move(ops), g.update_begin());
  g.set_fusible(false);
}

}  // namespace xp::graph
