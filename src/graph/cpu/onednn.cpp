#include "src/graph/cpu/onednn.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exp/base/error.h"

namespace xp::graph::cpu {
namespace {

using dnnl::memory;
using Dims = memory::dims;

constexpr size_t kAlignment = 64;
constexpr auto kF32 = memory::data_type::f32;

memory::data_type TypeOf(DType type) {
  if (type == DType::kBF16) return memory::data_type::bf16;
  return type == DType::kF16 ? memory::data_type::f16 : kF32;
}

// oneDNN takes the number of threads from OpenMP's setting for the calling thread, both when it
// decides how to split work and when it runs.
class ThreadScope {
 public:
  explicit ThreadScope(int threads)
      : saved_threads_(omp_get_max_threads()), saved_dynamic_(omp_get_dynamic()) {
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
  }
  ~ThreadScope() {
    omp_set_num_threads(saved_threads_);
    omp_set_dynamic(saved_dynamic_);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int saved_threads_, saved_dynamic_;
};

const dnnl::engine& CpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN 3.4 and later can be held to repeatable results; on CPUs earlier ones repeat anyway.
template <typename Attr>
void MakeRepeatable(Attr& attr) {
  if constexpr (requires { attr.set_deterministic(true); }) attr.set_deterministic(true);
}

// fp32 means fp32, whatever ONEDNN_DEFAULT_FPMATH_MODE says.
dnnl::primitive_attr BaseAttr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  MakeRepeatable(attr);
  return attr;
}

void AppendRelu(dnnl::primitive_attr& attr) {
  dnnl::post_ops ops;
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
  ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
  attr.set_post_ops(ops);
}

// A primitive and what its operands look like on both sides.
struct Plan {
  dnnl::primitive primitive;
  std::string implementation;
  struct Operand {
    int arg = 0;
    memory::desc user, wanted;
  };
  Operand a, b, result;
  std::optional<memory::desc> bias;
  memory::desc scratchpad;
};

// An operand that may have to be reordered on its way in (a, b) or out (result).
class Port {
 public:
  Port(const Plan::Operand& operand, bool output, size_t& workspace_bytes)
      : user_(operand.user, CpuEngine(), nullptr), direct_(operand.user == operand.wanted) {
    if (direct_) return;
    inner_ = memory(operand.wanted, CpuEngine(), nullptr);
    offset_ = Reserve(workspace_bytes, operand.wanted.get_size());
    const memory::desc& from = output ? operand.wanted : operand.user;
    const memory::desc& to = output ? operand.user : operand.wanted;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(CpuEngine(), from, CpuEngine(), to, attr);
    reorder_ = dnnl::reorder(pd);
    scratchpad_ = memory(pd.scratchpad_desc(), CpuEngine(), nullptr);
    scratchpad_offset_ = Reserve(workspace_bytes, pd.scratchpad_desc().get_size());
  }

  static size_t Reserve(size_t& total, size_t bytes) {
    const size_t offset = total;
    total += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }

  const memory& operand() const { return direct_ ? user_ : inner_; }

  void Bind(void* data, char* workspace) {
    user_.set_data_handle(data);
    if (direct_) return;
    inner_.set_data_handle(workspace + offset_);
    scratchpad_.set_data_handle(workspace + scratchpad_offset_);
  }

  void Reorder(dnnl::stream& stream, bool output) {
    if (direct_) return;
    const memory& from = output ? inner_ : user_;
    const memory& to = output ? user_ : inner_;
    reorder_.execute(
        stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, scratchpad_}});
  }

 private:
  memory user_, inner_, scratchpad_;
  dnnl::primitive reorder_;
  size_t offset_ = 0, scratchpad_offset_ = 0;
  bool direct_;
};

