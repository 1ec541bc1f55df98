// Every way to put a convolution to cuDNN, with every engine it proposes, against loops in double:
// which one wins at run time depends on the device, so all of them must be right.
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "catch.h"
#include "exp/graph/backend.h"
#include "src/graph/cuda/conv_variants.h"
#include "src/graph/cuda/cudnn_library.h"
#include "src/graph/half.h"

namespace xp::graph::cuda {
namespace {

struct Device {
  cudaStream_t stream = nullptr;
  std::unique_ptr<CudnnHandle> handle;
  std::shared_ptr<ConvTarget> target;
};

// Null, after saying why, where there is no device.
Device* TestDevice() {
  static std::unique_ptr<Device> device = []() -> std::unique_ptr<Device> {
    std::string reason;
    if (CudaDeviceCount(&reason) == 0) {
      std::printf("CUDA is skipped: %s\n", reason.c_str());
      return nullptr;
    }
    auto made = std::make_unique<Device>();
    cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking);
    made->handle = std::make_unique<CudnnHandle>(made->stream);
    made->target = ConvTarget::OfHandle(made->handle->get());
    return made;
  }();
  return device.get();
}

float Rounded(float v, DType type) {
  if (type == DType::kBF16) return Bf16ToFloat(FloatToBf16(v));
  if (type == DType::kF16) return HalfToFloat(FloatToHalf(v));
  return v;
}

std::vector<float> Draw(int64_t n, uint32_t seed, DType type) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525 + 1013904223;
    values.push_back(Rounded(static_cast<float>(seed >> 8) / 8388608.0f - 1, type));
  }
  return values;
}

// A tensor on the device, in the type of the problem.
class OnDevice {
 public:
  OnDevice(const std::vector<float>& values, DType type) : type_(type), count_(values.size()) {
    std::vector<uint8_t> bytes(values.size() * DTypeSize(type));
    for (size_t i = 0; i < values.size(); ++i) {
      if (type == DType::kF32) {
        std::memcpy(bytes.data() + 4 * i, &values[i], 4);
      } else {
        uint16_t half = type == DType::kBF16 ? FloatToBf16(values[i]) : FloatToHalf(values[i]);
        std::memcpy(bytes.data() + 2 * i, &half, 2);
      }
    }
    cudaMalloc(&data_, bytes.size() + 16);
    cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  void* data() const { return data_; }
  void Poison() { cudaMemset(data_, 0xff, count_ * DTypeSize(type_)); }
  std::vector<float> Read() const {
    std::vector<uint8_t> bytes(count_ * DTypeSize(type_));
    cudaMemcpy(bytes.data(), data_, bytes.size(), cudaMemcpyDeviceToHost);
    std::vector<float> values(count_);
    for (size_t i = 0; i < count_; ++i) {
      if (type_ == DType::kF32) {
        std::memcpy(&values[i], bytes.data() + 4 * i, 4);
      } else {
        uint16_t half = 0;
        std::memcpy(&half, bytes.data() + 2 * i, 2);
        values[i] = type_ == DType::kBF16 ? Bf16ToFloat(half) : HalfToFloat(half);
      }
    }
    return values;
  }

 private:
  DType type_;
  size_t count_;
  void* data_ = nullptr;
};

// Calls f(x, w, y) with the indexes of each product.
template <typename F>
void EachProduct(const ConvProblem& c, const F& f) {
  int64_t ci = c.c / c.groups;
  int64_t co = c.k / c.groups;
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t p = 0; p < c.p; ++p)
      for (int64_t q = 0; q < c.q; ++q)
        for (int64_t r = 0; r < c.r; ++r)
          for (int64_t s = 0; s < c.s; ++s) {
            int64_t y = p * c.stride[0] - c.pad[0] + r * c.dilation[0];
            int64_t x = q * c.stride[1] - c.pad[1] + s * c.dilation[1];
            if (y < 0 || y >= c.h || x < 0 || x >= c.w) continue;
            for (int64_t k = 0; k < c.k; ++k)
              for (int64_t i = 0; i < ci; ++i)
                f(((n * c.h + y) * c.w + x) * c.c + k / co * ci + i,
                  ((k * c.r + r) * c.s + s) * ci + i, ((n * c.p + p) * c.q + q) * c.k + k);
          }
}

std::vector<double> Reference(const ConvProblem& c, const std::vector<float>& x,
                              const std::vector<float>& w, const std::vector<float>& y,
                              const std::vector<float>& bias) {
  auto at = [](const std::vector<float>& v, int64_t i) {
    return static_cast<double>(v[static_cast<size_t>(i)]);
  };
  std::vector<double> out;
  auto add = [&](int64_t i, double v) { out[static_cast<size_t>(i)] += v; };
  switch (c.kind) {
    case ConvKind::kForward:
      out.resize(y.size());
      EachProduct(c, [&](int64_t i, int64_t j, int64_t o) { add(o, at(x, i) * at(w, j)); });
      for (size_t i = 0; i < out.size(); ++i) {
        if (c.bias) out[i] += static_cast<double>(bias[i % bias.size()]);
        if (c.relu && out[i] < 0) out[i] = 0;
      }
      break;
    case ConvKind::kDataGrad:
      out.resize(x.size());
      EachProduct(c, [&](int64_t i, int64_t j, int64_t o) { add(i, at(y, o) * at(w, j)); });
      break;
    case ConvKind::kWeightGrad:
      out.resize(w.size());
      EachProduct(c, [&](int64_t i, int64_t j, int64_t o) { add(j, at(x, i) * at(y, o)); });
      break;
  }
  return out;
}

