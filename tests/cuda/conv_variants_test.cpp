// Every way to put a convolution to cuDNN, with every engine it proposes, against loops in double:
// which one wins at run time depends on the device, so all of them must be right.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "catch.h"
#include "exp/base/temporary_folder.h"
#include "exp/graph/backend.h"
#include "src/graph/cuda/conv_variants.h"
#include "src/graph/cuda/cudnn_library.h"
#include "src/graph/cuda/own_conv.h"
#include "src/graph/cuda/plan_maker.h"
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

// A problem with its content on the device and what should come out.
class Checked {
 public:
  explicit Checked(const ConvProblem& c)
      : c_(c),
        x_(Draw(c.x_elements(), 1, c.type)),
        w_(Draw(c.w_elements(), 2, c.type)),
        y_(Draw(c.y_elements(), 3, c.type)),
        bias_(Draw(c.k, 4, DType::kF32)),
        want_(Reference(c, x_, w_, y_, bias_)),
        dx_(x_, c.type),
        dw_(w_, c.type),
        dy_(y_, c.type),
        dbias_(bias_, DType::kF32) {}

  // What it leaves, after a run over leftovers that would show.
  std::vector<float> Run(ConvPlan& plan) {
    OnDevice& out = c_.kind == ConvKind::kForward    ? dy_
                    : c_.kind == ConvKind::kDataGrad ? dx_
                                                     : dw_;
    void* workspace = nullptr;
    cudaMalloc(&workspace, plan.workspace_bytes() + 256);
    cudaMemset(workspace, 0xff, plan.workspace_bytes() + 256);
    out.Poison();
    cudaDeviceSynchronize();
    plan.Run({dx_.data(), dw_.data(), dy_.data(), dbias_.data()}, workspace);
    REQUIRE(cudaStreamSynchronize(TestDevice()->stream) == cudaSuccess);
    cudaFree(workspace);
    return out.Read();
  }
  void Check(ConvPlan& plan) { CHECK(WorstError(Run(plan), want_) <= Tolerance(c_)); }

 private:
  ConvProblem c_;
  std::vector<float> x_, w_, y_, bias_;
  std::vector<double> want_;
  OnDevice dx_, dw_, dy_, dbias_;
};

