#include "src/graph/cuda/conv_graph.h"

// cuDNN is opened at run time. cudnn-frontend would open the CUDA runtime as well, for calls that
// nothing here makes.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "exp/base/error.h"
#include "src/graph/cuda/cudnn_library.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace xp::graph::cuda {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : int64_t { kX = 1, kW = 2, kY = 3, kBias = 4 };

fe::DataType_t DataType(DType type) {
  switch (type) {
    case DType::kBF16:
      return fe::DataType_t::BFLOAT16;
    case DType::kF16:
      return fe::DataType_t::HALF;
    default:
      return fe::DataType_t::FLOAT;
  }
}

// cuDNN speaks of [n, c, h, w]; the strides say that channels are innermost.
fe::graph::Tensor_attributes Nhwc(Uid uid, int64_t n, int64_t h, int64_t w, int64_t c,
                                  fe::DataType_t type) {
  return fe::graph::Tensor_attributes()
      .set_uid(uid)
      .set_dim({n, c, h, w})
      .set_stride({h * w * c, 1, w * c, c})
      .set_data_type(type);
}

// "eng45_k2=5_k13=1": engine 45 with cuDNN's knob types 2 and 13 set.
struct NamedEngine {
  int64_t number = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // type and value
};

std::optional<NamedEngine> ParseEngine(const std::string& text) {
  if (text.compare(0, 3, "eng") != 0) return std::nullopt;
  NamedEngine engine;
  const char* p = text.c_str() + 3;
  char* end = nullptr;
  engine.number = std::strtoll(p, &end, 10);
  if (end == p) return std::nullopt;
  p = end;
  while (p[0] == '_' && p[1] == 'k') {
    int64_t type = std::strtoll(p + 2, &end, 10);
    if (end == p + 2 || *end != '=') return std::nullopt;
    p = end + 1;
    int64_t value = std::strtoll(p, &end, 10);
    if (end == p) return std::nullopt;
    p = end;
    engine.knobs.emplace_back(type, value);
  }
  if (*p != '\0') return std::nullopt;
  return engine;
}

