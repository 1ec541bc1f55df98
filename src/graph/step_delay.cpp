// What a step holds longer than it needs to. The same operations on the same values: no bit
// changes.
#include <algorithm>

#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

bool Uses(const std::vector<TensorId>& ids, TensorId id) {
  return id != kNoTensor && std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool Shares(const std::vector<TensorId>& a, const std::vector<TensorId>& b) {
  return std::any_of(a.begin(), a.end(), [&](TensorId id) { return Uses(b, id); });
}

// Only values that a step makes and uses up, or that no operation before the update changes.
bool Movable(const Graph& g, const Op& op) {
  auto temporary = [&](TensorId id) {
    return id == kNoTensor || g.tensor(id).storage == Storage::kTemp;
  };
  auto steady = [&](TensorId id) {
    return temporary(id) || g.tensor(id).storage == Storage::kInput ||
           g.tensor(id).storage == Storage::kParam ||
           g.tensor(id).storage == Storage::kParamCompute;
  };
  return std::all_of(op.outputs.begin(), op.outputs.end(), temporary) &&
         std::all_of(op.inputs.begin(), op.inputs.end(), steady);
}

// The first op after `i` that must stay after it.
size_t FirstDependent(const std::vector<Op>& ops, size_t i, size_t end) {
  for (size_t j = i + 1; j < end; ++j) {
    if (Shares(ops[i].outputs, ops[j].inputs) || Shares(ops[i].outputs, ops[j].outputs) ||
        Shares(ops[i].inputs, ops[j].outputs)) {
      return j;
    }
  }
  return end;
}

// What waiting for op `j` frees, less what it keeps: inputs that nobody else reads until then.
int64_t Gain(const Graph& g, const std::vector<size_t>& last_reader, const std::vector<Op>& ops,
             size_t i, size_t j) {
  int64_t gain = 0;
  for (TensorId id : ops[i].outputs) {
    if (id != kNoTensor) gain += static_cast<int64_t>(g.tensor(id).bytes());
  }
  for (TensorId id : ops[i].inputs) {
    if (id == kNoTensor || g.tensor(id).storage != Storage::kTemp) continue;
    if (last_reader[static_cast<size_t>(id)] < j)
      gain -= static_cast<int64_t>(g.tensor(id).bytes());
  }
  return gain;
}

}  // namespace

// Operations that make more than they use up wait until somebody reads what they make: until then
// it would take room. (RoIAlign's gradient, a map for each level, comes long before the levels'
// gradients are added up.)
void DelayWideOps(Graph& g) {
  std::vector<Op> ops = std::move(g.ops());
  const size_t update = g.update_begin(), end = std::min(update, ops.size());
  // By the order before any move: an estimate, since some have moved since.
  std::vector<size_t> last_reader(g.tensors().size(), 0);
  for (size_t i = 0; i < ops.size(); ++i) {
    for (TensorId id : ops[i].inputs) {
      if (id != kNoTensor) last_reader[static_cast<size_t>(id)] = i;
    }
  }
  for (size_t i = end; i-- > 0;) {
    if (!Movable(g, ops[i])) continue;
    const size_t j = FirstDependent(ops, i, end);
    if (j == end || j == i + 1 || Gain(g, last_reader, ops, i, j) <= 0) continue;
    const auto first = ops.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(first, first + 1, ops.begin() + static_cast<std::ptrdiff_t>(j));
  }
  g.ReplaceOps(std::move(ops), update);
}

// The first layer reads the normalised images at the beginning of a step and for its weights'
// gradient at the end: they are made twice rather than kept.
void MakeImagesAgain(Graph& g) {
  constexpr std::ptrdiff_t kLongAfter = 16;  // operations
  std::vector<Op> ops = std::move(g.ops());
  size_t update = g.update_begin();
  auto made = std::find_if(ops.begin(), ops.end(),
                           [](const Op& op) { return op.type == OpType::kImageNormalize; });
  const TensorId y = made == ops.end() ? kNoTensor : made->outputs[0];
  auto reads = [&](const Op& op) { return Uses(op.inputs, y); };
  const auto first = std::find_if(made, ops.end(), reads);
  const auto late = ops.end() - first <= kLongAfter
                        ? ops.end()
                        : std::find_if(first + kLongAfter, ops.end(), reads);
  if (late != ops.end()) {
    const Tensor t = g.tensor(y);
    Op copy = *made;
    copy.outputs[0] = g.AddTemp(t.name + " again", t.shape, t.dtype);
    copy.name += " again";
    for (auto op = late; op != ops.end(); ++op) {
      std::replace(op->inputs.begin(), op->inputs.end(), y, copy.outputs[0]);
    }
    ops.insert(late, std::move(copy));
    if (update != SIZE_MAX) ++update;
  }
  g.ReplaceOps(std::move(ops), update);
}

}  // namespace xp::graph