class PlannedOp : public OnednnOp {
 public:
  PlannedOp(const Plan& plan, int threads)
      : threads_(threads),
        primitive_(plan.primitive),
        implementation_(plan.implementation),
        stream_(CpuEngine()),
        a_(plan.a, false, workspace_bytes_),
        b_(plan.b, false, workspace_bytes_),
        result_(plan.result, true, workspace_bytes_),
        scratchpad_(plan.scratchpad, CpuEngine(), nullptr),
        scratchpad_offset_(Port::Reserve(workspace_bytes_, plan.scratchpad.get_size())) {
    args_ = {{plan.a.arg, a_.operand()},
             {plan.b.arg, b_.operand()},
             {plan.result.arg, result_.operand()},
             {DNNL_ARG_SCRATCHPAD, scratchpad_}};
    if (plan.bias) {
      bias_ = memory(*plan.bias, CpuEngine(), nullptr);
      args_.emplace(DNNL_ARG_BIAS, bias_);
    }
  }

  size_t WorkspaceBytes() const override { return workspace_bytes_; }
  const char* Implementation() const override { return implementation_.c_str(); }

  void Run(const void* a, const void* b, const float* bias, void* result,
           void* workspace) override {
    const ThreadScope scope(threads_);
    char* space = static_cast<char*>(workspace);
    a_.Bind(const_cast<void*>(a), space);
    b_.Bind(const_cast<void*>(b), space);
    result_.Bind(result, space);
    scratchpad_.set_data_handle(space + scratchpad_offset_);
    if (bias != nullptr) bias_.set_data_handle(const_cast<float*>(bias));
    a_.Reorder(stream_, false);
    b_.Reorder(stream_, false);
    primitive_.execute(stream_, args_);
    result_.Reorder(stream_, true);
    stream_.wait();
  }

 private:
  int threads_;
  size_t workspace_bytes_ = 0;
  dnnl::primitive primitive_;
  std::string implementation_;
  dnnl::stream stream_;
  Port a_, b_, result_;
  memory scratchpad_, bias_;
  size_t scratchpad_offset_;
  std::unordered_map<int, memory> args_;
};

// Nothing to sum over or nothing to write: oneDNN leaves such results alone.
class EmptyOp : public OnednnOp {
 public:
  explicit EmptyOp(size_t result_bytes) : result_bytes_(result_bytes) {}
  size_t WorkspaceBytes() const override { return 0; }
  const char* Implementation() const override { return "empty"; }
  void Run(const void*, const void*, const float*, void* result, void*) override {
    if (result_bytes_ > 0) std::memset(result, 0, result_bytes_);
  }

 private:
  size_t result_bytes_;
};

template <typename PrimitiveDesc>
void FinishPlan(Plan& plan, const PrimitiveDesc& pd) {
  plan.implementation = pd.impl_info_str();
  plan.scratchpad = pd.scratchpad_desc();
}

// ---- convolution

struct ConvDescs {
  Dims strides, dilates, pad_low, pad_high;
  memory::desc x, w, y;  // as the caller holds them
  memory::desc bias;     // zero when there is none
  memory::desc w_any;    // as oneDNN may choose
};

ConvDescs DescribeConv(const ConvProblem& p) {
  ConvDescs d;
  d.strides = {p.stride[0], p.stride[1]};
  d.dilates = {p.dilation[0] - 1, p.dilation[1] - 1};
  d.pad_low = {p.pad[0], p.pad[1]};
  // What the output's size leaves; negative when the last rows aren't read.
  d.pad_high = {(p.out_height - 1) * p.stride[0] + (p.kernel_height - 1) * p.dilation[0] + 1 -
                    p.height - p.pad[0],
                (p.out_width - 1) * p.stride[1] + (p.kernel_width - 1) * p.dilation[1] + 1 -
                    p.width - p.pad[1]};
  const auto nhwc = memory::format_tag::nhwc;
  const auto type = TypeOf(p.type);
  d.x = memory::desc({p.batch, p.in_channels, p.height, p.width}, type, nhwc);
  d.y = memory::desc({p.batch, p.out_channels, p.out_height, p.out_width}, type, nhwc);
  const int64_t o = p.out_channels / p.groups, i = p.in_channels / p.groups;
  const int64_t kh = p.kernel_height, kw = p.kernel_width;
  Dims dims{o, i, kh, kw}, strides{kh * kw * i, 1, kw * i, i};  // ohwi
  if (p.groups > 1) {
    dims.insert(dims.begin(), p.groups);
    strides.insert(strides.begin(), o * kh * kw * i);
  }
  d.w = memory::desc(dims, type, strides);
  d.w_any = memory::desc(dims, type, memory::format_tag::any);
  if (p.bias) d.bias = memory::desc({p.out_channels}, kF32, memory::format_tag::x);
  return d;
}