fe::error_t SetKnob(fe::detail::backend_descriptor& knob, int64_t type, int64_t value) {
  auto knob_type = static_cast<cudnnBackendKnobType_t>(type);
  bool set =
      fe::detail::set_attribute(knob.get_ptr(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                CUDNN_TYPE_KNOB_TYPE, 1, &knob_type) == CUDNN_STATUS_SUCCESS &&
      fe::detail::set_attribute(knob.get_ptr(), CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64,
                                1, &value) == CUDNN_STATUS_SUCCESS &&
      fe::detail::finalize(knob.get_ptr()) == CUDNN_STATUS_SUCCESS;
  if (set) return {};
  return {fe::error_code_t::CUDNN_BACKEND_API_FAILED, fmt::format("no knob k{}={}", type, value)};
}

// Access to what cudnn-frontend keeps from its users.
class OpenGraph : public fe::graph::Graph {
 public:
  fe::graph::Execution_plan_list& plan_list() { return plans; }

  // As create_execution_plan, which has no names for some types of knobs (5, 14): an engine with
  // those would have to be searched among the heuristics' proposals, 40 ms each.
  fe::error_t Propose(const NamedEngine& named) {
    fe::detail::backend_descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    fe::error_t error = fe::detail::create_engine(
        engine, named.number, operation_graph->get_raw_desc(), device_properties);
    if (error.is_bad()) return error;
    std::vector<fe::detail::backend_descriptor> knobs;
    for (auto [type, value] : named.knobs) {
      knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
      error = SetKnob(knobs.back(), type, value);
      if (error.is_bad()) return error;
    }
    auto config = fe::make_shared_backend_pointer(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    error = fe::detail::create_engine_config(config, engine, knobs);
    if (error.is_bad()) return error;
    plans.enqueue_engine_configs({config});
    return plans.query_properties();
  }
};

class Target : public ConvTarget {
 public:
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<fe::DeviceProperties> properties;  // when there is no handle

  std::string Describe() const override {
    fe::DeviceProperties device;
    std::vector<uint8_t> json;
    fe::error_t error = device.set_handle(handle).build();
    if (error.is_good()) error = device.serialize(json);
    if (error.is_bad()) {
      throw UsageError({.what = "cuDNN can't describe the device: " + error.get_message(),
                        .expected = "cuDNN 9.11 or newer"});
    }
    return {json.begin(), json.end()};
  }
};

class Plan : public ConvPlan {
 public:
  Plan(std::shared_ptr<const Target> target, std::shared_ptr<OpenGraph> graph,
       std::shared_ptr<fe::ExecutionPlan> plan, bool bias)
      : target_(std::move(target)),
        graph_(std::move(graph)),
        plan_(std::move(plan)),
        uids_{kX, kW, kY} {
    if (bias) uids_.push_back(kBias);
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(std::max<int64_t>(0, plan_->getWorkspaceSize()));
  }

  std::string Compiled() const override {
    if (!graph_) return "";
    const auto& notes = plan_->getAllBehaviorNotes();
    if (std::find(notes.begin(), notes.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) ==
        notes.end()) {
      return "";
    }
    try {
      return plan_->getJsonRepresentation();
    } catch (const std::exception&) {
      return "";  // an engine whose plans cuDNN can't write
    }
  }

  void Run(const ConvBuffers& b, void* workspace) override {
    pointers_ = {b.x, b.w, b.y};
    if (uids_.size() > 3) pointers_.push_back(b.bias);
    fe::error_t error =
        fe::detail::execute(target_->handle, plan_.get(), pointers_, uids_, workspace);
    if (error.is_bad()) {
      throw JobError({.what = "cuDNN failed to run " + plan_->getTag() + ": " + error.get_message(),
                      .where = "cuda"});
    }
  }

 private:
  std::shared_ptr<const Target> target_;
  std::shared_ptr<OpenGraph> graph_;  // the plan refers to its descriptors; null for a loaded one
  std::shared_ptr<fe::ExecutionPlan> plan_;
  std::vector<int64_t> uids_;
  std::vector<void*> pointers_;
};

// What this problem must not be computed with.
std::vector<fe::NumericalNote_t> Refused(const ConvProblem& problem) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> refused = {Note::REDUCED_PRECISION_REDUCTION, Note::FFT,
                               Note::WINOGRAD_TILE_6x6, Note::WINOGRAD_TILE_13x13};
  if (problem.deterministic) refused.push_back(Note::NONDETERMINISTIC);
  if (problem.type == DType::kF32 && !problem.tf32) {
    // Plain fp32: tensor cores would round the inputs to tf32.
    refused.push_back(Note::TENSOR_CORE);
    refused.push_back(Note::DOWN_CONVERT_INPUTS);
  }
  return refused;
}

class Graph : public ConvGraph {
 public:
  Graph(std::shared_ptr<const Target> target, const ConvProblem& problem)
      : target_(std::move(target)), problem_(problem) {}

  fe::error_t Init() {
    graph_ = NewGraph();
    asked_ = false;
    fe::error_t error = graph_->validate();
    if (error.is_good()) error = graph_->build_operation_graph(target_->handle);
    return error;
  }

  std::vector<std::string> Engines() override {
    std::vector<std::string> names;
    if (asked_ && Init().is_bad()) return names;
    asked_ = true;
    fe::error_t error = graph_->create_execution_plans(
        {fe::HeurMode_t::A, fe::HeurMode_t::B, fe::HeurMode_t::FALLBACK});
    if (error.is_bad()) return names;
    std::vector<fe::NumericalNote_t> refused = Refused(problem_);
    for (int64_t i = 0; i < graph_->get_execution_plan_count(); ++i) {
      const auto& notes = graph_->plan_list().numeric_notes[static_cast<size_t>(i)];
      bool allowed = std::none_of(notes.begin(), notes.end(), [&](fe::NumericalNote_t note) {
        return std::find(refused.begin(), refused.end(), note) != refused.end();
      });
      std::string name;
      if (!allowed || graph_->get_plan_name_at_index(i, name).is_bad()) continue;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
  }

  bool Propose(const std::string& engine, std::string* why) override {
    std::optional<NamedEngine> named = ParseEngine(engine);
    if (!named) {
      *why = "unknown engine " + engine;
      return false;
    }
    fe::error_t error;
    if (asked_) error = Init();
    asked_ = true;
    if (error.is_good()) error = graph_->Propose(*named);
    if (error.is_bad()) *why = error.get_message();
    return error.is_good();
  }

  std::unique_ptr<ConvPlan> Build(const std::string& engine, std::string* why) override {
    for (int64_t i = 0; i < graph_->get_execution_plan_count(); ++i) {
      std::string name;
      if (graph_->get_plan_name_at_index(i, name).is_bad() || name != engine) continue;
      fe::error_t error = graph_->build_plan_at_index(i);
      if (error.is_good()) return Wrap(i);
      *why = error.get_message();
      return nullptr;
    }
    *why = "cuDNN doesn't propose " + engine;
    return nullptr;
  }

 private:
  std::shared_ptr<OpenGraph> NewGraph() const {
    auto graph = std::make_shared<OpenGraph>();
    fe::DataType_t type = DataType(problem_.type);
    graph->set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (target_->properties) graph->set_device_properties(target_->properties);
    const ConvProblem& c = problem_;
    auto x = Nhwc(kX, c.n, c.h, c.w, c.c, type);
    auto w = Nhwc(kW, c.k, c.r, c.s, c.c / c.groups, type);
    auto y = Nhwc(kY, c.n, c.p, c.q, c.k, type);
    switch (c.kind) {
      case ConvKind::kForward:
        Forward(*graph, graph->tensor(x), graph->tensor(w), y);
        break;
      case ConvKind::kDataGrad:
        Output(graph->conv_dgrad(graph->tensor(y), graph->tensor(w),
                                 Geometry(fe::graph::Conv_dgrad_attributes())),
               x);
        break;
      case ConvKind::kWeightGrad:
        Output(graph->conv_wgrad(graph->tensor(y), graph->tensor(x),
                                 Geometry(fe::graph::Conv_wgrad_attributes())),
               w);
        break;
    }
    return graph;
  }

  template <typename Attributes>
  Attributes Geometry(Attributes attributes) const {
    const ConvProblem& c = problem_;
    attributes.set_padding({c.pad[0], c.pad[1]})
        .set_stride({c.stride[0], c.stride[1]})
        .set_dilation({c.dilation[0], c.dilation[1]});
    return attributes;
  }

  static void Output(const TensorPtr& tensor, const fe::graph::Tensor_attributes& as) {
    tensor->set_output(true)
        .set_uid(as.get_uid())
        .set_dim(as.get_dim())
        .set_stride(as.get_stride())
        .set_data_type(as.get_data_type());
  }

  void Forward(OpenGraph& graph, const TensorPtr& x, const TensorPtr& w,
               const fe::graph::Tensor_attributes& y) const {
    TensorPtr result = graph.conv_fprop(x, w, Geometry(fe::graph::Conv_fprop_attributes()));
    if (problem_.bias) {
      TensorPtr bias = graph.tensor(Nhwc(kBias, 1, 1, 1, problem_.k, fe::DataType_t::FLOAT));
      result = graph.pointwise(
          result, bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    }
    if (problem_.relu) {
      result = graph.pointwise(
          result, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    }
    Output(result, y);
  }

  std::unique_ptr<ConvPlan> Wrap(int64_t index) const {
    return std::make_unique<Plan>(target_, graph_,
                                  graph_->plan_list().execution_plans[static_cast<size_t>(index)],
                                  problem_.bias);
  }

  std::shared_ptr<const Target> target_;
  ConvProblem problem_;
  std::shared_ptr<OpenGraph> graph_;
  bool asked_ = false;  // graph_ holds what Propose or Engines asked for
};

}  // namespace

std::shared_ptr<ConvTarget> ConvTarget::OfHandle(cudnnContext* handle) {
  fe::cudnn_dlhandle = OpenCudnn().handle;
  auto target = std::make_shared<Target>();
  target->handle = handle;
  return target;
}

std::shared_ptr<ConvTarget> ConvTarget::OfDescription(const std::string& json) {
  fe::cudnn_dlhandle = OpenCudnn().handle;
  auto target = std::make_shared<Target>();
  target->properties = std::make_shared<fe::DeviceProperties>();
  fe::error_t error = target->properties->deserialize({json.begin(), json.end()});
  if (error.is_bad()) {
    throw UsageError({.what = "cuDNN can't read the device's description: " + error.get_message(),
                      .expected = "cuDNN 9.11 or newer and a description that it wrote"});
  }
  return target;
}

std::unique_ptr<ConvGraph> ConvGraph::Create(std::shared_ptr<ConvTarget> target,
                                             const ConvProblem& problem, std::string* why) {
  auto graph =
      std::make_unique<Graph>(std::static_pointer_cast<const Target>(std::move(target)), problem);
  fe::error_t error = graph->Init();
  if (error.is_good()) return graph;
  *why = error.get_message();
  return nullptr;
}

std::unique_ptr<ConvPlan> ConvGraph::Load(std::shared_ptr<ConvTarget> target,
                                          const ConvProblem& problem, const std::string& json,
                                          std::string* why) {
  auto known = std::static_pointer_cast<const Target>(std::move(target));
  try {
    auto plan = std::make_shared<fe::ExecutionPlan>(
        fe::ExecutionPlanBuilder().setHandle(known->handle).loadFromJson(json));
    return std::make_unique<Plan>(std::move(known), nullptr, std::move(plan), problem.bias);
  } catch (const std::exception& e) {
    *why = e.what();
    return nullptr;
  }
}

}  // namespace xp::graph::cuda
