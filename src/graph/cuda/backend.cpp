// The CUDA backend: memory, copies and captured steps of one device. Operations come from the
// registries (kernel.h).
#include "exp/graph/backend.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "exp/base/error.h"
#include "exp/graph/memory_plan.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/cublas_library.h"
#include "src/graph/cuda/device.h"
#include "src/graph/cuda/dnn.h"
#include "src/graph/cuda/kernel.h"
#include "src/graph/cuda/recording.h"
#include "src/graph/cuda/staging.h"

namespace xp::graph {
namespace cuda {
namespace {

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1u << 30); }

class DeviceBuffer : public Buffer {
 public:
  DeviceBuffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~DeviceBuffer() override { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

// The stream that everything runs on, destroyed last.
class Stream {
 public:
  Stream() {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// In PlanNotes(): a reproduction rewrites its steps as the run did.
constexpr const char* kStepPassesNote = "step passes = ";

// Those of the recorded run whose plans are given; else everything that EXP_FUSION_OFF doesn't take
// away. In both cases what the libraries found can do.
StepPasses DevicePasses(const CudaOptions& options, const Device& device) {
  StepPasses all{
      .sums = true, .pairs = true, .pool = true, .squeeze = true, .gram = true, .strided = true};
  all.dgrad = device.major >= 8;  // tensor cores for bf16
  all.dgrad_tf32 = all.dgrad && options.tf32;
  StepPasses passes = options.plans.empty() ? AllowedStepPasses(all) : StepPasses{};
  for (const std::string& note : options.plans) {
    if (note.rfind(kStepPassesNote, 0) != 0) continue;
    passes = RecordedStepPasses(all, note.substr(std::strlen(kStepPassesNote)));
  }
  std::string why;
  if (passes.gram && !CublasAvailable(&why)) {
    std::fprintf(stderr, "note: batch norms make their own statistics, there is no cuBLAS: %s\n",
                 why.c_str());
    passes.gram = false;
  }
  passes.dgrad = passes.dgrad && all.dgrad;
  passes.dgrad_tf32 = passes.dgrad_tf32 && all.dgrad_tf32;
  return passes;
}

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options)
      : device_(OpenDevice(options.device)),
        dnn_(device_, options, stream_.get()),
        cublas_(stream_.get()),
        context_{stream_.get(), device_, options, &dnn_, &cublas_},
        uploader_(stream_.get()),
        downloader_(stream_.get()),
        passes_(DevicePasses(options, device_)),
        name_(fmt::format("cuda:{}", options.device)),
        description_(fmt::format("{}, driver {}, cuDNN {}", device_.name, DriverVersion(),
                                 dnn_.version_text())) {}
  ~CudaBackend() override { cudaStreamSynchronize(stream_.get()); }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  const std::string& name() const override { return name_; }
  const std::string& description() const override { return description_; }
  bool is_cuda() const override { return true; }
  StepPasses step_passes() const override { return passes_; }
  void StopAt(StopFlag stop) override {
    Backend::StopAt(stop);
    dnn_.StopAt(stop);
  }

  std::unique_ptr<Kernel> CreateKernel(const Graph& g, const Op& op) override {
    Use();
    for (auto* make : {MakeDnnKernel, MakeNnKernel, MakeDetectionKernel, MakeUpdateKernel}) {
      if (auto kernel = make(context_, g, op)) return kernel;
    }
    throw UsageError({.what = fmt::format("the operation {} ({}) doesn't run on a GPU",
                                          OpName(op.type), op.name),
                      .where = name_,
                      .next = "pass --device cpu"});
  }

  std::unique_ptr<Buffer> Allocate(size_t bytes) override;
  DeviceMemory Memory() const override {
    Use();
    size_t free_bytes = 0;
    size_t total = 0;
    Check(cudaMemGetInfo(&free_bytes, &total), "asking for free memory");
    return {free_bytes, total};
  }

  void Upload(void* device, const void* host, size_t bytes) override {
    Use();
    uploader_.Upload(device, host, bytes);
  }
  void Download(void* host, const void* device, size_t bytes) override {
    Use();
    Check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_.get()),
          "copying to the host");
    Check(cudaStreamSynchronize(stream_.get()), "running a step");
  }
  std::unique_ptr<PendingRead> DownloadAsync(const void* device, size_t bytes) override {
    Use();
    return downloader_.Start(device, bytes);
  }
  std::unique_ptr<Recording> Record(std::function<void()> body) override {
    Use();
    return Capture(stream_.get(), std::move(body));
  }
  void Synchronize() override {
    Use();
    Check(cudaStreamSynchronize(stream_.get()), "running a step");
  }
  std::vector<double> TimeEach(size_t count, const std::function<void(size_t)>& body) override {
    Use();
    return cuda::TimeEach(stream_.get(), count, body);
  }
  std::vector<std::string> PlanNotes() const override {
    std::vector<std::string> notes = dnn_.PlanNotes();
    notes.push_back(kStepPassesNote + StepPassesText(passes_));
    return notes;
  }

 private:
  // The current device belongs to a thread: a caller's other thread starts with device 0.
  void Use() const { Check(cudaSetDevice(device_.ordinal), "choosing the device"); }

  Device device_;
  Stream stream_;
  Dnn dnn_;
  SharedCublas cublas_;
  Context context_;
  Uploader uploader_;
  Downloader downloader_;
  StepPasses passes_;
  std::string name_, description_;
};

std::unique_ptr<Buffer> CudaBackend::Allocate(size_t bytes) {
  Use();
  void* data = nullptr;
  size_t asked = bytes == 0 ? kTensorAlignment : bytes;
  cudaError_t error = cudaMalloc(&data, asked);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    DeviceMemory memory = Memory();
    throw JobError(
        {.what = fmt::format("the GPU is full: {:.2f} GiB ({} bytes) asked for, {:.2f} GiB of "
                             "{:.2f} GiB are free",
                             Gib(asked), asked, Gib(memory.free_bytes), Gib(memory.total_bytes)),
         .where = name_,
         .next = "lower data.samples_per_gpu, or end the other programs that `nvidia-smi` shows"});
  }
  Check(error, "allocating memory");
  auto buffer = std::make_unique<DeviceBuffer>(data, bytes);
  Check(cudaMemsetAsync(data, 0, asked, stream_.get()), "clearing memory");
  return buffer;
}

}  // namespace
}  // namespace cuda

std::unique_ptr<Backend> CreateCudaBackend(const CudaOptions& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}

}  // namespace xp::graph
