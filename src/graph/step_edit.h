// What passes over a whole step share: who writes and reads each tensor, and exchanging operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "exp/graph/graph.h"

namespace xp::graph {

inline constexpr size_t kNoOp = SIZE_MAX;

// A snapshot of the graph with the edits that a pass makes; Apply() carries them out.
class StepEdit {
 public:
  explicit StepEdit(Graph& g);

  const Graph& graph() const { return g_; }
  Graph& graph() { return g_; }
  const Op& op(size_t i) const { return g_.ops()[i]; }

  // The op that writes it first, or kNoOp.
  size_t Producer(TensorId id) const { return id == kNoTensor ? kNoOp : At(producer_, id); }
  const std::vector<size_t>& Readers(TensorId id) const {
    return readers_[static_cast<size_t>(id)];
  }
  // The op that writes it if it is of that type (and not replaced yet), else kNoOp.
  size_t MadeBy(TensorId id, OpType type) const;
  // Its only reader if it is a temporary, read once, by an op of that type, else kNoOp.
  size_t OnlyReader(TensorId id, OpType type) const;

  bool Replaced(size_t i) const { return replaced_[i]; }
  void Replace(size_t i, std::vector<Op> by) {
    replaced_[i] = true;
    by_[i] = std::move(by);
  }
  void Remove(size_t i) { Replace(i, {}); }
  void Apply();

 private:
  static size_t At(const std::vector<size_t>& list, TensorId id) {
    return static_cast<size_t>(id) < list.size() ? list[static_cast<size_t>(id)] : kNoOp;
  }

  Graph& g_;
  std::vector<size_t> producer_;
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> replaced_;
  std::vector<std::vector<Op>> by_;
};

inline bool Has(const std::vector<TensorId>& ids, size_t i) {
  return i < ids.size() && ids[i] != kNoTensor;
}
inline TensorId Get(const std::vector<TensorId>& ids, size_t i) {
  return i < ids.size() ? ids[i] : kNoTensor;
}

// The gradient of a forward batch norm, or kNoOp; and its statistics alone.
size_t NormGradOf(const StepEdit& edit, const Op& norm);
Op StatisticsOf(const Op& norm);

// Where kNormGradSums has its operands.
inline constexpr size_t kSumsDy = 1, kSumsMostDys = 3;
inline constexpr size_t kSumsBranch[2] = {4, 8};        // x, scale, mean, invstd
inline constexpr size_t kSumsBranchResult[2] = {1, 4};  // dbias, dscale, factors

// Where kDgradJoin has what else flows in.
inline constexpr size_t kJoinMore = 3, kJoinMostMore = 2;
// Does the last of what flows into the op, inputs [first, first + most), have the even pixels only
// of the map that the op writes?
bool LastIsHalf(const Graph& g, const Op& op, size_t first, size_t most);

// step_pass_*.cpp
void JoinSqueezes(Graph& g);
void JoinPairs(Graph& g);
void JoinPools(Graph& g);
void UseGram(Graph& g, int64_t least_bytes);
void FoldSums(Graph& g);
struct JoinedDgrads {
  bool bf16 = false, f32 = false;
  bool all = false;  // types and shapes that the CUDA kernel doesn't do too, for tests
};
void JoinDgrads(Graph& g, const JoinedDgrads& which);
void HalveDgrads(Graph& g);
// step_delay.cpp
void DelayWideOps(Graph& g);
void MakeImagesAgain(Graph& g);

}  // namespace xp::graph
