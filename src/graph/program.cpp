#include "exp/graph/program.h"

#include <fmt/format.h>

#include <stdexcept>

#include "exp/base/error.h"
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

std::vector<std::unique_ptr<Kernel>> CreateKernels(Backend& backend, const Graph& g) {
  std::vector<std::unique_ptr<Kernel>> kernels;
  kernels.reserve(g.ops().size());
  for (const Op& op : g.ops()) {
    ThrowIfStopped(backend.stop());
    kernels.push_back(backend.CreateKernel(g, op));
  }
  return kernels;
}

// As the backend wants it. True where values may also change place: kernels of the CPU read and
// write in blocks and take no result in an input's place.
bool Rewrite(const Backend& backend, Graph* g) {
  if (!g->fusible()) return false;
  const StepPasses passes = backend.step_passes();
  RunStepPasses(*g, passes);
  if (StepPassesText(passes) == "none") return false;
  DelayWideOps(*g);
  MakeImagesAgain(*g);
  return backend.is_cuda();
}

std::vector<size_t> Workspaces(const std::vector<std::unique_ptr<Kernel>>& kernels) {
  std::vector<size_t> bytes;
  bytes.reserve(kernels.size());
  for (const auto& kernel : kernels) bytes.push_back(kernel->WorkspaceBytes());
  return bytes;
}

size_t Aligned(size_t n) {
  return (n + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

MemoryPlan Plan(const Graph& g, const std::vector<std::unique_ptr<Kernel>>& kernels,
                bool in_place) {
  return PlanMemory(g, Workspaces(kernels),
                    in_place ? GpuInPlace(g) : std::vector<std::vector<InPlace>>{});
}

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1u << 30); }

}  // namespace

Program::Program(Backend& backend, Graph graph, ParamBuffers& params, std::shared_ptr<Buffer> arena)
    : backend_(backend), graph_(std::move(graph)), params_(params) {
  const bool in_place = Rewrite(backend_, &graph_);
  kernels_ = CreateKernels(backend_, graph_);
  plan_ = Plan(graph_, kernels_, in_place);
  arena_ = std::move(arena);
  size_t needed = plan_.persistent_bytes;
  if (!arena_ || arena_->bytes() < plan_.arena_bytes) needed += plan_.arena_bytes;
  DeviceMemory memory = backend_.Memory();
  if (needed > memory.free_bytes) {
    throw MemoryLimit(
        {.what = fmt::format(
             "mem lim: one step needs {:.2f} GiB more, {:.2f} GiB of {:.2f} GiB are free",
             Gib(needed), Gib(memory.free_bytes), Gib(memory.total_bytes)),
         .where = backend_.name(),
         .next = "lower data.samples_per_gpu or img_scale, or free memory on the device"},
        needed, memory.free_bytes);
  }
  if (!arena_ || arena_->bytes() < plan_.arena_bytes) {
    arena_.reset();
    arena_ = backend_.Allocate(plan_.arena_bytes);
  }
  persistent_ = backend_.Allocate(plan_.persistent_bytes);

  address_.resize(graph_.tensors().size(), nullptr);
  size_t used = 0;
  for (size_t i = 0; i < address_.size(); ++i) {
    const Tensor& t = graph_.tensors()[i];
    if (t.storage == Storage::kTemp) {
      address_[i] = static_cast<char*>(arena_->data()) + plan_.offset[i];
    } else if (t.storage == Storage::kInput || t.storage == Storage::kOutput) {
      address_[i] = static_cast<char*>(persistent_->data()) + used;
      used += Aligned(t.bytes());
    } else if (void* base = params_.Data(t.storage)) {
      address_[i] = static_cast<char*>(base) + static_cast<size_t>(t.offset) * DTypeSize(t.dtype);
    } else {
      throw std::logic_error("the graph uses a flat buffer that doesn't exist: " + t.name);
    }
  }
  for (const Op& op : graph_.ops()) {
    auto& in = in_.emplace_back();
    auto& out = out_.emplace_back();
    for (TensorId id : op.inputs) in.push_back(id == kNoTensor ? nullptr : Address(id));
    for (TensorId id : op.outputs) out.push_back(id == kNoTensor ? nullptr : Address(id));
  }
}

size_t Program::BytesNeeded(Backend& backend, Graph graph) {
  const bool in_place = Rewrite(backend, &graph);
  MemoryPlan plan = Plan(graph, CreateKernels(backend, graph), in_place);
  return plan.persistent_bytes + plan.arena_bytes;
}

Program::~Program() {
  // Recordings refer to the buffers: they go first, and nothing may still be running.
  full_.reset();
  partial_.reset();
  try {
    backend_.Synchronize();
  } catch (const Error&) {  // a lost GPU: whoever ran it has the error already
  }
}

void* Program::Address(TensorId id) const { return address_[static_cast<size_t>(id)]; }

void Program::SetInput(TensorId id, const void* host, size_t bytes) {
  const Tensor& t = graph_.tensor(id);
  if (t.storage != Storage::kInput || bytes != t.bytes()) {
    throw std::logic_error(
        fmt::format("input {} takes {} bytes, not {}", t.name, t.bytes(), bytes));
  }
  backend_.Upload(Address(id), host, bytes);
}

void Program::SetInput(const std::string& name, const void* host, size_t bytes) {
  TensorId id = graph_.Find(name, Storage::kInput);
  if (id == kNoTensor) throw std::logic_error("no input is named " + name);
  SetInput(id, host, bytes);
}

void Program::RunRange(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    kernels_[i]->Run({in_[i], out_[i], static_cast<char*>(arena_->data()) + plan_.workspace[i]});
  }
}

void Program::Run(bool with_update) {
  size_t end = graph_.ops().size();
  if (!with_update) end = std::min(end, graph_.update_begin());
  auto& recording = with_update ? full_ : partial_;
  if (!recording) recording = backend_.Record([this, end] { RunRange(0, end); });
  recording->Launch();
}

void Program::Read(TensorId id, void* host, size_t bytes) const {
  if (bytes > graph_.tensor(id).bytes()) throw std::logic_error("reading past the end of a tensor");
  backend_.Download(host, Address(id), bytes);
}

std::unique_ptr<PendingRead> Program::ReadAsync(TensorId id) const {
  return backend_.DownloadAsync(Address(id), graph_.tensor(id).bytes());
}

std::vector<Program::OpTime> Program::Profile() {
  std::vector<double> milliseconds =
      backend_.TimeEach(kernels_.size(), [this](size_t i) { RunRange(i, i + 1); });
  std::vector<OpTime> times;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    times.push_back({graph_.ops()[i].name, graph_.ops()[i].type, milliseconds[i]});
  }
  return times;
}

}  // namespace xp::graph