dnnl::convolution_forward::primitive_desc ConvForward(const ConvDescs& d,
                                                      const dnnl::primitive_attr& attr) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {CpuEngine(), kind,      algorithm, d.x,       d.w_any,    d.bias,
          d.y,         d.strides, d.dilates, d.pad_low, d.pad_high, attr};
#else
  return {{kind, algorithm, d.x, d.w_any, d.bias, d.y, d.strides, d.dilates, d.pad_low, d.pad_high},
          attr,
          CpuEngine()};
#endif
}

Plan PlanConvForward(const ConvDescs& d, bool relu) {
  dnnl::primitive_attr attr = BaseAttr();
  if (relu) AppendRelu(attr);
  const auto pd = ConvForward(d, attr);
  Plan plan;
  plan.primitive = dnnl::convolution_forward(pd);
  plan.a = {DNNL_ARG_SRC, d.x, pd.src_desc()};
  plan.b = {DNNL_ARG_WEIGHTS, d.w, pd.weights_desc()};
  plan.result = {DNNL_ARG_DST, d.y, pd.dst_desc()};
  if (d.bias != memory::desc()) plan.bias = d.bias;
  FinishPlan(plan, pd);
  return plan;
}

Plan PlanConvDataGrad(const ConvDescs& d) {
  const auto hint = ConvForward(d, BaseAttr());
  const auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_backward_data::primitive_desc pd(CpuEngine(), algorithm, d.x, d.w_any,
                                                           d.y, d.strides, d.dilates, d.pad_low,
                                                           d.pad_high, hint, BaseAttr());
#else
  const dnnl::convolution_backward_data::primitive_desc pd(
      {algorithm, d.x, d.w_any, d.y, d.strides, d.dilates, d.pad_low, d.pad_high}, BaseAttr(),
      CpuEngine(), hint);
#endif
  Plan plan;
  plan.primitive = dnnl::convolution_backward_data(pd);
  plan.a = {DNNL_ARG_DIFF_DST, d.y, pd.diff_dst_desc()};
  plan.b = {DNNL_ARG_WEIGHTS, d.w, pd.weights_desc()};
  plan.result = {DNNL_ARG_DIFF_SRC, d.x, pd.diff_src_desc()};
  FinishPlan(plan, pd);
  return plan;
}

// A 1x1 convolution with strides as one without, of the pixels that it reads. oneDNN copies them
// itself, for the weight gradient into scratch memory that is too small where input channels don't
// fill its blocks (oneDNN 2.6 to 3.7, jit_1x1 of avx2 and avx512_core: `rp.ws` steps by whole
// blocks): it wrote over what lay behind, or over its own barrier and waited there for ever. It
// does so where strides divide the map, and other maps can't be described by strides.
bool ReadsFewPixels(const ConvProblem& p) {
  return p.kernel_height == 1 && p.kernel_width == 1 && p.pad == std::array{0, 0} &&
         p.stride != std::array{1, 1} && p.out_height * p.stride[0] == p.height &&
         p.out_width * p.stride[1] == p.width;
}

// As the caller holds them: each stride[0]-th row and stride[1]-th column of x.
memory::desc PixelsRead(const ConvProblem& p) {
  const int64_t row = p.width * p.in_channels;
  return {{p.batch, p.in_channels, p.out_height, p.out_width},
          TypeOf(p.type),
          Dims{p.height * row, 1, p.stride[0] * row, p.stride[1] * p.in_channels}};
}