double Tolerance(const ConvProblem& c) {
  switch (c.type) {
    case DType::kBF16:
      return 8e-3;
    case DType::kF16:
      return 1e-3;
    default:
      return c.tf32 ? 2e-3 : 1e-5;
  }
}

double WorstError(const std::vector<float>& got, const std::vector<double>& want) {
  double largest = 1e-30;
  double worst = 0;
  for (double v : want) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < want.size(); ++i) {
    double error = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(error <= worst)) worst = error;  // NaN counts
    if (std::isnan(worst)) return worst;
  }
  return worst / largest;
}

// The number of plans that ran.
int CheckProblem(const ConvProblem& c) {
  Device* device = TestDevice();
  std::vector<float> x = Draw(c.x_elements(), 1, c.type);
  std::vector<float> w = Draw(c.w_elements(), 2, c.type);
  std::vector<float> y = Draw(c.y_elements(), 3, c.type);
  std::vector<float> bias = Draw(c.k, 4, DType::kF32);
  std::vector<double> want = Reference(c, x, w, y, bias);
  OnDevice dx(x, c.type);
  OnDevice dw(w, c.type);
  OnDevice dy(y, c.type);
  OnDevice db(bias, DType::kF32);
  OnDevice& out = c.kind == ConvKind::kForward ? dy : c.kind == ConvKind::kDataGrad ? dx : dw;
  int ran = 0;
  for (const ConvVariant& variant : VariantsOf(c)) {
    std::string why;
    auto graph = ConvGraph::Create(device->target, variant.problem, &why);
    if (!graph) continue;
    for (const std::string& engine : graph->Engines()) {
      auto plan = graph->Build(engine, &why);
      if (!plan) continue;
      std::unique_ptr<ConvPlan> whole = Complete(variant, c, std::move(plan), device->stream);
      if (whole->workspace_bytes() > (size_t{1} << 30)) continue;
      void* workspace = nullptr;
      cudaMalloc(&workspace, whole->workspace_bytes() + 256);
      cudaMemset(workspace, 0xff, whole->workspace_bytes() + 256);
      out.Poison();
      cudaDeviceSynchronize();
      whole->Run({dx.data(), dw.data(), dy.data(), db.data()}, workspace);
      INFO(c.Key() << " " << variant.name << ":" << engine);
      REQUIRE(cudaStreamSynchronize(device->stream) == cudaSuccess);
      cudaFree(workspace);
      CHECK(WorstError(out.Read(), want) <= Tolerance(c));
      ++ran;
    }
  }
  return ran;
}

ConvProblem Problem(ConvKind kind, DType type, int64_t size, int64_t c, int64_t k, int kernel,
                    int stride, int pad) {
  ConvProblem p;
  p.kind = kind;
  p.type = type;
  p.n = 2;
  p.h = size;
  p.w = size + 1;
  p.c = c;
  p.k = k;
  p.r = p.s = kernel;
  p.stride = {stride, stride};
  p.pad = {pad, pad};
  p.p = (p.h + 2 * pad - kernel) / stride + 1;
  p.q = (p.w + 2 * pad - kernel) / stride + 1;
  p.bias = p.relu = kind == ConvKind::kForward;
  return p;
}

}  // namespace

TEST_CASE("every variant and engine of a convolution gives the reference's result") {
  if (TestDevice() == nullptr) return;
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (bool tf32 : {false, true}) {
      if (tf32 && type != DType::kF32) continue;
      for (ConvKind kind : {ConvKind::kForward, ConvKind::kDataGrad, ConvKind::kWeightGrad}) {
        ConvProblem stem = Problem(kind, type, 21, 3, 16, 7, 2, 3);
        ConvProblem vgg = Problem(kind, type, 12, 3, 8, 3, 1, 1);
        ConvProblem plain = Problem(kind, type, 9, 32, 24, 3, 1, 1);
        ConvProblem grouped = Problem(kind, type, 9, 32, 32, 3, 2, 1);
        grouped.groups = 8;
        ConvProblem linear = Problem(kind, type, 1, 40, 24, 1, 1, 0);
        linear.n = 37;
        linear.w = linear.q = 1;
        linear.linear = true;
        for (ConvProblem p : {stem, vgg, plain, grouped, linear}) {
          if (kind == ConvKind::kDataGrad && p.c == 3) continue;
          p.tf32 = tf32;
          INFO(p.Key());
          CHECK(CheckProblem(p) > 0);
        }
      }
    }
  }
}

TEST_CASE("a first layer is put to cuDNN in every form") {
  ConvProblem stem = Problem(ConvKind::kWeightGrad, DType::kBF16, 21, 3, 16, 7, 2, 3);
  std::vector<std::string> names;
  for (const ConvVariant& v : VariantsOf(stem)) names.push_back(v.name);
  CHECK(names == std::vector<std::string>{"plain", "pad4-plain", "pad8-plain", "depth-plain",
                                          "rows-plain"});
  stem.kind = ConvKind::kDataGrad;
  CHECK(VariantsOf(stem).size() == 1);
}

}  // namespace xp::graph::cuda
