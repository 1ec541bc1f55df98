// One convolution as a cuDNN operation graph: which engines can run it, and plans made of them.
// The only file that includes cudnn-frontend is conv_graph.cpp (its header takes long to compile).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/graph/cuda/conv_problem.h"

struct cudnnContext;

namespace xp::graph::cuda {

// Plans that want more memory for themselves are not considered.
inline constexpr size_t kMaxWorkspace = size_t{512} << 20;

// Device addresses; which of x, w and y is written depends on the problem's kind.
struct ConvBuffers {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* bias = nullptr;
};

class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  virtual size_t workspace_bytes() const = 0;
  // Enqueues; throws JobError when cuDNN refuses.
  virtual void Run(const ConvBuffers& buffers, void* workspace) = 0;
  // In cuDNN's JSON, for ConvGraph::Load, if its kernels were compiled when it was made; else
  // empty: cuDNN makes the others as fast as it would load them, and a loaded one needs no keeping.
  virtual std::string Compiled() const { return ""; }
};

// Where plans are made for: a cuDNN handle of a device, or a device described in JSON (cuDNN 9.11
// and newer), for which plans can be made and counted but not run.
class ConvTarget {
 public:
  static std::shared_ptr<ConvTarget> OfHandle(cudnnContext* handle);
  // Throws UsageError when cuDNN can't read the description.
  static std::shared_ptr<ConvTarget> OfDescription(const std::string& json);
  // The JSON description of the handle's device.
  virtual std::string Describe() const = 0;
  virtual ~ConvTarget() = default;
};

// Create, Propose and Engines use the target's handle, which serves one thread at a time; Build,
// which may take a core a second, doesn't.
class ConvGraph {
 public:
  virtual ~ConvGraph() = default;
  // Null when cuDNN has no such operation; `why` then says what it reported.
  static std::unique_ptr<ConvGraph> Create(std::shared_ptr<ConvTarget> target,
                                           const ConvProblem& problem, std::string* why);

  // A plan made earlier for the same problem, model of GPU and version of cuDNN
  // (ConvPlan::Compiled). Null when cuDNN doesn't take it; `why` then says what it reported.
  static std::unique_ptr<ConvPlan> Load(std::shared_ptr<ConvTarget> target,
                                        const ConvProblem& problem, const std::string& json,
                                        std::string* why);

  // Engines with their settings ("eng45_k2=5_k13=1"), the most promising first, without those whose
  // precision or determinism the problem doesn't allow.
  virtual std::vector<std::string> Engines() = 0;
  // Asks for one engine by its name, without the heuristics behind Engines. False when cuDNN
  // doesn't know it by that; then Engines may still list it.
  virtual bool Propose(const std::string& engine, std::string* why) = 0;
  // Of an engine proposed or listed before. Null when that engine can't run this problem; `why`
  // then says what cuDNN reported.
  virtual std::unique_ptr<ConvPlan> Build(const std::string& engine, std::string* why) = 0;
};

}  // namespace xp::graph::cuda