ConvProblem OfPixelsRead(ConvProblem p) {
  p.height = p.out_height;
  p.width = p.out_width;
  p.stride = {1, 1};
  return p;
}

Plan PlanConvWeightGrad(const ConvDescs& d) {
  const auto hint = ConvForward(d, BaseAttr());
  const auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_backward_weights::primitive_desc pd(CpuEngine(), algorithm, d.x, d.w_any,
                                                              d.y, d.strides, d.dilates, d.pad_low,
                                                              d.pad_high, hint, BaseAttr());
#else
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {algorithm, d.x, d.w_any, d.y, d.strides, d.dilates, d.pad_low, d.pad_high}, BaseAttr(),
      CpuEngine(), hint);
#endif
  Plan plan;
  plan.primitive = dnnl::convolution_backward_weights(pd);
  plan.a = {DNNL_ARG_SRC, d.x, pd.src_desc()};
  plan.b = {DNNL_ARG_DIFF_DST, d.y, pd.diff_dst_desc()};
  plan.result = {DNNL_ARG_DIFF_WEIGHTS, d.w, pd.diff_weights_desc()};
  FinishPlan(plan, pd);
  return plan;
}

// ---- linear layers: products of plain matrices. oneDNN's inner product would want the weights
// blocked; reordering 50 MB costs as much as the product itself when there are few rows.

// A matrix that is stored by rows, or the transpose of one.
memory::desc Matrix(DType type, int64_t rows, int64_t columns, bool transposed = false) {
  const Dims strides = transposed ? Dims{1, rows} : Dims{columns, 1};
  return {{rows, columns}, TypeOf(type), strides};
}

// result [m, n] = a [m, k] b [k, n] (+ bias [n]).
Plan PlanProduct(const Plan::Operand& a, const Plan::Operand& b, const memory::desc& result,
                 const std::optional<memory::desc>& bias, bool relu) {
  dnnl::primitive_attr attr = BaseAttr();
  if (relu) AppendRelu(attr);
  const memory::desc bias_desc = bias.value_or(memory::desc());
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc pd(CpuEngine(), a.user, b.user, bias_desc, result, attr);
#else
  const dnnl::matmul::desc desc = bias ? dnnl::matmul::desc(a.user, b.user, bias_desc, result)
                                       : dnnl::matmul::desc(a.user, b.user, result);
  const dnnl::matmul::primitive_desc pd(desc, attr, CpuEngine());
#endif
  Plan plan;
  plan.primitive = dnnl::matmul(pd);
  plan.a = a;
  plan.b = b;
  plan.result = {DNNL_ARG_DST, result, result};
  plan.bias = bias;
  FinishPlan(plan, pd);
  return plan;
}

Plan PlanLinear(const LinearProblem& p, Direction direction) {
  const auto operand = [](int arg, const memory::desc& d) { return Plan::Operand{arg, d, d}; };
  const memory::desc x = Matrix(p.type, p.rows, p.in_features);
  const memory::desc w = Matrix(p.type, p.out_features, p.in_features);
  const memory::desc y = Matrix(p.type, p.rows, p.out_features);
  if (direction == Direction::kDataGrad) {
    return PlanProduct(operand(DNNL_ARG_SRC, y), operand(DNNL_ARG_WEIGHTS, w), x, {}, false);
  }
  if (direction == Direction::kWeightGrad) {  // dw = transpose(dy) x
    const auto dy = operand(DNNL_ARG_SRC, Matrix(p.type, p.out_features, p.rows, true));
    Plan plan = PlanProduct(dy, operand(DNNL_ARG_WEIGHTS, x), w, {}, false);
    std::swap(plan.a, plan.b);  // the caller gives x first
    return plan;
  }
  std::optional<memory::desc> bias;
  if (p.bias) bias = memory::desc({1, p.out_features}, kF32, memory::format_tag::ab);
  const auto w_transposed =
      operand(DNNL_ARG_WEIGHTS, Matrix(p.type, p.in_features, p.out_features, true));
  return PlanProduct(operand(DNNL_ARG_SRC, x), w_transposed, y, bias, p.relu);
}

