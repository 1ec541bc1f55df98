// A graph made ready to run on a backend: kernels created, memory planned and allocated, launches
// recorded. Programs of different shapes share one ParamBuffers.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "exp/base/error.h"
#include "exp/graph/backend.h"
#include "exp/graph/graph.h"
#include "exp/graph/memory_plan.h"

namespace xp::graph {

// The flat buffers of a model on a device.
class ParamBuffers {
 public:
  // compute_copy: also keep the parameters (and gradients) in `compute` (not f32).
  // optimizer_slots: how many param-sized vectors of optimizer state; training: gradients are
  // needed.
  ParamBuffers(Backend& backend, std::shared_ptr<const ParamLayout> layout, DType compute,
               bool training, int optimizer_slots, bool accumulate);

  // What TotalBytes of such buffers would be; nothing is allocated.
  static size_t BytesNeeded(const ParamLayout& layout, DType compute, bool training,
                            int optimizer_slots, bool accumulate);

  const ParamLayout& layout() const { return *layout_; }
  Backend& backend() const { return backend_; }
  void* Data(Storage storage) const;  // null when that buffer doesn't exist
  size_t Bytes(Storage storage) const;
  size_t TotalBytes() const;

  std::vector<float> Read(
      Storage storage) const;  // kParam, kState, kOptimizer, kGrad, kAccumulated
  void Read(Storage storage, std::vector<float>* values) const;  // into the memory that it has
  // kParam: kParamCompute as well, rounded to nearest even.
  void Write(Storage storage, const std::vector<float>& values);
  int optimizer_slots() const { return slots_; }

 private:
  void WriteComputeCopy(const std::vector<float>& values);

  Backend& backend_;
  std::shared_ptr<const ParamLayout> layout_;
  DType compute_;
  int slots_;
  std::unordered_map<int, std::unique_ptr<Buffer>> buffers_;
};

// A step that doesn't fit into the device's memory: "mem lim", exit code of a failed job.
class MemoryLimit : public Error {
 public:
  MemoryLimit(ErrorText text, size_t needed_bytes, size_t free_bytes)
      : Error(ErrorKind::kJob, std::move(text)), needed_(needed_bytes), free_(free_bytes) {}
  size_t needed_bytes() const { return needed_; }  // on top of what is allocated already
  size_t free_bytes() const { return free_; }

 private:
  size_t needed_, free_;
};

class Program {
 public:
  // Throws MemoryLimit with bytes needed and free when the plan doesn't fit.
  // `arena`: a buffer to place temporaries in (programs that never run at once share one); when
  // null or too small the program allocates its own.
  Program(Backend& backend, Graph graph, ParamBuffers& params,
          std::shared_ptr<Buffer> arena = nullptr);
  ~Program();

  // What a program of this graph would need, its own arena included; nothing is allocated.
  static size_t BytesNeeded(Backend& backend, Graph graph);

  const Graph& graph() const { return graph_; }
  const MemoryPlan& plan() const { return plan_; }
  size_t bytes() const { return plan_.arena_bytes + plan_.persistent_bytes; }
  const std::shared_ptr<Buffer>& arena() const { return arena_; }

  void SetInput(TensorId id, const void* host, size_t bytes);
  void SetInput(const std::string& name, const void* host, size_t bytes);
  // Runs everything, or only forward and backward (without Graph::update_begin()...).
  void Run(bool with_update = true);
  void Read(TensorId id, void* host, size_t bytes) const;
  std::unique_ptr<PendingRead> ReadAsync(TensorId id) const;
  // Device address of a tensor.
  void* Address(TensorId id) const;

  struct OpTime {
    std::string name;
    OpType type;
    double milliseconds;
  };
  // Runs once and says how long each operation took, for `exp bench --profile`.
  std::vector<OpTime> Profile();

 private:
  void RunRange(size_t begin, size_t end);

  Backend& backend_;
  Graph graph_;
  ParamBuffers& params_;
  MemoryPlan plan_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::shared_ptr<Buffer> arena_;
  std::unique_ptr<Buffer> persistent_;
  std::vector<void*> address_;
  std::vector<std::vector<const void*>> in_;
  std::vector<std::vector<void*>> out_;
  std::unique_ptr<Recording> full_, partial_;
};

}  // namespace xp::graph