// The number of plans that ran.
int CheckProblem(const ConvProblem& c, size_t most_bytes = kMaxWorkspace) {
  Device* device = TestDevice();
  Checked checked(c);
  int ran = 0;
  for (const ConvVariant& variant : VariantsOf(c, most_bytes)) {
    std::string why;
    auto graph = ConvGraph::Create(device->target, variant.problem, &why);
    if (!graph) continue;
    for (const std::string& engine : graph->Engines()) {
      auto plan = graph->Build(engine, &why);
      if (!plan) continue;
      std::unique_ptr<ConvPlan> whole = Complete(variant, c, std::move(plan), device->stream);
      if (whole->workspace_bytes() > (size_t{1} << 30)) continue;
      INFO(c.Key() << " " << variant.name << ":" << engine);
      checked.Check(*whole);
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

TEST_CASE("images taken in parts give the reference's result") {
  ConvProblem p = Problem(ConvKind::kForward, DType::kF32, 9, 32, 24, 3, 2, 1);
  p.n = 6;
  const auto image = static_cast<size_t>((p.x_elements() + p.y_elements()) / p.n * 4);
  auto parts = [&](size_t most_bytes) {
    int64_t most = 1;
    for (const ConvVariant& v : VariantsOf(p, most_bytes)) {
      CHECK(v.problem.n * v.parts == p.n);
      most = std::max(most, v.parts);
    }
    return most;
  };
  CHECK(parts(6 * image) == 1);
  CHECK(parts(6 * image - 1) == 2);
  CHECK(parts(3 * image - 1) == 3);
  CHECK(parts(2 * image - 1) == 6);
  CHECK(parts(1) == 6);  // no less than an image
  p.c = 3;               // 9 x 10 x 3 values: every second image begins at 16 bytes
  CHECK(parts(1) == 3);
  p.c = 32;
  p.kind = ConvKind::kWeightGrad;
  CHECK(parts(1) == 1);
  p.kind = ConvKind::kDataGrad;
  CHECK(parts(image) == 6);
  p.tf32 = true;
  CHECK(parts(image) == 1);
  if (TestDevice() == nullptr) return;
  for (ConvKind kind : {ConvKind::kForward, ConvKind::kDataGrad}) {
    p.kind = kind;
    p.tf32 = false;
    p.bias = p.relu = kind == ConvKind::kForward;
    CHECK(CheckProblem(p, 2 * image) > CheckProblem(p));
  }
}

TEST_CASE("a first layer is put to cuDNN in every form") {
  ConvProblem stem = Problem(ConvKind::kWeightGrad, DType::kBF16, 21, 3, 16, 7, 2, 3);
  std::vector<std::string> names;
  for (const ConvVariant& v : VariantsOf(stem)) names.push_back(v.name);
  CHECK(names ==
        std::vector<std::string>{"plain", "pad4-plain", "pad8-plain", "depth-plain", "rows-plain"});
  stem.kind = ConvKind::kDataGrad;
  CHECK(VariantsOf(stem).size() == 1);
}

TEST_CASE("our own stem gives the reference's result, and the same bits each time") {
  if (TestDevice() == nullptr) return;
  struct Size {
    int64_t n, h, w;
    int multiprocessors;
  };
  // Widths of whole 16-byte chunks and others, units that reach beyond the map, one pixel; many
  // units a block where a device of few multiprocessors is made believe.
  for (const Size& s :
       {Size{1, 1, 1, 132}, Size{1, 7, 2, 132}, Size{2, 21, 23, 132}, Size{1, 9, 1344, 132},
        Size{3, 64, 96, 132}, Size{2, 64, 96, 1}, Size{3, 61, 111, 2}, Size{3, 62, 108, 2}}) {
    for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (ConvKind kind : {ConvKind::kForward, ConvKind::kWeightGrad}) {
        for (bool epilogue : {false, true}) {
          ConvProblem p = Problem(kind, type, 8, 3, 64, 7, 2, 3);
          p.n = s.n, p.h = s.h, p.w = s.w;
          p.p = (s.h - 1) / 2 + 1, p.q = (s.w - 1) / 2 + 1;
          p.bias = p.relu = epilogue;
          p.tf32 = type == DType::kF32;
          if (epilogue && kind != ConvKind::kForward) continue;
          INFO(p.Key());
          const auto plan = MakeStemConv(
              p,
              {.major = 9, .multiprocessors = s.multiprocessors, .stream = TestDevice()->stream});
          REQUIRE(plan);
          Checked checked(p);
          checked.Check(*plan);
          CHECK(checked.Run(*plan) == checked.Run(*plan));
        }
      }
    }
  }
}

TEST_CASE(
    "our own 3 x 3 weight gradient gives the reference's result, and the same bits each time") {
  if (TestDevice() == nullptr) return;
  struct Size {
    int64_t n, h, w, c, k;
    int multiprocessors;
  };
  // One pixel, units that reach beyond the map, several tiles of channels, many units a block.
  for (const Size& s :
       {Size{1, 1, 1, 64, 64, 132}, Size{2, 5, 7, 64, 128, 132}, Size{1, 16, 16, 192, 64, 132},
        Size{3, 9, 33, 64, 64, 132}, Size{5, 14, 14, 64, 64, 1}, Size{2, 7, 40, 128, 128, 9}}) {
    ConvProblem p = Problem(ConvKind::kWeightGrad, DType::kF32, 8, s.c, s.k, 3, 1, 1);
    p.n = s.n, p.h = p.p = s.h, p.w = p.q = s.w;
    p.tf32 = true;
    INFO(p.Key());
    const OwnConvTarget target{
        .major = 9, .multiprocessors = s.multiprocessors, .stream = TestDevice()->stream};
    const auto plan = MakeConv3x3Wgrad(p, target);
    REQUIRE(plan);
    Checked checked(p);
    checked.Check(*plan);
    CHECK(checked.Run(*plan) == checked.Run(*plan));
    p.tf32 = false;
    CHECK(!MakeConv3x3Wgrad(p, target));
    p.tf32 = true, p.stride = {2, 2};
    CHECK(!MakeConv3x3Wgrad(p, target));
  }
}

TEST_CASE("our own stem is among the plans and found by its name") {
  if (TestDevice() == nullptr) return;
  ConvProblem stem = Problem(ConvKind::kForward, DType::kBF16, 21, 3, 64, 7, 2, 3);
  auto choices = [](const ConvProblem& p, const std::string& choice) {
    std::vector<std::string> names;
    for (const PlanCandidate& c :
         MakePlans(TestDevice()->target, p, choice, 1, TestDevice()->stream).candidates) {
      names.push_back(c.choice);
    }
    return names;
  };
  CHECK(choices(stem, "").back() == "own:stem");
  CHECK(choices(stem, "own:stem") == std::vector<std::string>{"own:stem"});
  ConvProblem other = stem;
  other.type = DType::kF32;
  CHECK(choices(other, "").back() != "own:stem");
  CHECK(choices(other, "own:stem").empty());
  other.tf32 = true;
  CHECK(choices(other, "own:stem") == std::vector<std::string>{"own:stem"});
  other = stem, other.k = 32;
  CHECK(choices(other, "own:stem").empty());
}

TEST_CASE("a compiled plan that is loaded gives the bits of the one that was made") {
  if (TestDevice() == nullptr) return;
  const TemporaryFolder folder("plans");
  const CompiledPlans compiled(folder.path());
  const ConvProblem p = Problem(ConvKind::kForward, DType::kBF16, 20, 32, 64, 3, 1, 1);
  auto& [stream, handle, target] = *TestDevice();
  Checked checked(p);
  int loaded = 0;
  for (const PlanCandidate& made : MakePlans(target, p, "", 4, stream).candidates) {
    INFO(made.choice);
    const std::string json = made.plan->Compiled();
    if (json.empty()) continue;
    compiled.Add(p.Key(), made.choice, json);
    std::string why;
    for (const ConvVariant& variant : VariantsOf(p)) {
      if (made.choice.rfind(variant.name, 0) != 0) continue;
      CHECK(ConvGraph::Load(target, variant.problem, json, &why));
      CHECK_FALSE(ConvGraph::Load(target, variant.problem, json.substr(1), &why));
    }
    MadePlans again = MakePlans(target, p, made.choice, 4, stream, false, &compiled);
    REQUIRE(again.candidates.size() == 1);
    CHECK(again.candidates[0].plan->workspace_bytes() == made.plan->workspace_bytes());
    CHECK(checked.Run(*again.candidates[0].plan) == checked.Run(*made.plan));
    checked.Check(*again.candidates[0].plan);
    ++loaded;
  }
  CHECK(loaded > 0);  // cuDNN compiles what adds bias and ReLU
}

}  // namespace xp::graph::cuda