// oneDNN's plain loops, a hundred times slower than its other code.
bool IsReference(const std::string& implementation) {
  return implementation.starts_with("ref") || implementation.starts_with("simple");
}

template <typename MakePlan>
std::unique_ptr<OnednnOp> Build(const std::string& what, DType type, int threads,
                                const MakePlan& make_plan) {
  try {
    const ThreadScope scope(threads);
    const Plan plan = make_plan();
    if (type != DType::kF32 && IsReference(plan.implementation)) return nullptr;
    return std::make_unique<PlannedOp>(plan, threads);
  } catch (const dnnl::error& e) {
    if (type != DType::kF32) return nullptr;
    throw JobError({.what = "oneDNN " + std::to_string(DNNL_VERSION_MAJOR) + "." +
                            std::to_string(DNNL_VERSION_MINOR) + " refuses " + what + ": " +
                            e.what(),
                    .where = {},
                    .expected = {},
                    .next = {}});
  }
}

std::string Text(const ConvProblem& p) {
  return "a convolution of [" + std::to_string(p.batch) + ", " + std::to_string(p.height) + ", " +
         std::to_string(p.width) + ", " + std::to_string(p.in_channels) + "] to " +
         std::to_string(p.out_channels) + " channels, kernel " + std::to_string(p.kernel_height) +
         " x " + std::to_string(p.kernel_width) + ", " + std::to_string(p.groups) + " groups";
}

}  // namespace

CpuBf16 Bf16Support() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [&](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (has(dnnl::cpu_isa::avx512_core_bf16)) return CpuBf16::kNative;
  return has(dnnl::cpu_isa::avx512_core) ? CpuBf16::kEmulated : CpuBf16::kNone;
}

std::unique_ptr<OnednnOp> MakeConvolution(const ConvProblem& p, Direction direction, int threads) {
  const int64_t x = p.batch * p.height * p.width * p.in_channels;
  const int64_t y = p.batch * p.out_height * p.out_width * p.out_channels;
  const int64_t w = p.out_channels * p.kernel_height * p.kernel_width * (p.in_channels / p.groups);
  if (x == 0 || y == 0 || w == 0) {
    const int64_t result = direction == Direction::kForward    ? y
                           : direction == Direction::kDataGrad ? x
                                                               : w;
    return std::make_unique<EmptyOp>(static_cast<size_t>(result) * DTypeSize(p.type));
  }
  return Build(Text(p), p.type, threads, [&] {
    if (direction == Direction::kWeightGrad && ReadsFewPixels(p)) {
      Plan plan = PlanConvWeightGrad(DescribeConv(OfPixelsRead(p)));
      plan.a.user = PixelsRead(p);
      return plan;
    }
    const ConvDescs d = DescribeConv(p);
    if (direction == Direction::kDataGrad) return PlanConvDataGrad(d);
    if (direction == Direction::kWeightGrad) return PlanConvWeightGrad(d);
    return PlanConvForward(d, p.relu);
  });
}

std::unique_ptr<OnednnOp> MakeProduct(const LinearProblem& p, Direction direction, int threads) {
  const int64_t x = p.rows * p.in_features, y = p.rows * p.out_features;
  const int64_t w = p.in_features * p.out_features;
  if (x == 0 || y == 0 || w == 0) {
    const int64_t result = direction == Direction::kForward    ? y
                           : direction == Direction::kDataGrad ? x
                                                               : w;
    return std::make_unique<EmptyOp>(static_cast<size_t>(result) * DTypeSize(p.type));
  }
  const std::string text =
      "a product of [" + std::to_string(p.rows) + ", " + std::to_string(p.in_features) + "] and [" +
      std::to_string(p.out_features) + ", " + std::to_string(p.in_features) + "]";
  return Build(text, p.type, threads, [&] { return PlanLinear(p, direction); });
}

}  // namespace xp::graph::cpu
